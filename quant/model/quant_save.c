// A model is one file, or two: protobuf's messages have at most 2 GB, so the weights of a large one
// lie in a second file (quant_external.h).
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "quant/model/quant_model.h"
#include "quant/model/quant_nameless.h"
#include "quant/model/quant_save.h"

#define MOST_BYTES ((size_t)INT_MAX) // of a protobuf message
#define PART_LEAST 1024              // bytes of a constant that goes to the other file
#define PART_ALIGN 4096              // there, so that readers can map it

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

// ---- a file without a name ----

int quant_model_save_nameless(const struct quant_model *m, int *ret, struct error *e)
{
    size_t size = quant__model__get_packed_size(m->proto);
    if (size > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "it has %zu bytes: models above 4 GB cannot be run", size);
    cleanup(fd_close_p) int fd = quant_nameless_open();
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
                               size);
    *ret = steal_fd(&fd);
    return 0;
}

// ---- two files ----
//
// The model is a copy whose larger constants say where they lie in PATH.data. That file gets its
// name first, when both are written: so the new model has its weights from the beginning.

struct parted {
    struct quant_model *m;
    const char *location; // the other file's name
    FILE *file;
    uint64_t at; // bytes written to it
};

static Quant__StringEntry *parted_entry(struct quant_pool *p, const char *key, char *value)
{
    Quant__StringEntry *entry = quant_pool_take(p, 1, sizeof *entry);
    if (!entry)
        return NULL;
    quant__string_entry__init(entry);
    entry->key = quant_pool_text(p, "%s", key);
    entry->value = value;
    return entry->key && value ? entry : NULL;
}

static int parted_tensor(struct parted *w, Quant__Tensor *t, struct error *e)
{
    static const uint8_t zeros[PART_ALIGN];
    struct quant_pool *p = &w->m->pool;
    if (!t->has_raw_data || t->raw_data.len < PART_LEAST)
        return 0;
    size_t gap = (size_t)(-w->at % PART_ALIGN);
    fwrite(zeros, 1, gap, w->file);
    fwrite(t->raw_data.data, 1, t->raw_data.len, w->file);
    w->at += gap;
    Quant__StringEntry **entries = quant_pool_take(p, 3, sizeof *entries);
    if (!entries ||
        !(entries[0] = parted_entry(p, "location", quant_pool_text(p, "%s", w->location))) ||
        !(entries[1] = parted_entry(p, "offset", quant_pool_text(p, "%" PRIu64, w->at))) ||
        !(entries[2] = parted_entry(p, "length", quant_pool_text(p, "%zu", t->raw_data.len))))
        return error_no_memory(e, "the model", 0);
    w->at += t->raw_data.len;
    t->has_raw_data = false;
    t->raw_data = (ProtobufCBinaryData){0};
    t->has_data_location = true;
    t->data_location = QUANT_EXTERNAL;
    t->external_data = entries;
    t->n_external_data = 3;
    return 0;
}

// Both are open; nothing has its name yet.
static int parted_write(struct parted *w, struct output_file *model, struct output_file *data,
                        struct error *e)
{
    int r = 0;
    w->file = data->stream;
    for (size_t i = 0; i < w->m->graph->n_initializer && r == 0; i++)
        r = parted_tensor(w, w->m->graph->initializer[i], e);
    size_t size = quant__model__get_packed_size(w->m->proto);
    if (r == 0 && size > MOST_BYTES)
        r = error_set(e, STATUS_FAIL, "without its large weights it is larger than 2 GB");
    if (r < 0)
        return error_prefix(e, "%s", model->path);
    quant_save_stream(w->m, model->stream, e);
    if (fflush(model->stream) != 0 || ferror(model->stream))
        return output_file_close(model, e); // which says why
    r = output_file_close(data, e);
    return r < 0 ? r : output_file_close(model, e);
}

static int quant_save_parted(const struct quant_model *m, const char *path, struct error *e)
{
    cleanup(output_file_drop) struct output_file model = {0}, data = {0};
    cleanup(free_p) char *other = NULL;
    struct quant_model copy;
    if (asprintf(&other, "%s.data", path) < 0) {
        other = NULL;
        return error_no_memory(e, "a path", 0);
    }
    int r = quant_model_copy(&copy, m, e);
    if (r == 0)
        r = output_file_open(&model, path, e);
    if (r == 0)
        r = output_file_open(&data, other, e);
    struct parted w = {.m = &copy, .location = strrchr(other, '/')};
    w.location = w.location ? w.location + 1 : other;
    if (r == 0)
        r = parted_write(&w, &model, &data, e);
    quant_model_done(&copy);
    return r;
}

// A pipe or a device has no other file beside it, and of a link it is not sure where that is looked
// for.
static bool quant_save_has_beside(const char *path)
{
    struct stat st;
    return lstat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

int quant_model_save(const struct quant_model *m, const char *path, bool parts, struct error *e)
{
    if (!parts && quant__model__get_packed_size(m->proto) <= MOST_BYTES)
        return quant_save_file(path, quant_save_stream, m, e);
    if (!quant_save_has_beside(path))
        return error_set(e, STATUS_FAIL,
                         "%s: weights in a second file, which a model of more than 2 GB has, lie "
                         "beside it: give the name of a file that is no link and no device",
                         path);
    return quant_save_parted(m, strcmp(path, "-") == 0 ? "./-" : path, e);
}
