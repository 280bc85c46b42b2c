// The last error of each thread.
#include "client/last_error.h"

#include <stdio.h>

#include "base/log.h"
#include "rknnd.h"

static _Thread_local char words[sizeof((struct error *)0)->text + 64];

int last_error_keep(const char *function, int status, const struct error *e)
{
    if (status < 0) {
        snprintf(words, sizeof words, "%s: %s", function, e->text);
        log_error("%s (%d)", words, status);
    }
    return status;
}

RKNN_EXPORT const char *rknnd_last_error(void)
{
    return words;
}
