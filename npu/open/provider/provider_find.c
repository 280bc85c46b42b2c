#include <string.h>

#include "npu/open/provider/provider.h"

static const struct provider_ops *const providers[] = {&provider_rknpu, &provider_emu};
#define N_PROVIDERS (sizeof providers / sizeof *providers)

int provider_find(const char *text, const struct provider_ops **ret, const char **options,
                  struct error *e)
{
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < N_PROVIDERS; i++)
        if (strlen(providers[i]->name) == n && strncmp(providers[i]->name, text, n) == 0) {
            *ret = providers[i];
            *options = text[n] ? text + n + 1 : "";
            return 0;
        }
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" names no way to an NPU; there are rknpu[:DEVICE], the maker's kernel "
                     "driver, and emu:CHIP, the emulator",
                     text);
}
