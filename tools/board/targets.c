// Hardware comes first: its time is what the ten minutes are for. The two that compute on this
// machine's processor are the comparison, and need none of it.
#include "tools/board/targets.h"

#include <stdio.h>
#include <string.h>

#define EMULATOR "emulator"
#define SOFTWARE "software"
#define ROCKET   "rocket"

static bool is_asked_for(const struct board_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->targets.n; i++)
        if (strcmp(plan->targets.items[i], name) == 0)
            return true;
    return plan->targets.n == 0;
}

// `backend` is for a daemon of the kit's own, `uri` for a server that runs already: one of the two.
static void add_target(const struct board_plan *plan, struct target *all, int *n, const char *name,
                       const char *backend, const char *uri, const char *words)
{
    if (!is_asked_for(plan, name))
        return;
    struct target *t = &all[(*n)++];
    *t = (struct target){.uri = uri, .words = words};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->backend, sizeof t->backend, "%s", backend);
}

// The driver's first node, and each one that is named: "rknpu:/dev/dri/card1".
static void add_driver(const struct board_plan *plan, struct target *all, int *n, const char *name,
                       const char *words)
{
    char backend[sizeof all->backend];
    size_t length = strlen(name);
    snprintf(backend, sizeof backend, "open:%s", name);
    add_target(plan, all, n, name, backend, NULL, words);
    for (size_t i = 0; i < plan->targets.n && *n < TARGETS_MAX - 2; i++) {
        const char *item = plan->targets.items[i];
        if (strncmp(item, name, length) != 0 || item[length] != ':' ||
            strlen(item) >= sizeof all->name || strpbrk(item, " ,\n"))
            continue;
        snprintf(backend, sizeof backend, "open:%s", item);
        add_target(plan, all, n, item, backend, NULL, words);
    }
}

// A name that is spelled wrongly, or that --server rules out, is not passed over in silence.
static int check_names(const struct board_plan *plan, const struct target *all, int n,
                       struct error *e)
{
    for (size_t i = 0; i < plan->targets.n; i++) {
        const char *name = plan->targets.items[i];
        int k = 0;
        while (k < n && strcmp(all[k].name, name) != 0)
            k++;
        if (k == n)
            return error_set(e, STATUS_PARAM_INVALID,
                             "--way \"%.60s\" is none of %s, " EMULATOR " and " SOFTWARE "%s", name,
                             plan->server ? "device" : "vendor, rknpu[:DEVICE], rocket[:DEVICE]",
                             plan->server ? " (with --server)" : "");
    }
    return 0;
}

int targets_fill(const struct board_plan *plan, const char *chip, struct target ret[TARGETS_MAX],
                 int *n, struct error *e)
{
    char emulator[128], software[128];
    *n = 0;
    snprintf(emulator, sizeof emulator, "emu:%.64s", chip);
    snprintf(software, sizeof software, "sim:%.64s", chip);
    if (plan->server) {
        add_target(plan, ret, n, "device", "", plan->server, "the server that was named");
    } else {
        add_target(plan, ret, n, "vendor", "vendor", NULL, "the maker's runtime");
        add_driver(plan, ret, n, "rknpu", "the open runtime on the maker's driver");
        add_driver(plan, ret, n, ROCKET, "the open runtime on mainline's driver");
    }
    add_target(plan, ret, n, EMULATOR, emulator, NULL, "the emulator of registers");
    add_target(plan, ret, n, SOFTWARE, software, NULL, "the software NPU");
    return check_names(plan, ret, *n, e);
}

bool target_joins_cores(const struct target *t)
{
    size_t n = strlen(ROCKET);
    return strncmp(t->name, ROCKET, n) != 0 || (t->name[n] && t->name[n] != ':');
}

bool target_is_hardware(const struct target *t)
{
    return strcmp(t->name, EMULATOR) != 0 && strcmp(t->name, SOFTWARE) != 0;
}
