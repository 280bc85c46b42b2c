// Plugins for custom operators (SDK guide 5.5.4.4).
//
// The folder is searched once, when a model first contains an operator that the device does not
// know. Libraries stay loaded for the life of the process: threads and exit handlers that their
// code may have created still need it. Called on the threads of runs, so the list is built under a
// lock; afterwards it does not change and is read without.
#include "worker/plugins.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "custom/custom_op.h"

#define PATTERN "librkcst_*.so"
#define SYMBOL  "get_rknn_custom_op"
#define VERSION 1u // of rknn_custom_op, the only one there is

struct plugin {
    struct plugin *next;
    const rknn_custom_op *op;
    char path[];
};

void plugins_init(struct plugins *p, const char *dir, const char *module_dir,
                  struct breadcrumbs *breadcrumbs)
{
    *p = (struct plugins){
        .dir = dir, .owner = geteuid(), .module_dir = module_dir, .breadcrumbs = breadcrumbs};
    pthread_mutex_init(&p->lock, NULL);
}

void plugins_done(struct plugins *p)
{
    struct plugin *next;
    for (struct plugin *i = p->first; i; i = next) {
        next = i->next;
        free(i);
    }
    pthread_mutex_destroy(&p->lock);
}

// A plugin's code runs with the rights of the service, so nobody else may be able to write to the
// file, or to put another one in its place.
static bool is_ours(const struct plugins *p, const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == p->owner) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

// The folder that was used last. It stays open, so that the paths of what was loaded out of it stay
// true: libraries that plugins need lie beside them ($ORIGIN), and the dynamic linker takes a path
// that it has seen for the library that it loaded by it.
static struct {
    pthread_mutex_t lock;
    bool open;
    int fd;
    struct stat st;
} last_dir = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Takes over the descriptor of a folder; one for the same folder, which stays open.
static int keep_dir(int fd, const struct stat *st)
{
    pthread_mutex_lock(&last_dir.lock);
    if (last_dir.open && last_dir.st.st_dev == st->st_dev && last_dir.st.st_ino == st->st_ino) {
        fd_close(fd);
    } else {
        last_dir.open = true;
        last_dir.fd = fd;
        last_dir.st = *st;
    }
    fd = last_dir.fd;
    pthread_mutex_unlock(&last_dir.lock);
    return fd;
}

// The folder, opened; not the caller's. What is checked is what is used from then on, whatever its
// path leads to.
static int plugins_open_dir(const struct plugins *p, struct error *e)
{
    struct stat st;
    int fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set_errno(e, STATUS_FAIL, errno, "folder %s of plugins", p->dir);
    } else if (!is_ours(p, &st)) {
        error_set(e, STATUS_FAIL,
                  "no plugin of %s is used: the folder must be root's or that of the service's "
                  "user, and nobody else may write to it",
                  p->dir);
    } else {
        return keep_dir(fd, &st);
    }
    fd_close(fd);
    return STATUS_FAIL;
}

static int plugins_check_file(const struct plugins *p, int dir, const char *path, struct error *e)
{
    struct stat st;
    if (fstatat(dir, strrchr(path, '/') + 1, &st, 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "plugin %s", path);
    if (!S_ISREG(st.st_mode) || !is_ours(p, &st))
        return error_set(e, STATUS_FAIL,
                         "plugin %s is not used: it must be a file of root's or of the service's "
                         "user, which nobody else may write to",
                         path);
    return 0;
}

static int check_op(const char *path, const rknn_custom_op *op, struct error *e)
{
    if (!op)
        return error_set(e, STATUS_FAIL, "plugin %s gives no operator", path);
    if (op->version != VERSION)
        return error_set(e, STATUS_FAIL, "plugin %s has version %u of rknn_custom_op, not %u", path,
                         op->version, VERSION);
    return custom_op_check(op, e) < 0 ? error_prefix(e, "plugin %s", path) : 0;
}

// Loads one library and checks the operator that it describes. Loading runs the library's
// constructors, so it is loaded out of the folder that was checked, where nobody else can put
// another file in its place; the folder's path could lead elsewhere by then.
static int plugins_load(const struct plugins *p, int dir, const char *path,
                        const rknn_custom_op **ret, struct error *e)
{
    char by_fd[NAME_MAX + 32];
    if (plugins_check_file(p, dir, path, e) < 0)
        return e->code;
    snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d/%s", dir, strrchr(path, '/') + 1);
    void *library = dlopen(by_fd, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(e, STATUS_FAIL, "plugin %s cannot be loaded: %s", path, dlerror());
    get_custom_op_func get = (get_custom_op_func)dlsym(library, SYMBOL);
    const rknn_custom_op *op = get ? get() : NULL;
    int r = get ? check_op(path, op, e)
                : error_set(e, STATUS_FAIL, "plugin %s has no function " SYMBOL "()", path);
    if (r < 0)
        dlclose(library);
    else
        *ret = op;
    return r;
}

// A plugin that cannot be used is logged and remembered as the reason for the error that a run gets
// if its operator is then missing; the others stay usable.
static void plugins_add(struct plugins *p, int dir, const char *name)
{
    size_t size = strlen(p->dir) + strlen(name) + 2;
    struct plugin *i = calloc(1, sizeof *i + size);
    struct error e;
    if (!i) {
        error_no_memory(&p->unusable, "a plugin", size);
        return;
    }
    snprintf(i->path, size, "%s/%s", p->dir, name);
    int crumb = breadcrumbs_enter(p->breadcrumbs, "the loading of plugin %s", i->path);
    int r = plugins_load(p, dir, i->path, &i->op, &e);
    breadcrumbs_leave(p->breadcrumbs, crumb);
    if (r < 0) {
        log_warn("%s", e.text);
        p->unusable = e;
        free(i);
        return;
    }
    struct plugin **at = &p->first;
    while (*at)
        at = &(*at)->next;
    *at = i;
}

static int is_plugin(const struct dirent *entry)
{
    return fnmatch(PATTERN, entry->d_name, 0) == 0;
}

// Plugins may be linked with librknnrt.so. Once it is loaded by path, the dynamic linker resolves
// their dependency by its soname, even if it is not installed in a system folder. Failure is
// ignored: most plugins do not need it.
static void load_client_library(const struct plugins *p)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/client/librknnrt.so", p->module_dir) < (int)sizeof path)
        dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

// In alphabetical order, so that of two plugins for one operator always the same one is used. A
// folder that is not there is empty. (access() would leave capabilities out of account, by which
// root's worker reads folders of root's.)
static void open_all(struct plugins *p)
{
    struct dirent **names;
    p->open = true;
    if (!p->dir[0] || euidaccess(p->dir, F_OK) < 0)
        return;
    int dir = plugins_open_dir(p, &p->unusable);
    int n = dir < 0 ? 0 : scandirat(dir, ".", &names, is_plugin, alphasort);
    if (dir < 0)
        log_warn("%s", p->unusable.text);
    if (n > 0)
        load_client_library(p);
    for (int i = 0; i < n; i++) {
        plugins_add(p, dir, names[i]->d_name);
        free(names[i]);
    }
    if (n > 0)
        free(names);
}

static const struct plugin *plugins_find_loaded(const struct plugins *p, const char *type)
{
    for (const struct plugin *i = p->first; i; i = i->next)
        if (strcmp(i->op->op_type, type) == 0)
            return i;
    return NULL;
}

const rknn_custom_op *plugins_find(struct plugins *p, const char *type, const char **ret_path,
                                   struct error *e)
{
    pthread_mutex_lock(&p->lock);
    if (!p->open)
        open_all(p);
    pthread_mutex_unlock(&p->lock);
    const struct plugin *i = plugins_find_loaded(p, type);
    if (i) {
        *ret_path = i->path;
        return i->op;
    }
    error_set(e, STATUS_FAIL,
              "nobody computes operator %s: register it with rknn_register_custom_ops(), or put a "
              "plugin for it into the server's folder %s%s%s",
              type, p->dir[0] ? p->dir : "for plugins (plugin-dir)", p->unusable.code ? "; " : "",
              p->unusable.code ? p->unusable.text : "");
    return NULL;
}
