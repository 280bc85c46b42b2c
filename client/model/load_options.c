// rknnd_set_load_options(): text for the server's model readers, kept per thread, so that one
// thread's options do not change another's models.
#include "client/model/load_options.h"

#include <string.h>

#include "client/last_error.h"
#include "protocol/message.h"
#include "rknnd.h"

static _Thread_local char kept[sizeof((rknnd_ContextOpen *)0)->options];

const char *load_options(void)
{
    return kept;
}

RKNN_EXPORT const char *rknnd_get_load_options(void)
{
    return kept;
}

RKNN_EXPORT int rknnd_set_load_options(const char *options)
{
    struct error e;
    size_t size = options ? strlen(options) : 0;
    int r = 0;
    if (size >= sizeof kept)
        r = error_set(&e, STATUS_PARAM_INVALID, "%zu bytes of load options; %zu are allowed", size,
                      sizeof kept - 1);
    else
        memcpy(kept, options ? options : "", size + 1);
    return last_error_keep("rknnd_set_load_options", r, &e);
}
