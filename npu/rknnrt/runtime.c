// Finds and opens the vendor's library (librknnrt.so, or librknnmrt.so of the small chips) with
// dlopen(), so that rknnd itself does not depend on it. Functions are looked up one by one: which
// exist depends on the library's version.
#include "npu/rknnrt/runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/log.h"

#define OURS "rknnd_version" // that only our client library exports
#define MARK " version: "    // behind the library's name, in front of its version (SDK guide 2.2.3)

// The loader's own search first, then where images of boards keep it.
static const char *const places[] = {"librknnrt.so",
                                     "/usr/lib/librknnrt.so",
                                     "/usr/lib64/librknnrt.so",
                                     "/vendor/lib64/librknnrt.so",
                                     "/vendor/lib/librknnrt.so",
                                     "librknnmrt.so",
                                     "/oem/usr/lib/librknnmrt.so",
                                     "/usr/lib/librknnmrt.so"};

// Each function with the version that brought it, for messages.
static const struct {
    char name[40], since[8];
} calls[] = {
#define X(name, since) {"rknn_" #name, since},
    RUNTIME_CALLS(X)
#undef X
};

int runtime_lacks(const struct runtime *r, const char *name, struct error *e)
{
    const char *since = "";
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strncmp(calls[i].name, name, sizeof calls[i].name) == 0)
            since = calls[i].since;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "this needs runtime >= %s: %s (version %s) lacks %s", since, r->path,
                     r->version, name);
}

int runtime_failed(const struct runtime *r, const char *call, int code, struct error *e)
{
    int status = status_from_peer(code);
    return error_set(e, status, "the runtime's %s: %s (%d; version %s)", call, status_text(status),
                     code, r->version);
}

// The version, as text in the file: "librknnrt version: 2.3.2 (…)". The API tells it only of an
// open context, and opening one takes a model. A "%" marks the format string that it is printed
// with.
static void read_version(const char *path, char *ret, size_t size)
{
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    cleanup(free_p) char *part = NULL;
    size_t room = 0;
    snprintf(ret, size, "unknown");
    // Texts end with a zero byte, and no part between two of them is large.
    while (f && getdelim(&part, &room, 0, f) > 0) {
        const char *lib = strstr(part, "librknn"), *mark = lib ? strstr(lib, MARK) : NULL;
        if (!mark || !mark[strlen(MARK)] || mark[strlen(MARK)] == '%')
            continue;
        snprintf(ret, size, "%s", mark + strlen(MARK));
        ret[strcspn(ret, "\n")] = 0;
        return;
    }
}

// Functions that the library lacks stay NULL.
static void find_calls(struct runtime *r)
{
#define X(name, since) r->name = (__typeof__(r->name))dlsym(r->library, "rknn_" #name);
    RUNTIME_CALLS(X)
#undef X
}

// Which functions the backend cannot do without: librknnmrt.so has no rknn_inputs_set() and its
// relatives, so the small chips need those for memory.
static int check_calls(const struct runtime *r, struct error *e)
{
    const struct {
        const char *name;
        bool missing;
    } needed[] = {{"rknn_init", !r->init},
                  {"rknn_destroy", !r->destroy},
                  {"rknn_query", !r->query},
                  {"rknn_run", !r->run},
                  {"rknn_inputs_set", !r->small && !r->inputs_set},
                  {"rknn_outputs_get", !r->small && !r->outputs_get},
                  {"rknn_outputs_release", !r->small && !r->outputs_release},
                  {"rknn_create_mem", r->small && !r->create_mem},
                  {"rknn_destroy_mem", r->small && !r->destroy_mem},
                  {"rknn_set_io_mem", r->small && !r->set_io_mem}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].missing)
            return runtime_lacks(r, needed[i].name, e);
    return 0;
}

// The file that the loader chose, for messages and read_version().
static void note_path(struct runtime *r, const char *path)
{
    Dl_info info;
    void *function = dlsym(r->library, "rknn_init");
    bool found = function && dladdr(function, &info) != 0 && info.dli_fname;
    snprintf(r->path, sizeof r->path, "%s", found ? info.dli_fname : path);
}

// RTLD_NODELETE: libraries of this kind start threads, which would lose their code on dlclose().
// Our own client library has the same soname and may be found first; it is told by a symbol that
// only it exports.
static int open_one(struct runtime *r, const char *path, bool small, struct error *e)
{
    *r = (struct runtime){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE),
                          .small = small};
    if (!r->library)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s", dlerror());
    note_path(r, path);
    if (dlsym(r->library, OURS)) {
        dlclose(r->library);
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "%s is the client library of rknnd, which would call the daemon itself; "
                         "the vendor's own is needed",
                         r->path);
    }
    read_version(r->path, r->version, sizeof r->version);
    find_calls(r);
    return check_calls(r, e);
}

// Of all failures the most telling is reported: the first one, unless a later place had our own
// library or one that is too old.
int runtime_open(struct runtime *r, const char *path, bool small, struct error *e)
{
    struct error last, first = {0};
    size_t n = *path ? 1 : sizeof places / sizeof *places;
    for (size_t i = 0; i < n; i++) {
        const char *place = *path ? path : places[i];
        if (open_one(r, place, small, &last) == 0)
            return 0;
        log_debug("backend vendor: %s", last.text);
        first = i == 0 || strstr(last.text, "rknnd") || strstr(last.text, "needs") ? last : first;
    }
    *r = (struct runtime){0};
    if (*path)
        return error_set(e, first.code, "backend vendor: %s", first.text);
    return error_set(e, first.code,
                     "backend vendor: no runtime of the vendor's found (librknnrt.so or "
                     "librknnmrt.so; %s); install it or name it: --backend vendor:PATH",
                     first.text);
}
