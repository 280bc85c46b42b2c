#include "worker/sandbox/sandbox_policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int sandbox_add(struct sandbox *s, const char *path, enum npu_access access, struct error *e)
{
    if (!path[0])
        return 0;
    if (s->n_paths == SANDBOX_MAX_PATHS || strlen(path) >= sizeof s->paths[0].path)
        return error_set(e, STATUS_PARAM_INVALID,
                         "path %.64s… does not fit the worker's sandbox (%d paths, %zu bytes each)",
                         path, SANDBOX_MAX_PATHS, sizeof s->paths[0].path - 1);
    struct sandbox_path *p = &s->paths[s->n_paths++];
    strcpy(p->path, path);
    p->access = access;
    return 0;
}

int sandbox_each_library_folder(int (*look)(void *owner, const char *folder, struct error *e),
                                void *owner, struct error *e)
{
    const char *at = getenv("LD_LIBRARY_PATH");
    int r = 0;
    while (r == 0 && at && *at) {
        size_t n = strcspn(at, ":;");
        cleanup(free_p) char *folder = strndup(at, n);
        if (!folder)
            return error_no_memory(e, "a path", n);
        r = n ? look(owner, folder, e) : 0;
        at += n + (at[n] != 0);
    }
    return r;
}
