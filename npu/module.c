// Backends as loadable modules: npu-NAME.so in the module folder, each with a table of functions.
// The table's head (version and sizes of structs) is checked before anything else of it is read, as
// a module of another release may have another layout.
#include "npu/module.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/cleanup.h"

// The name becomes part of a path: no slash, no dot.
static bool name_is_plain(const char *name)
{
    return name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(name);
}

// Tables began with a pointer before they had versions: it reads as a very large one.
#define IMPLAUSIBLE_VERSION 0x10000u

#define WHAT_TO_DO "install rknnd and its modules of one release, and restart rknnd"

static int check_version(const struct npu_backend *b, const char *path, struct error *e)
{
    if (b->api_version >= IMPLAUSIBLE_VERSION)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "%s is older than the versions of the backend interface: " WHAT_TO_DO,
                         path);
    if (b->api_version != NPU_API_VERSION)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "%s has version %u of the backend interface, and rknnd " RKNND_VERSION
                         " has version %u: " WHAT_TO_DO,
                         path, b->api_version, NPU_API_VERSION);
    return 0;
}

// Which struct has another size in the module than here; NULL: none.
static const char *other_struct(const struct npu_backend *b)
{
#define X(name) #name,
    static const char *const names[] = {NPU_STRUCT_LIST(X)};
#undef X
    static const uint32_t sizes[] = NPU_STRUCT_SIZES;
    if (b->size != sizeof *b)
        return "npu_backend";
    for (size_t i = 0; i < NPU_N_STRUCTS; i++)
        if (b->struct_sizes[i] != sizes[i])
            return names[i];
    return NULL;
}

// Whether the module's calls and structs are this program's: nothing else may be read of its table
// before.
static int check_head(const struct npu_backend *b, const char *path, struct error *e)
{
    int r = check_version(b, path, e);
    const char *other = r < 0 ? NULL : other_struct(b);
    if (other)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "%s was built with another struct %s than rknnd " RKNND_VERSION
                         ", though both have version %u of the backend interface: " WHAT_TO_DO,
                         path, other, NPU_API_VERSION);
    return r;
}

// A module without the symbol, or with another backend in it, is no such module.
static int find_backend(void *library, const char *path, const char *name,
                        const struct npu_backend **ret, struct error *e)
{
    const struct npu_backend *backend = dlsym(library, NPU_BACKEND_SYMBOL);
    int r = backend ? check_head(backend, path, e) : 0;
    if (r < 0)
        return r;
    if (!backend || strcmp(backend->name, name) != 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s is not the backend %s", path, name);
    *ret = backend;
    return 0;
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
    const struct npu_backend *backend;
    int r = find_backend(library, path, name, &backend, e);
    if (r < 0) {
        dlclose(library);
        return r;
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
