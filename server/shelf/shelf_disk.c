// Reading.
#include "server/shelf/shelf_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/file/folder.h"
#include "base/log.h"
#include "server/shelf/shelf_private.h"

int shelf_folder(int in, const char *name)
{
    return openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// O_NONBLOCK: whatever lies there, opening it does not wait.
static int open_file(int in, const char *name)
{
    return openat(in, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

DIR *shelf_names(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        fd_close(fd);
    return d;
}

// With the folders above it, which systemd makes where it starts the daemon.
int shelf_open(const char *path, int *ret_root, struct error *e)
{
    int r = folder_make(path, 0755, 0700, e);
    if (r < 0)
        return error_prefix(e, "model-store %.300s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "model-store %.300s", path);
    *ret_root = fd;
    return 0;
}

// Whoever has the old folder open, by another name or none, would write where nobody looks.
int shelf_follow(const char *path, int root, struct error *e)
{
    struct stat named, ours;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &named) < 0 || fstat(root, &ours) < 0)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "model-store %.300s, which was there at the start", path);
    if (named.st_dev == ours.st_dev && named.st_ino == ours.st_ino)
        return 0;
    if (dup3(fd, root, O_CLOEXEC) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "model-store %.300s", path);
    log_info("model-store %s is another folder now", path);
    return 1;
}

// ---- manifests ----------------------------------------------------------------------------------

static int read_text(int folder, const char *name, size_t max, char **ret, size_t *ret_size,
                     struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open_file(folder, name);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "%s", name);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
        return error_set(e, STATUS_MODEL_INVALID, "%s is no file of at most %zu bytes", name, max);
    cleanup(free_p) char *text = malloc((size_t)st.st_size + 1);
    if (!text)
        return error_no_memory(e, name, (size_t)st.st_size);
    ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
    if (n != st.st_size)
        return error_set_errno(e, STATUS_MODEL_INVALID, n < 0 ? errno : EIO, "%s cannot be read",
                               name);
    text[n] = 0;
    *ret = steal_ptr(text);
    *ret_size = (size_t)n;
    return 0;
}

static int check_model(int folder, const struct manifest *m, struct error *e)
{
    struct stat st;
    if (fstatat(folder, SHELF_MODEL, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, SHELF_MODEL);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != m->size)
        return error_set(e, STATUS_MODEL_INVALID,
                         SHELF_MODEL " is no file of the %llu bytes that its manifest says",
                         (unsigned long long)m->size);
    return 0;
}

static int read_version(int folder, struct manifest *ret, char **ret_text, struct error *e)
{
    cleanup(free_p) char *text = NULL;
    size_t size = 0;
    int r = read_text(folder, SHELF_MANIFEST, MANIFEST_MAX_SIZE, &text, &size, e);
    if (r < 0)
        return r;
    r = manifest_read((struct bytes){(const uint8_t *)text, size}, ret, e);
    if (r < 0)
        return error_prefix(e, SHELF_MANIFEST);
    r = check_model(folder, ret, e);
    if (r == 0 && ret_text)
        *ret_text = steal_ptr(text);
    return r;
}

// A version that cannot be read is told with its problem.
static void see_version(int name_folder, struct stored *s)
{
    struct error e;
    cleanup(fd_close_p) int folder = shelf_folder(name_folder, s->version);
    int r = folder < 0 ? error_set_errno(&e, STATUS_MODEL_INVALID, errno, "its folder")
                       : read_version(folder, &s->manifest, NULL, &e);
    if (r < 0)
        snprintf(s->problem, sizeof s->problem, "%.250s", e.text);
}

// ---- names --------------------------------------------------------------------------------------

static int compare_stored(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;
    int r = strcmp(x->name, y->name);
    if (r == 0)
        r = x->manifest.order < y->manifest.order ? -1 : x->manifest.order > y->manifest.order;
    return r ? r : strcmp(x->version, y->version);
}

// The one that was chosen, else the newest good one.
static void mark_default(int folder, struct stored *versions, size_t n)
{
    cleanup(free_p) char *chosen = NULL;
    size_t size = 0, best = n;
    struct error none;
    if (read_text(folder, SHELF_DEFAULT, SHELF_VERSION_SIZE, &chosen, &size, &none) == 0)
        chosen[strcspn(chosen, "\n")] = 0;
    for (size_t i = 0; i < n; i++)
        if (chosen ? strcmp(versions[i].version, chosen) == 0 : !versions[i].problem[0])
            best = i;
    if (best < n)
        versions[best].is_default = true;
}

static int add_version(struct stored **all, size_t *n, size_t *room, const char *name,
                       const char *version, struct error *e)
{
    if (*n == SHELF_MAX_STORED)
        return error_set(e, STATUS_FAIL, "the model store has more than %d versions of models",
                         SHELF_MAX_STORED);
    int r = array_reserve(*all, *room, *n + 1, "stored models", e);
    if (r < 0)
        return r;
    struct stored *s = &(*all)[(*n)++];
    *s = (struct stored){0};
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->version, sizeof s->version, "%s", version);
    return 0;
}

static int no_model(const char *name, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "the server has no model \"%s\" (rknnctl model list tells what it has)", name);
}

int shelf_versions(int root, const char *name, struct stored **versions, size_t *n, size_t *room,
                   struct error *e)
{
    cleanup(fd_close_p) int folder = shelf_folder(root, name);
    cleanup(closedir_p) DIR *d = folder < 0 ? NULL : shelf_names(folder);
    const struct dirent *entry;
    size_t first = *n;
    int r = 0;
    if (!d)
        return errno == ENOENT ? no_model(name, e)
                               : error_set_errno(e, STATUS_MODEL_INVALID, errno, "model %s", name);
    while (r == 0 && (entry = readdir(d)))
        if (shelf_is_version(entry->d_name)) {
            r = add_version(versions, n, room, name, entry->d_name, e);
            if (r == 0)
                see_version(folder, &(*versions)[*n - 1]);
        }
    if (*n > first) {
        qsort(*versions + first, *n - first, sizeof **versions, compare_stored);
        mark_default(folder, *versions + first, *n - first);
    }
    return r;
}

// What is no folder of versions is told without one.
static int list_name(int root, const char *name, struct stored **all, size_t *n, size_t *room,
                     struct error *e)
{
    struct error why;
    int r = shelf_versions(root, name, all, n, room, &why);
    if (r == 0)
        return 0;
    if (r != STATUS_MODEL_INVALID)
        return error_set(e, r, "%s", why.text);
    r = add_version(all, n, room, name, "", e);
    if (r == 0)
        snprintf((*all)[*n - 1].problem, sizeof(*all)->problem, "%.250s", why.text);
    return r;
}

int shelf_list(int root, struct stored **ret, size_t *ret_n, struct error *e)
{
    cleanup(free_p) struct stored *all = NULL;
    cleanup(closedir_p) DIR *d = shelf_names(root);
    const struct dirent *entry;
    size_t n = 0, room = 0;
    int r = 0;
    if (!d)
        return error_set_errno(e, STATUS_FAIL, errno, "the model store cannot be read");
    while (r == 0 && (entry = readdir(d)))
        if (shelf_is_name(entry->d_name))
            r = list_name(root, entry->d_name, &all, &n, &room, e);
    if (r < 0)
        return r;
    if (n > 0)
        qsort(all, n, sizeof *all, compare_stored);
    *ret = steal_ptr(all);
    *ret_n = n;
    return 0;
}

static int choose_version(const char *name, const char *version, const struct stored *all, size_t n,
                          struct stored *ret, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (*version ? strcmp(all[i].version, version) == 0 : all[i].is_default) {
            *ret = all[i];
            return *ret->problem ? error_set(e, STATUS_MODEL_INVALID, "stored model %s@%s: %s",
                                             name, ret->version, ret->problem)
                                 : 0;
        }
    if (n == 0)
        return no_model(name, e);
    if (*version)
        return error_set(e, STATUS_MODEL_INVALID, "model %s has no version %s; it has %s%s", name,
                         version, n > 1 ? "others, the newest is " : "", all[n - 1].version);
    return error_set(e, STATUS_MODEL_INVALID,
                     "model %s has no default version that is there: choose one (rknnctl model "
                     "default)",
                     name);
}

int shelf_find(int root, const char *name, const char *version, struct stored *ret, char **ret_text,
               struct error *e)
{
    cleanup(free_p) struct stored *all = NULL;
    struct stored found;
    size_t n = 0, room = 0;
    int r = shelf_versions(root, name, &all, &n, &room, e);
    if (r == 0)
        r = choose_version(name, version, all, n, &found, e);
    if (r == 0 && ret_text) {
        cleanup(fd_close_p) int names = shelf_folder(root, name);
        cleanup(fd_close_p) int folder = names < 0 ? -1 : shelf_folder(names, found.version);
        r = read_version(folder, &found.manifest, ret_text, e);
    }
    if (r == 0)
        *ret = found;
    return r;
}

// ---- bytes --------------------------------------------------------------------------------------

static int read_bytes(int fd, uint8_t *to, uint64_t size, struct error *e)
{
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(fd, to + at, (size_t)(size - at), (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set_errno(e, STATUS_MODEL_INVALID, n < 0 ? errno : EIO,
                                   SHELF_MODEL " cannot be read");
        at += (uint64_t)n;
    }
    return 0;
}

static int check_bytes(const struct manifest *m, const uint8_t *bytes, struct error *e)
{
    uint8_t hash[SHA256_SIZE];
    int r = sha256(bytes, (size_t)m->size, hash, e);
    if (r == 0 && memcmp(hash, m->sha256, sizeof hash) != 0)
        r = error_set(e, STATUS_MODEL_INVALID,
                      SHELF_MODEL " is not what was stored (its SHA-256 is another one): the disk, "
                                  "or somebody, has changed it; push it again");
    return r;
}

static int load_bytes(int fd, const struct manifest *m, int *ret_fd, struct error *e)
{
    void *map = MAP_FAILED;
    cleanup(fd_close_p) int memory = fd_memory("model", m->size, e);
    if (memory < 0)
        return memory;
    map = mmap(NULL, (size_t)m->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (map == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "%llu bytes for a model",
                               (unsigned long long)m->size);
    int r = read_bytes(fd, map, m->size, e);
    if (r == 0)
        r = check_bytes(m, map, e);
    munmap(map, (size_t)m->size);
    if (r == 0 &&
        fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "a model's memory cannot be sealed");
    if (r == 0)
        *ret_fd = steal_fd(&memory);
    return r;
}

int shelf_load(int root, const struct stored *s, int *ret_fd, struct error *e)
{
    cleanup(fd_close_p) int names = shelf_folder(root, s->name);
    cleanup(fd_close_p) int folder = names < 0 ? -1 : shelf_folder(names, s->version);
    cleanup(fd_close_p) int fd = folder < 0 ? -1 : open_file(folder, SHELF_MODEL);
    int r = fd < 0 ? error_set_errno(e, STATUS_MODEL_INVALID, errno, SHELF_MODEL)
                   : load_bytes(fd, &s->manifest, ret_fd, e);
    return r < 0 ? error_prefix(e, "stored model %s@%s", s->name, s->version) : 0;
}
