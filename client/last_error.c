// The last error of each thread.
#include "client/last_error.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "rknnd.h"

static _Thread_local char words[sizeof((struct error *)0)->text + 64];

static void read_log_level(void)
{
    if (!getenv("RKNN_LOG_LEVEL"))
        log_set_level(LOG_SILENT);
    else if (!log_set_level_text(getenv("RKNN_LOG_LEVEL")))
        log_warn("RKNN_LOG_LEVEL is not a number from 0 to 5");
}

void last_error_read_log_level(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_log_level);
}

int last_error_keep(const char *function, int status, const struct error *e)
{
    if (status < 0) {
        last_error_read_log_level();
        snprintf(words, sizeof words, "%s: %s", function, e->text);
        log_error("%s (%d)", words, status);
    }
    return status;
}

RKNN_EXPORT const char *rknnd_last_error(void)
{
    return words;
}
