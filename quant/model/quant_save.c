// Writes models and other files: under a temporary name first, so that there is the whole file or
// none.
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_model.h"
#include "quant/model/quant_save.h"

#define MOST_BYTES ((size_t)INT_MAX) // of a protobuf message

struct quant_sink {
    ProtobufCBuffer base;
    FILE *file;
    bool failed;
    int why;
};

static void quant_sink_append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    struct quant_sink *s = (struct quant_sink *)base;
    if (!s->failed && fwrite(data, 1, size, s->file) != size) {
        s->failed = true;
        s->why = errno;
    }
}

// Whether two paths are one folder.
static bool quant_save_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int quant_save_bring_in(struct quant_model *m, const char *path, struct error *e)
{
    cleanup(free_p) char *copy = strdup(path);
    if (!copy)
        return error_no_memory(e, "a path", 0);
    if (quant_save_same_folder(dirname(copy), m->folder))
        return 0;
    int r = 0;
    for (size_t i = 0; i < m->graph->n_initializer && r == 0; i++)
        r = quant_constant_bring_in(m, m->graph->initializer[i], e);
    return r;
}

static int quant_save_stream(const void *user, FILE *file, struct error *e)
{
    const struct quant_model *m = user;
    struct quant_sink sink = {.base = {.append = quant_sink_append}, .file = file};
    quant__model__pack_to_buffer(m->proto, &sink.base);
    if (!sink.failed && fflush(file) != 0) {
        sink.failed = true;
        sink.why = errno;
    }
    return sink.failed ? error_set_errno(e, STATUS_FAIL, sink.why, "it cannot be written") : 0;
}

// A new file with the mode that a new file gets, or the one that it replaces has.
static FILE *quant_save_open(char *temporary, const char *path)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    int fd = mkstemp(temporary);
    if (fd < 0)
        return NULL;
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 0777 : 0666 & ~mask;
    FILE *file = fchmod(fd, mode) == 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        close(fd);
        unlink(temporary);
    }
    return file;
}

int quant_save_file(const char *path, quant_save_write *write, const void *user, struct error *e)
{
    cleanup(free_p) char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL;
        return error_no_memory(e, "a path", 0);
    }
    FILE *file = quant_save_open(temporary, path);
    if (!file)
        return error_set_errno(e, STATUS_FAIL, errno, "it cannot be written");
    int r = write(user, file, e);
    if (fclose(file) != 0 && r == 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "it cannot be written");
    if (r == 0 && rename(temporary, path) < 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "it cannot be written");
    if (r < 0)
        unlink(temporary);
    return r;
}

int quant_model_save(struct quant_model *m, const char *path, struct error *e)
{
    int r = quant_save_bring_in(m, path, e);
    if (r == 0 && quant__model__get_packed_size(m->proto) > MOST_BYTES)
        r = error_set(e, STATUS_FAIL,
                      "it would be larger than 2 GB, which ONNX files cannot be: write it into the "
                      "folder of the model, where its weights in other files can stay");
    if (r == 0)
        r = quant_save_file(path, quant_save_stream, m, e);
    return r < 0 ? error_prefix(e, "%s", path) : 0;
}
