// Files are told by device and inode, so that links, and other ways to write a path, are the same.
// The model is only read where something is there that would be replaced.
#include "quant/model/quant_origin.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "quant/model/quant_external.h"
#include "quant/model/quant_nameless.h"

struct origin {
    const char *paths[2]; // that would be replaced
    struct stat files[2];
    bool there[2];
    int folder; // of the model
};

static int origin_compare(const struct origin *o, const struct stat *st, const char *what,
                          struct error *e)
{
    for (int i = 0; i < 2; i++)
        if (o->there[i] && o->files[i].st_dev == st->st_dev && o->files[i].st_ino == st->st_ino)
            return error_set(e, STATUS_PARAM_INVALID,
                             "%s %s the float model, which would be lost: give another name",
                             o->paths[i], what);
    return 0;
}

static int origin_visit(void *user, const char *location, struct error *e)
{
    const struct origin *o = user;
    struct stat st;
    return fstatat(o->folder, location, &st, 0) == 0 ? origin_compare(o, &st, "has weights of", e)
                                                     : 0;
}

// Whether its bytes have the word that stands before a file's name. Most models have all weights in
// themselves: those are read through, and never held in memory a second time.
static bool origin_names_files(int file)
{
    static const char word[] = "location";
    const size_t kept = sizeof word - 2; // at the end of a block, as the word may go on
    char block[1 << 16];
    size_t n = 0;
    off_t at = 0;
    for (ssize_t got; (got = pread(file, block + n, sizeof block - n, at)) > 0; at += got) {
        n += (size_t)got;
        if (memmem(block, n, word, sizeof word - 1))
            return true;
        size_t rest = n < kept ? n : kept;
        memmove(block, block + n - rest, rest);
        n = rest;
    }
    return false;
}

static int origin_weights(struct origin *o, int file, const char *model, struct error *e)
{
    struct quant_pool pool = {0};
    ProtobufCAllocator allocator = quant_pool_for_proto(&pool);
    cleanup(free_p) char *copy = strdup(model);
    void *data = NULL;
    size_t size = 0;
    struct error ignored;
    if (!copy)
        return error_no_memory(e, "a path", 0);
    cleanup(fd_close_p) int folder = open(dirname(copy), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    o->folder = folder;
    bool read = folder >= 0 && quant_nameless_map(file, &data, &size, &ignored) == 0 && size;
    const Quant__Model *m = read ? quant__model__unpack(&allocator, size, data) : NULL;
    int r = m && m->graph ? quant_external_each(m->graph, &pool, origin_visit, o, e) : 0;
    if (size)
        munmap(data, size);
    quant_pool_done(&pool);
    return r;
}

int quant_origin_check(const char *model, const char *output, struct error *e)
{
    cleanup(free_p) char *data = NULL;
    struct stat st;
    if (asprintf(&data, "%s.data", output) < 0) {
        data = NULL;
        return error_no_memory(e, "a path", 0);
    }
    struct origin o = {.paths = {output, data}};
    for (int i = 0; i < 2; i++)
        o.there[i] = stat(o.paths[i], &o.files[i]) == 0 && S_ISREG(o.files[i].st_mode);
    if (!o.there[0] && !o.there[1])
        return 0;
    cleanup(fd_close_p) int file = open(model, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &st) < 0)
        return 0;
    int r = origin_compare(&o, &st, "is", e);
    return r < 0 || !origin_names_files(file) ? r : origin_weights(&o, file, model, e);
}
