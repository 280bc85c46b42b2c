#include "npu/open/open_options.h"

#include <string.h>

int open_options_parse(const char *backend, const char *text, const struct provider_ops **ret,
                       const char **options, struct error *e)
{
    if (strcmp(backend, "open") == 0)
        return provider_find(text, ret, options, e);
    *options = text;
    return provider_find(backend, ret, &(const char *){NULL}, e);
}
