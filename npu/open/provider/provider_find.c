// Which driver there is is found by asking: the first one that answers is taken. One that answers
// and is of a version that nobody knows is an error, not a reason to ask the next.
#include <string.h>

#include "npu/open/provider/provider.h"

static const struct provider_ops *const providers[] = {&provider_rknpu, &provider_rocket,
                                                       &provider_emu};
#define N_PROVIDERS (sizeof providers / sizeof *providers)

// Those that have a driver, in the order in which they are tried when none is named.
static const struct provider_ops *const drivers[] = {&provider_rknpu, &provider_rocket};
#define N_DRIVERS (sizeof drivers / sizeof *drivers)

// ---- whichever there is ----

static int any_open(const char *options, struct provider **ret, struct error *e)
{
    struct error found[N_DRIVERS];
    for (size_t i = 0; i < N_DRIVERS; i++) {
        int s = drivers[i]->open(options, ret, &found[i]);
        if (s == 0)
            return 0;
        if (s != STATUS_DEVICE_UNAVAILABLE)
            return error_set(e, s, "%s", found[i].text);
    }
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no NPU was found: %.220s; %.220s",
                     found[0].text, found[1].text);
}

static int any_list_paths(const char *options, npu_add_path *add, void *owner, struct error *e)
{
    int s = 0;
    for (size_t i = 0; i < N_DRIVERS && s == 0; i++)
        s = drivers[i]->list_paths(options, add, owner, e);
    return s;
}

static const struct provider_ops any = {.name = "", .list_paths = any_list_paths, .open = any_open};

int provider_find(const char *text, const struct provider_ops **ret, const char **options,
                  struct error *e)
{
    size_t n = strcspn(text, ":,");
    *options = text[n] == ':' ? text + n + 1 : text + n;
    *ret = n == 0 ? &any : NULL;
    for (size_t i = 0; i < N_PROVIDERS; i++)
        if (strlen(providers[i]->name) == n && strncmp(providers[i]->name, text, n) == 0)
            *ret = providers[i];
    if (*ret)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" names no way to an NPU; there are rknpu[:DEVICE], the maker's kernel "
                     "driver, rocket[:DEVICE], mainline's, and emu:CHIP, the emulator",
                     text);
}
