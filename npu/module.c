// Backends as loadable modules.
#include "npu/module.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/cleanup.h"

static bool name_is_plain(const char *name)
{
    return name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name);
}

// The daemon and its modules are of one release, but for the time that an upgrade takes.
static int check_release(void *library, const char *path, struct error *e)
{
    const char *release = dlsym(library, NPU_RELEASE_SYMBOL);
    if (release && strcmp(release, RKNND_VERSION) == 0)
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "%s is of %s%.32s, and this is rknnd " RKNND_VERSION
                     ": install both of one release, and restart rknnd",
                     path, release ? "rknnd " : "no known release", release ? release : "");
}

int npu_module_open(struct npu_module *m, const char *dir, const char *name, struct error *e)
{
    if (!name_is_plain(name))
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not the name of a backend", name);
    cleanup(free_p) char *path = NULL;
    if (asprintf(&path, "%s/npu-%s.so", dir, name) < 0) {
        path = NULL;
        return error_no_memory(e, "a module's path", strlen(dir) + strlen(name));
    }
    // Never unmapped: libraries behind it (OpenMP's) keep threads that would lose their code.
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "backend %s: %s", name, dlerror());
    int r = check_release(library, path, e);
    if (r < 0) {
        dlclose(library);
        return r;
    }
    const struct npu_backend *backend = dlsym(library, NPU_BACKEND_SYMBOL);
    if (!backend || strcmp(backend->name, name) != 0) {
        dlclose(library);
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s is not the backend %s", path, name);
    }
    backend->log_use(log_used());
    *m = (struct npu_module){.library = library, .backend = backend};
    return 0;
}

void npu_module_close(struct npu_module *m)
{
    if (m->library)
        dlclose(m->library);
    *m = (struct npu_module){0};
}
