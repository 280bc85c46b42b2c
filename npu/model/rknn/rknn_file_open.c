// A .rknn file as tables. rknn_file_open() reads, in this order:
//
//     container -> root table -> graph: tensors -> inputs, outputs -> preprocessing
//                                      -> nodes -> relocations, then tasks -> commands
//
// All names and arrays come from f->pool; bulk data (weights, commands) stay in the mapped file.
// The file is untrusted: each read is checked by flatbuf.c, counts and indices are checked here. A
// damaged flatbuffer is noticed late, by fb_error(), because its fields then read as absent.
#include "npu/model/rknn/rknn_file.h"

#include <stdlib.h>

#include "npu/model/rknn/pyliteral.h"
#include "npu/model/rknn/rknn_slots.h"
#include "npu/model/rknn/rknn_tables.h"

// The error for a damaged flatbuffer, with the first problem that its reader met.
static int broken(struct rknn_file *f, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID, "the file is damaged: %s", fb_error(&f->fb));
}

// The slot numbers of each table, per kind of container. ABSENT: it has no such field.
#define ABSENT 0xffff
struct root_slots {
    uint16_t platform, graphs, attrs, compiler, toolkit, chip, framework, inputs, outputs, shapes;
    uint16_t sizes, custom_ops, custom_string, batch;
    uint16_t empty[3]; // in every file seen
};
static const struct root_slots root_slots[] = {
    [RKNN_PLAIN] = {1, 2, 3, 6, 7, 8, 9, 12, 13, 16, 19, 21, 11, 14, {15, 17, 18}},
    [RKNN_LITE] = {1,
                   2,
                   3,
                   ABSENT,
                   5,
                   6,
                   7,
                   ABSENT,
                   ABSENT,
                   ABSENT,
                   ABSENT,
                   ABSENT,
                   ABSENT,
                   ABSENT,
                   {ABSENT, ABSENT, ABSENT}},
};

// A string field as a terminated copy in the pool: "" when absent, NULL when out of memory.
static const char *text(struct rknn_file *f, const struct fb_table *t, unsigned slot)
{
    return pool_text(&f->pool, fb_vector(t, slot, 1));
}

// rknn_batch_size, decimal text. Absent, empty, "0" and "1" all mean one input per run. Four digits
// keep the later multiplication with tensor dimensions far from overflow.
static int read_batch(struct rknn_file *f, const struct fb_table *root, uint16_t slot,
                      struct error *e)
{
    const char *digits = text(f, root, slot);
    if (!digits)
        return error_no_memory(e, "the model's tables", 0);
    size_t n = strspn(digits, "0123456789");
    if (digits[n] || n > 4)
        return error_set(e, STATUS_MODEL_INVALID,
                         "rknn_batch_size \"%.40s\" is no number up to 9999", digits);
    unsigned long batch = strtoul(digits, NULL, 10);
    f->batch = batch ? (uint32_t)batch : 1;
    return 0;
}

// Toolkits up to 1.3 (containers 1 and 2) write a remark where later ones have the build
// attributes.
static bool is_remark(const struct rknn_file *f)
{
    static const char start[] = "Generated from compiler version";
    return (f->container.blobs && f->attrs_text[0] != '{') ||
           strncmp(f->attrs_text, start, sizeof start - 1) == 0;
}

// The custom string. No file with one has been seen: slot 11 is as old as the query for it, and
// what else a converter is told is elsewhere. Where that is empty, the one text in a slot that is
// empty in all files is taken for it; several, or what is no text, would be something else.
static int read_custom_string(struct rknn_file *f, const struct fb_table *root,
                              const struct root_slots *s, struct error *e)
{
    f->custom_string = text(f, root, s->custom_string);
    for (size_t i = 0; f->custom_string && i < sizeof s->empty / sizeof *s->empty; i++) {
        struct bytes b = fb_vector(root, s->empty[i], 1);
        if (!b.size)
            continue;
        if (f->custom_string[0] || memchr(b.data, 0, b.size))
            return error_set(e, STATUS_MODEL_INVALID,
                             "number %u of the root table has %zu bytes, which are not understood",
                             s->empty[i], b.size);
        f->custom_string = text(f, root, s->empty[i]);
    }
    return f->custom_string ? 0 : error_no_memory(e, "the model's tables", 0);
}

// The root table: strings, versions and sizes. All strings are copied first and checked for memory
// once, since text() never returns NULL for another reason. The lite container keeps the sizes in
// its section header instead.
static int read_root(struct rknn_file *f, const struct fb_table *root, struct error *e)
{
    const struct root_slots *s = &root_slots[f->container.kind];
    f->platform = text(f, root, s->platform);
    f->attrs_text = text(f, root, s->attrs);
    if (f->attrs_text && is_remark(f))
        f->attrs_text = "";
    f->toolkit = text(f, root, s->toolkit);
    f->chip = text(f, root, s->chip);
    f->framework = text(f, root, s->framework);
    f->input_json = text(f, root, s->inputs);
    f->output_json = text(f, root, s->outputs);
    f->custom_ops = text(f, root, s->custom_ops);
    f->shapes = text(f, root, s->shapes);
    if (!f->platform || !f->attrs_text || !f->toolkit || !f->chip || !f->framework ||
        !f->input_json || !f->output_json || !f->custom_ops || !f->shapes)
        return error_no_memory(e, "the model's tables", 0);
    int r = rknn_check_slots(&f->container, RKNN_ROOT, root, "the root table", e);
    if (r == 0)
        r = read_batch(f, root, s->batch, e);
    if (r == 0)
        r = read_custom_string(f, root, s, e);
    if (r < 0)
        return r;
    f->compiler_version = fb_u32(root, s->compiler, 0);
    f->internal_size = f->container.internal_size;
    f->weight_size = f->container.weights.size;
    if (s->sizes == ABSENT)
        return 0;
    struct fb_table sizes = fb_sub(root, s->sizes);
    f->weight_size = fb_u64(&sizes, 0, 0);
    f->internal_size = fb_u64(&sizes, 1, 0);
    return rknn_check_slots(&f->container, RKNN_SIZES, &sizes, "the sizes of the root table", e);
}

// A vector of i32 tensor indices. -1 ("not connected") is passed on; other values must name a
// tensor, so that later code may index f->tensors without a check.
static int read_indices(struct rknn_file *f, struct bytes b, uint32_t max, int32_t **ret,
                        uint32_t *ret_n, struct error *e)
{
    size_t n = b.size / 4;
    if (n > max)
        return error_set(e, STATUS_MODEL_INVALID, "%zu tensors where at most %u are allowed", n,
                         max);
    int32_t *indices = pool_alloc(&f->pool, n, sizeof *indices);
    if (!indices)
        return error_no_memory(e, "the model's tables", 0);
    for (size_t i = 0; i < n; i++) {
        indices[i] = (int32_t)read_le32(b.data + 4 * i);
        if (indices[i] < -1 || indices[i] >= (int64_t)f->n_tensors)
            return error_set(e, STATUS_MODEL_INVALID, "tensor %d does not exist (there are %u)",
                             indices[i], f->n_tensors);
    }
    *ret = indices;
    *ret_n = (uint32_t)n;
    return 0;
}

// Inputs or outputs of the whole model: these must all be tensors. With no -1 among them the array
// may be read as unsigned.
static int read_ports(struct rknn_file *f, struct bytes b, uint32_t **ret, uint32_t *ret_n,
                      struct error *e)
{
    int32_t *indices;
    int r = read_indices(f, b, RKNN_MAX_EDGES, &indices, ret_n, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < *ret_n; i++)
        if (indices[i] < 0)
            return error_set(e, STATUS_MODEL_INVALID, "input or output %u is no tensor", i);
    *ret = (uint32_t *)indices;
    return 0;
}

static float float_at(struct bytes b, size_t i)
{
    return bits_float(read_le32(b.data + 4 * i));
}

// Whether the channels past the fourth are left unchanged: mean 0, deviation 1 (or 0, which stands
// for 1) and the identity order.
static bool rest_is_plain(struct bytes mean, struct bytes std, struct bytes order)
{
    bool plain = true;
    for (size_t c = 4; c < mean.size / 4; c++)
        plain = plain && float_at(mean, c) == 0;
    for (size_t c = 4; c < std.size / 4; c++)
        plain = plain && (float_at(std, c) == 1 || float_at(std, c) == 0);
    for (size_t c = 4; c < order.size / 4; c++)
        plain = plain && read_le32(order.data + 4 * c) == c;
    return plain;
}

// Whether all channels are treated alike. The file has four numbers at least: of inputs with fewer
// channels, the others do not count.
static bool treats_alike(const struct rknn_tensor *t, struct bytes mean, struct bytes std,
                         struct bytes order)
{
    size_t channels = t->n_dims > 1 ? t->dims[1] : 1, n = channels < 4 ? channels : SIZE_MAX;
    bool same = mean.size >= 4 && std.size >= 4;
    for (size_t c = 1; c < n && c < mean.size / 4; c++)
        same = same && float_at(mean, c) == float_at(mean, 0);
    for (size_t c = 1; c < n && c < std.size / 4; c++)
        same = same && float_at(std, c) == float_at(std, 0);
    for (size_t c = 0; c < n && c < order.size / 4; c++)
        same = same && read_le32(order.data + 4 * c) == c;
    return same;
}

// Mean, deviation and channel order of each input (graph slot 4). Only the first four channels are
// kept, as only images are preprocessed; `more` records that others would have been changed, for
// rknn_graph.c to refuse. Vectors may be shorter than four.
static int read_preprocess(struct rknn_file *f, const struct fb_table *graph, struct error *e)
{
    f->preprocess = pool_alloc(&f->pool, f->n_inputs, sizeof *f->preprocess);
    if (!f->preprocess)
        return error_no_memory(e, "the model's tables", 0);
    struct fb_list list = fb_tables(graph, 4);
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        struct rknn_preprocess *p = &f->preprocess[i];
        *p = (struct rknn_preprocess){.std = {1, 1, 1, 1}, .order = {0, 1, 2, 3}};
        struct fb_table t = fb_list_get(&list, i);
        int r = rknn_check_slots(&f->container, RKNN_PREPROCESS, &t, "an input's mean", e);
        if (r < 0)
            return r;
        struct bytes mean = fb_vector(&t, 0, 4), std = fb_vector(&t, 1, 4);
        struct bytes order = fb_vector(&t, 2, 4);
        memcpy(p->mean, mean.data, mean.size < sizeof p->mean ? mean.size : sizeof p->mean);
        memcpy(p->std, std.data, std.size < sizeof p->std ? std.size : sizeof p->std);
        memcpy(p->order, order.data, order.size < sizeof p->order ? order.size : sizeof p->order);
        p->more = !rest_is_plain(mean, std, order);
        p->same = treats_alike(&f->tensors[f->inputs[i]], mean, std, order);
    }
    return 0;
}

// The lite container says only in its attributes' text that the program's channels are swapped.
// rgb2bgr swaps channels 0 and 2.
static int read_channel_swaps(struct rknn_file *f, struct error *e)
{
    json_t *root;
    if (f->container.kind != RKNN_LITE || !f->attrs_text[0])
        return 0;
    int r = pyliteral_parse(f->attrs_text, &root, e);
    if (r < 0)
        return error_prefix(e, "the attributes of inputs");
    const json_t *attrs = json_object_get(root, "attrs");
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        const json_t *input = json_object_get(attrs, f->tensors[f->inputs[i]].name);
        if (json_is_true(json_object_get(input, "rgb2bgr")))
            memcpy(f->preprocess[i].order, (int32_t[]){2, 1, 0}, 3 * sizeof(int32_t));
    }
    json_decref(root);
    return 0;
}

// The file's one graph. Tensors come first, since all that follows refers to them by index;
// constants are in the buffers of root slot 4 (containers 1 and 2) or 20 (container 6).
static int read_graph(struct rknn_file *f, const struct fb_table *root, struct error *e)
{
    struct fb_list graphs = fb_tables(root, root_slots[f->container.kind].graphs);
    if (graphs.n != 1)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the file has %u graphs, one is expected: how files hold several "
                         "shapes is not known; convert the model with one shape, or load its ONNX "
                         "model with a list of shapes",
                         graphs.n);
    struct fb_table graph = fb_list_get(&graphs, 0);
    struct fb_list buffers = fb_tables(root, f->container.blobs ? 4 : 20);
    int r = rknn_check_slots(&f->container, RKNN_GRAPH, &graph, "the graph", e);
    if (r < 0)
        return r;
    r = rknn_read_tensors(f, &graph, &buffers, e);
    if (r < 0)
        return r;
    r = read_ports(f, fb_vector(&graph, 2, 4), &f->inputs, &f->n_inputs, e);
    if (r < 0)
        return error_prefix(e, "inputs");
    r = read_ports(f, fb_vector(&graph, 3, 4), &f->outputs, &f->n_outputs, e);
    if (r < 0)
        return error_prefix(e, "outputs");
    r = read_preprocess(f, &graph, e);
    if (r == 0)
        r = read_channel_swaps(f, e);
    if (r == 0)
        r = rknn_read_nodes(f, &graph, e);
    return r < 0 ? r : rknn_read_relocations(f, &graph, e);
}

int rknn_read_indices(struct rknn_file *f, struct bytes b, int32_t **ret, uint32_t *ret_n,
                      struct error *e)
{
    return read_indices(f, b, RKNN_MAX_EDGES, ret, ret_n, e);
}

int rknn_file_open(struct rknn_file *f, struct bytes file, struct error *e)
{
    *f = (struct rknn_file){0};
    int r = rknn_container_open(&f->container, file, e);
    if (r < 0)
        return r;
    f->fb.all = f->container.meta;
    struct fb_table root = fb_root(&f->fb, "RKNN");
    r = read_root(f, &root, e);
    if (r == 0 && !fb_error(&f->fb))
        r = read_graph(f, &root, e);
    if (r == 0 && !fb_error(&f->fb))
        r = rknn_read_tasks(f, e);
    // Words about damage say more than those of what followed from it.
    if (fb_error(&f->fb))
        r = broken(f, e);
    if (r < 0)
        pool_done(&f->pool);
    return r;
}

void rknn_file_done(struct rknn_file *f)
{
    pool_done(&f->pool);
}

// Container 6 maps command numbers to tensors in one array. Containers 1 and 2 have records of {u32
// register, i32 tensor, u64 offset, u32 row, u32 0} per task; the list is short, so it is searched.
// Offsets beyond the 4 GB that tensors may have are those of nobody.
struct rknn_relocation rknn_file_relocation(const struct rknn_file *f, const struct rknn_task *task,
                                            size_t k, uint32_t reg)
{
    static const struct rknn_relocation none = {.tensor = -1};
    uint64_t command = task->first_command + k;
    if (f->relocations)
        return command < f->n_relocations ? f->relocations[command] : none;
    const uint8_t *p = task->relocations.data;
    for (size_t n = task->relocations.size / RKNN_RELOCATION_BYTES; n > 0; n--) {
        uint64_t offset = read_le64(p + 8);
        if (read_le32(p) == reg)
            return read_le32(p + 4) < f->n_tensors && offset <= UINT32_MAX
                       ? (struct rknn_relocation){(int32_t)read_le32(p + 4), (uint32_t)offset}
                       : none;
        p += RKNN_RELOCATION_BYTES;
    }
    return none;
}

bool rknn_file_offset(const struct rknn_file *f, int32_t tensor, uint32_t address, uint64_t *ret)
{
    const struct rknn_container *c = &f->container;
    if (c->kind != RKNN_LITE || (uint32_t)tensor >= f->n_tensors)
        return false;
    const struct rknn_tensor *t = &f->tensors[tensor];
    uint64_t arena = c->registers.size + c->scratch.size + c->weights.size;
    *ret = (uint64_t)address - arena - t->offset;
    return t->kind >= RKNN_KIND_INPUT && t->kind <= RKNN_KIND_ACTIVATION && *ret < t->size;
}
