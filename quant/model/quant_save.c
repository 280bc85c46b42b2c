#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "quant/model/quant_constant.h"
#include "quant/model/quant_model.h"
#include "quant/model/quant_save.h"

#define MOST_BYTES ((size_t)INT_MAX) // of a protobuf message

struct quant_sink {
    ProtobufCBuffer base;
    FILE *file;
};

// A failure is the stream's, and told when that is closed.
static void quant_sink_append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    const struct quant_sink *s = (struct quant_sink *)base;
    if (size > 0 && !ferror(s->file)) // no bytes have no address
        fwrite(data, 1, size, s->file);
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
    (void)e;
    quant__model__pack_to_buffer(m->proto, &sink.base);
    return 0;
}

int quant_save_file(const char *path, quant_save_write *write, const void *user, struct error *e)
{
    cleanup(output_file_drop) struct output_file out = {0};
    const bool dash = strcmp(path, "-") == 0; // which is a file's name here
    int r = output_file_open(&out, dash ? "./-" : path, e);
    if (r == 0 && (r = write(user, out.stream, e)) < 0)
        error_prefix(e, "%s", path);
    return r < 0 ? r : output_file_close(&out, e);
}

// Not all file systems have files without a name.
static int quant_save_nameless(void)
{
    const char *folder = getenv("TMPDIR");
    int fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? memfd_create("rknnd-quantize", MFD_CLOEXEC) : fd;
}

int quant_model_save_nameless(const struct quant_model *m, int *ret, struct error *e)
{
    cleanup(fd_close_p) int fd = quant_save_nameless();
    int own = fd < 0 ? -1 : dup(fd); // that fclose() closes
    FILE *file = own < 0 ? NULL : fdopen(own, "w");
    if (!file) {
        int why = errno;
        fd_close(own);
        return error_set_errno(e, STATUS_FAIL, why, "a file for the model");
    }
    quant_save_stream(m, file, e);
    bool failed = ferror(file);
    failed |= fclose(file) != 0;
    if (failed)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "a file for the model cannot be written (set TMPDIR to a "
                               "folder with room for %zu bytes)",
                               quant__model__get_packed_size(m->proto));
    *ret = steal_fd(&fd);
    return 0;
}

int quant_model_save(struct quant_model *m, const char *path, struct error *e)
{
    int r = quant_save_bring_in(m, path, e);
    if (r == 0 && quant__model__get_packed_size(m->proto) > MOST_BYTES)
        r = error_set(e, STATUS_FAIL,
                      "it would be larger than 2 GB, which ONNX files cannot be: write it into the "
                      "folder of the model, where its weights in other files can stay");
    return r < 0 ? error_prefix(e, "%s", path) : quant_save_file(path, quant_save_stream, m, e);
}
