// rknnd_set_load_options(): text for the server's model readers, kept per thread, so that one
// thread's options do not change another's models.
#include "client/model/load_options.h"

#include <string.h>

#include "client/last_error.h"
#include "protocol/message.h"
#include "rknnd.h"

static _Thread_local char options[sizeof((rknnd_ContextOpen *)0)->options];

const char *load_options(void)
{
    return options;
}

RKNN_EXPORT int rknnd_set_load_options(const char *text)
{
    struct error e;
    size_t size = text ? strlen(text) : 0;
    int r = 0;
    if (size >= sizeof options)
        r = error_set(&e, STATUS_PARAM_INVALID, "%zu bytes of load options; %zu are allowed", size,
                      sizeof options - 1);
    else
        memcpy(options, text ? text : "", size + 1);
    return last_error_keep("rknnd_set_load_options", r, &e);
}
