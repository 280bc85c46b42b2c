// The table has every tensor that is stored in integers without other choices, so that a layer can
// be taken back to 8 bits. Ranges are what people change; a scale and a zero point that do not
// belong to them, and are not what was written, are a change that would have no effect, so they are
// refused.
#include "quant/hybrid/quant_hybrid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_table.h"
#include "quant/model/quant_save.h"

#define MOST_BYTES ((off_t)64 << 20)

// ---- writing ----

// Names are the model's own here, so that nothing but the lists is to be freed.
static int hybrid_fill(const struct rknnd_quant *q, struct quant_table *t, struct error *e)
{
    t->layers = calloc((size_t)q->n_more + 1, sizeof *t->layers);
    t->tensors = calloc((size_t)q->index.n + 1, sizeof *t->tensors);
    if (!t->layers || !t->tensors)
        return error_no_memory(e, "the table", q->index.n);
    for (uint32_t i = 0; i < q->n_more; i++)
        t->layers[t->n_layers++] = (struct quant_table_layer){
            .name = (char *)(uintptr_t)q->more[i].name, .bits = q->more[i].bits};
    for (uint32_t i = 0; i < q->index.n; i++) {
        if (!q->plan.places[i].quantized)
            continue;
        struct quant_range range =
            q->edits[i].set ? q->edits[i].range : q->base.ranges[q->plan.places[i].group];
        uint8_t bits = q->plan.places[i].bits;
        struct quant_form form = quant_form_of_range(range, quant_store_of(q, bits));
        t->tensors[t->n_tensors++] =
            (struct quant_table_tensor){.name = (char *)(uintptr_t)q->index.edges[i].name,
                                        .symmetric = q->store.symmetric,
                                        .bits = bits,
                                        .min = range.low,
                                        .max = range.high,
                                        .scale = form.scale,
                                        .zp = form.zp};
    }
    return 0;
}

static int hybrid_stream(const void *user, FILE *file, struct error *e)
{
    (void)e;
    quant_table_write(user, file);
    return 0;
}

int quant_hybrid_write(const struct rknnd_quant *q, const char *path, struct error *e)
{
    struct quant_table t = {0};
    int r = hybrid_fill(q, &t, e);
    if (r < 0)
        error_prefix(e, "%s", path);
    else
        r = quant_save_file(path, hybrid_stream, &t, e);
    free(t.layers);
    free(t.tensors);
    return r;
}

// ---- reading ----

// A pipe would keep the caller waiting, so only files are read.
static int hybrid_load(const char *path, char **ret, size_t *ret_size, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "it cannot be read");
    if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES)
        return error_set(e, STATUS_PARAM_INVALID, "it is no file of up to 64 MiB");
    size_t size = (size_t)st.st_size, n = 0;
    cleanup(free_p) char *text = malloc(size + 1);
    if (!text)
        return error_no_memory(e, "the table", size);
    for (ssize_t got; n < size; n += (size_t)got) {
        got = read(fd, text + n, size - n);
        if (got <= 0)
            return error_set_errno(e, STATUS_PARAM_INVALID, got < 0 ? errno : EIO,
                                   "it cannot be read");
    }
    *ret_size = n;
    *ret = steal_ptr(text);
    return 0;
}

static bool hybrid_same_form(struct quant_form a, const struct quant_table_tensor *t)
{
    return a.scale == t->scale && a.zp == t->zp;
}

// What differs from the calibration's choice is an edit. Numbers are compared exactly: they were
// written with all digits that a float has.
static int hybrid_take_tensor(const struct rknnd_quant *q, const struct quant_table_tensor *t,
                              bool *had, struct quant_edit *edits, struct error *e)
{
    const struct quant_edge *edge = quant_index_find_named(&q->index, t->name);
    uint32_t i = edge ? (uint32_t)(edge - q->index.edges) : 0;
    if (!edge || !q->plan.places[i].quantized || had[i])
        return error_set(e, STATUS_PARAM_INVALID, "line %u: tensor %s %s", t->line, t->name,
                         edge && had[i] ? "is there twice" : "is none that the model has in int8");
    had[i] = true;
    if (t->symmetric != q->store.symmetric)
        return error_set(e, STATUS_PARAM_INVALID,
                         "line %u: tensor %s: zero points are chosen for all tensors, by the "
                         "options, not by qtype",
                         t->line, t->name);
    if (t->bits != q->plan.places[i].bits)
        return error_set(e, STATUS_PARAM_INVALID,
                         "line %u: tensor %s: dtype says what it has without choices of layers; "
                         "give \"LAYER: int%d\" under custom_quantize_layers",
                         t->line, t->name, t->bits);
    struct quant_store store = quant_store_of(q, t->bits);
    struct quant_range range = {t->min, t->max};
    struct quant_range was = q->base.ranges[q->plan.places[i].group];
    struct quant_form old = q->base.forms[q->plan.places[i].group];
    bool edited = range.low != was.low || range.high != was.high;
    if (!hybrid_same_form(old, t) &&
        !(edited && hybrid_same_form(quant_form_of_range(range, store), t)))
        return error_set(e, STATUS_PARAM_INVALID,
                         "line %u: tensor %s: scale and zero_point follow from min and max: change "
                         "those (without a change they are %.9g and %d)",
                         t->line, t->name, (double)old.scale, old.zp);
    if (!edited)
        return 0;
    return quant_floats_edit(q, edits, i, range, e) < 0 ? error_prefix(e, "line %u", t->line) : 0;
}

// A table that lacks a tensor may have been cut off while it was saved.
static int hybrid_take_tensors(const struct rknnd_quant *q, const struct quant_table *t,
                               struct quant_edit *edits, struct error *e)
{
    cleanup(free_p) bool *had = calloc((size_t)q->index.n + 1, sizeof *had);
    if (!had)
        return error_no_memory(e, "the table", q->index.n);
    int r = 0;
    for (size_t i = 0; i < t->n_tensors && r == 0; i++)
        r = hybrid_take_tensor(q, &t->tensors[i], had, edits, e);
    for (uint32_t i = 0; i < q->index.n && r == 0; i++)
        if (q->plan.places[i].quantized && !had[i])
            r = error_set(e, STATUS_PARAM_INVALID,
                          "tensor %s is missing: it is another model's table, or cut off",
                          q->index.edges[i].name);
    return r;
}

// The names that quant_plan_make() knows; here the line can be said.
static bool hybrid_has_layer(const struct rknnd_quant *q, const char *name)
{
    for (uint32_t i = 0; i < q->plan.n_nodes; i++) {
        const Quant__Node *n = q->model.graph->node[i];
        if (strcmp(quant_text(n->name), name) == 0)
            return true;
        for (size_t k = 0; k < n->n_output; k++)
            if (quant_index_is_named(quant_output(n, k), name))
                return true;
    }
    return false;
}

// A layer that is float anyway (an input's normalization, a Softmax) may be named: nothing changes.
static int hybrid_take_layers(const struct rknnd_quant *q, const struct quant_table *t,
                              struct quant_choice *choices, struct error *e)
{
    for (size_t i = 0; i < t->n_layers; i++) {
        const char *name = quant_model_present_name(&q->model, t->layers[i].name);
        choices[i] = (struct quant_choice){name, t->layers[i].bits};
        if (!hybrid_has_layer(q, choices[i].name))
            return error_set(
                e, STATUS_PARAM_INVALID,
                "line %u: the model has no layer \"%s\": neither a node nor the output "
                "of one",
                t->layers[i].line, choices[i].name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(choices[i].name, choices[k].name) == 0)
                return error_set(e, STATUS_PARAM_INVALID, "line %u: layer %s is there twice",
                                 t->layers[i].line, choices[i].name);
    }
    return quant_chip_check_choices(q->chip, choices, t->n_layers, e);
}

// All is looked at before anything is set.
static int hybrid_take(struct rknnd_quant *q, const struct quant_table *t, struct error *e)
{
    cleanup(free_p) struct quant_edit *edits = calloc((size_t)q->index.n + 1, sizeof *edits);
    cleanup(free_p) struct quant_choice *choices = calloc(t->n_layers + 1, sizeof *choices);
    if (!edits || !choices)
        return error_no_memory(e, "the table", q->index.n);
    int r = hybrid_take_layers(q, t, choices, e);
    if (r == 0)
        r = hybrid_take_tensors(q, t, edits, e);
    if (r == 0)
        r = quant_floats_set(q, (uint32_t)t->n_layers, choices, edits, e);
    if (r == 0)
        edits = NULL; // taken
    return r;
}

int quant_hybrid_read(struct rknnd_quant *q, const char *path, struct error *e)
{
    cleanup(free_p) char *text = NULL;
    struct quant_table t = {0};
    size_t size;
    int r = hybrid_load(path, &text, &size, e);
    if (r == 0)
        r = quant_table_parse(&t, text, size, e);
    if (r == 0)
        r = hybrid_take(q, &t, e);
    quant_table_done(&t);
    return r < 0 ? error_prefix(e, "%s", path) : 0;
}
