#include "worker/sandbox/sandbox_policy.h"

#include <string.h>

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
