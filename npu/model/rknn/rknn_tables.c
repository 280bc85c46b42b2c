// The tensors, nodes and tasks of a .rknn file, as rknn_file_open.c calls for them. Field numbers
// ("slots") have no published schema: docs/rknn-format.md says what is known. Containers 1, 2 and 6
// share one dialect ("plain"), the lite container has another with fewer fields.
#include "npu/model/rknn/rknn_tables.h"

#include <stdlib.h>

#include "npu/model/rknn/rknn_slots.h"

#define TASK_BYTES 40

// ---- tensors ----

// At most `max` u32 of a vector; -1: it has more.
static int read_numbers(struct bytes b, uint32_t max, uint32_t *numbers, uint32_t *ret_n)
{
    size_t n = b.size / 4;
    if (n > max)
        return -1;
    for (size_t i = 0; i < n; i++)
        numbers[i] = read_le32(b.data + 4 * i);
    *ret_n = (uint32_t)n;
    return 0;
}

static float first_float(struct bytes b)
{
    float value = 0;
    if (b.size >= 4)
        memcpy(&value, b.data, 4);
    return value;
}

// Scale and zero point of the tensor, or of its first channel where there are several (which
// rknn_graph.c refuses).
static void read_quantization(struct rknn_tensor *t, struct bytes scale, struct bytes zp)
{
    t->n_scales = (uint32_t)(scale.size / 4);
    t->scale = first_float(scale);
    t->zp = zp.size >= 4 ? (int32_t)read_le32(zp.data) : 0;
}

// Kinds whose bytes are in the file, as opposed to inputs, outputs and activations.
static bool is_data(const struct rknn_tensor *t)
{
    return t->kind >= RKNN_KIND_CONSTANT && t->kind <= RKNN_KIND_TASKS;
}

// Containers 1, 2 and 6: a constant's bytes are in a buffer of their own, found by index; 0 is
// none.
static int read_plain_tensor(struct rknn_file *f, const struct fb_table *b, struct rknn_tensor *t,
                             const struct fb_list *buffers, struct error *e)
{
    read_quantization(t, fb_vector(b, 10, 4), fb_vector(b, 11, 4));
    t->min = first_float(fb_vector(b, 8, 4));
    t->max = first_float(fb_vector(b, 9, 4));
    t->size = fb_u32(b, 12, 0);
    t->offset = fb_u32(b, 13, 0);
    t->compressed = fb_u8(b, 14, 0) || fb_vector(b, 15, 4).size;
    t->stride_align = fb_u32(b, 20, 0);
    uint32_t buffer = fb_u32(b, 18, 0);
    if (!buffer)
        return 0;
    if (buffer >= buffers->n)
        return error_set(e, STATUS_MODEL_INVALID, "buffer %u does not exist (there are %u)", buffer,
                         buffers->n);
    struct fb_table data = fb_list_get(buffers, buffer);
    t->data = fb_vector(&data, 0, 1);
    return rknn_check_slots(&f->container, RKNN_BUFFER, &data, "its data", e);
}

// The lite container: constants are ranges of one weight section, except those of sub-tasks, which
// have a section of their own in files that have any.
static int read_lite_tensor(struct rknn_file *f, const struct fb_table *b, struct rknn_tensor *t,
                            struct error *e)
{
    read_quantization(t, fb_vector(b, 6, 4), fb_vector(b, 7, 4));
    t->size = fb_u32(b, 8, 0);
    t->offset = fb_u32(b, 9, 0);
    t->stride_align = fb_u32(b, 12, 0);
    if (t->kind == RKNN_KIND_REGISTERS || t->kind == RKNN_KIND_TASKS || !is_data(t))
        return 0;
    bool sub_task = t->kind == RKNN_KIND_SUBTASK_CONSTANT && f->container.scratch.size > 0;
    if (!bytes_slice(sub_task ? f->container.scratch : f->container.weights, t->offset, t->size,
                     &t->data))
        return error_set(e, STATUS_MODEL_INVALID, "its %u bytes at %u lie outside the weights",
                         t->size, t->offset);
    return 0;
}

// What both dialects share, then the rest. Whoever uses a tensor refuses it for a slot that is not
// understood: files have tensors for the chip alone.
static int read_tensor(struct rknn_file *f, const struct fb_table *b, const struct fb_list *buffers,
                       struct rknn_tensor *t, struct error *e)
{
    t->type = fb_u8(b, 0, 0);
    t->layout = fb_u8(b, 1, 0);
    t->kind = fb_u8(b, 2, 0);
    t->odd_slot = rknn_unknown_slot(&f->container, RKNN_TENSOR, b, &t->odd_value);
    t->name = pool_text(&f->pool, fb_vector(b, 5, 1));
    if (!t->name)
        return error_no_memory(e, "the model's tables", 0);
    if (read_numbers(fb_vector(b, 3, 4), RKNN_MAX_NATIVE, t->native, &t->n_native) < 0 ||
        read_numbers(fb_vector(b, 4, 4), RKNN_MAX_DIMS, t->dims, &t->n_dims) < 0)
        return error_set(e, STATUS_MODEL_INVALID, "too many dimensions");
    return f->container.kind == RKNN_LITE ? read_lite_tensor(f, b, t, e)
                                          : read_plain_tensor(f, b, t, buffers, e);
}

int rknn_read_tensors(struct rknn_file *f, const struct fb_table *graph,
                      const struct fb_list *buffers, struct error *e)
{
    struct fb_list list = fb_tables(graph, 0);
    if (list.n > RKNN_MAX_TENSORS)
        return error_set(e, STATUS_MODEL_INVALID, "%u tensors, at most %d are allowed", list.n,
                         RKNN_MAX_TENSORS);
    f->tensors = pool_alloc(&f->pool, list.n, sizeof *f->tensors);
    if (!f->tensors)
        return error_no_memory(e, "the model's tables", 0);
    f->n_tensors = list.n;
    for (uint32_t i = 0; i < list.n; i++) {
        struct fb_table b = fb_list_get(&list, i);
        if (fb_error(&f->fb))
            return STATUS_MODEL_INVALID;
        if (read_tensor(f, &b, buffers, &f->tensors[i], e) < 0)
            return error_prefix(e, "tensor %u (%s)", i, f->tensors[i].name);
    }
    return 0;
}

// ---- nodes ----

struct node_slots {
    uint16_t attr_type, attr, bson;
};
static const struct node_slots node_slots[] = {
    [RKNN_PLAIN] = {7, 8, 9},
    [RKNN_LITE] = {6, 7, 8},
};

static uint32_t first_number(struct bytes b)
{
    return b.size >= 4 ? read_le32(b.data) : 0;
}

// A node's operator, operands and attributes. Attributes stay where they are: a typed table (attr,
// attr_type) and BSON, which rknn_attrs.c reads on demand.
static int read_node(struct rknn_file *f, const struct fb_table *b, struct rknn_node *n,
                     struct error *e)
{
    const struct node_slots *s = &node_slots[f->container.kind];
    n->op = pool_text(&f->pool, fb_vector(b, 1, 1));
    n->name = pool_text(&f->pool, fb_vector(b, 2, 1));
    if (!n->op || !n->name)
        return error_no_memory(e, "the model's tables", 0);
    n->device = fb_u8(b, 3, 0);
    n->attr_type = fb_u8(b, s->attr_type, 0);
    n->attr = fb_sub(b, s->attr);
    n->bson = fb_vector(b, s->bson, 1);
    // Slot 10: tasks of one core. Slot 11: tasks that load lookup tables, which slot 10 leaves out
    // on RK3588 and includes on RK3568. The sum is therefore an upper bound.
    if (f->container.kind == RKNN_PLAIN &&
        __builtin_add_overflow(first_number(fb_vector(b, 10, 4)), first_number(fb_vector(b, 11, 4)),
                               &n->said_tasks))
        n->said_tasks = 0;
    int r = rknn_check_slots(&f->container, RKNN_NODE, b, "it", e);
    if (r == 0)
        r = rknn_read_indices(f, fb_vector(b, 4, 4), &n->inputs, &n->n_inputs, e);
    if (r < 0)
        return r;
    return rknn_read_indices(f, fb_vector(b, 5, 4), &n->outputs, &n->n_outputs, e);
}

int rknn_read_nodes(struct rknn_file *f, const struct fb_table *graph, struct error *e)
{
    struct fb_list list = fb_tables(graph, 1);
    if (list.n > RKNN_MAX_NODES)
        return error_set(e, STATUS_MODEL_INVALID, "%u nodes, at most %d are allowed", list.n,
                         RKNN_MAX_NODES);
    f->nodes = pool_alloc(&f->pool, list.n, sizeof *f->nodes);
    struct rknn_asked *asked = pool_alloc(&f->pool, 1, sizeof *asked);
    if (!f->nodes || !asked)
        return error_no_memory(e, "the model's tables", 0);
    f->n_nodes = list.n;
    for (uint32_t i = 0; i < list.n; i++) {
        struct fb_table b = fb_list_get(&list, i);
        if (fb_error(&f->fb))
            return STATUS_MODEL_INVALID;
        f->nodes[i].asked = asked;
        if (read_node(f, &b, &f->nodes[i], e) < 0)
            return error_prefix(e, "node %u (%s)", i, f->nodes[i].name);
    }
    return 0;
}

// ---- relocations ----

// The first tensor of a kind; of task and command blobs there is one.
static const struct rknn_tensor *find_kind(const struct rknn_file *f, enum rknn_tensor_kind kind)
{
    for (uint32_t i = 0; i < f->n_tensors; i++)
        if (f->tensors[i].kind == kind)
            return &f->tensors[i];
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    const struct rknn_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

// All tensors, sorted by name, as relocations name their tensors. In the pool.
static int sort_names(struct rknn_file *f, const struct rknn_tensor ***ret, struct error *e)
{
    const struct rknn_tensor **sorted = pool_alloc(&f->pool, f->n_tensors, sizeof *sorted);
    if (!sorted)
        return error_no_memory(e, "the model's tables", 0);
    for (uint32_t i = 0; i < f->n_tensors; i++)
        sorted[i] = &f->tensors[i];
    if (f->n_tensors)
        qsort(sorted, f->n_tensors, sizeof *sorted, compare_names);
    *ret = sorted;
    return 0;
}

// Marks the commands that take this tensor's address. Pairs of {i32 offset in the tensor, i32
// command number}.
static int take_relocations(struct rknn_file *f, struct bytes pairs, int32_t tensor,
                            struct error *e)
{
    for (size_t at = 0; at + 8 <= pairs.size; at += 8) {
        uint32_t command = read_le32(pairs.data + at + 4);
        if (command >= f->n_relocations)
            return error_set(e, STATUS_MODEL_INVALID, "register command %u does not exist",
                             command);
        f->relocations[command] = (struct rknn_relocation){tensor, read_le32(pairs.data + at)};
    }
    return 0;
}

// Graph slot 7: {tensor name, pairs}. The result has one entry for each register command of the
// file. Names that no tensor has are passed over: nothing asks for them.
int rknn_read_relocations(struct rknn_file *f, const struct fb_table *graph, struct error *e)
{
    const struct rknn_tensor *commands = find_kind(f, RKNN_KIND_REGISTERS), **sorted;
    struct fb_list list = fb_tables(graph, 7);
    if (f->container.kind != RKNN_PLAIN || f->container.blobs || !commands || !list.n)
        return 0;
    f->n_relocations = commands->data.size / 8;
    f->relocations = pool_alloc(&f->pool, f->n_relocations, sizeof *f->relocations);
    if (!f->relocations)
        return error_no_memory(e, "the model's tables", 0);
    int r = sort_names(f, &sorted, e);
    if (r != 0)
        return r;
    for (uint64_t i = 0; i < f->n_relocations; i++)
        f->relocations[i].tensor = -1;
    for (uint32_t i = 0; i < list.n && r == 0; i++) {
        struct fb_table t = fb_list_get(&list, i);
        struct rknn_tensor key = {.name = pool_text(&f->pool, fb_vector(&t, 0, 1))};
        const struct rknn_tensor *wanted = &key, **found = NULL;
        if (!key.name)
            return error_no_memory(e, "the model's tables", 0);
        if (f->n_tensors)
            found = bsearch(&wanted, sorted, f->n_tensors, sizeof *sorted, compare_names);
        if (found)
            r = take_relocations(f, fb_vector(&t, 1, 8), (int32_t)(*found - f->tensors), e);
    }
    return r < 0 ? error_prefix(e, "relocations") : 0;
}

// ---- tasks ----

// Appends a task; a node's tasks must be added in succession. f->tasks has room for all records.
static struct rknn_task *add_task(struct rknn_file *f, uint32_t node)
{
    struct rknn_node *n = &f->nodes[node];
    if (!n->n_tasks++)
        n->first_task = f->n_tasks;
    f->tasks[f->n_tasks].node = node;
    return &f->tasks[f->n_tasks++];
}

static bool has_all_tasks(const struct rknn_node *n)
{
    return n->said_tasks && n->n_tasks == n->said_tasks;
}

// Task records (40 bytes: u32 node at 4, u32 number of commands at 24, u64 byte offset of the first
// at 32) for one core. The blob holds several programs in succession: for one core, for two, for
// three. The one-core program comes first, in the order of nodes; it ends where the node index
// falls, or, for nodes that state their number of tasks, when they have them all.
static int read_task_records(struct rknn_file *f, struct bytes records, struct bytes commands,
                             struct error *e)
{
    size_t n = records.size / TASK_BYTES;
    f->tasks = pool_alloc(&f->pool, n, sizeof *f->tasks);
    if (!f->tasks)
        return error_no_memory(e, "the model's tables", 0);
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *record = records.data + i * TASK_BYTES;
        uint32_t node = read_le32(record + 4), count = read_le32(record + 24);
        if (node < last)
            return 0;
        if (node >= f->n_nodes)
            return error_set(e, STATUS_MODEL_INVALID, "task %zu is of node %u, there are %u", i,
                             node, f->n_nodes);
        if (has_all_tasks(&f->nodes[node]))
            continue;
        last = node;
        struct rknn_task *task = add_task(f, node);
        task->first_command = read_le64(record + 32) / 8;
        if (!bytes_slice(commands, read_le64(record + 32), 8 * (uint64_t)count, &task->commands))
            return error_set(e, STATUS_MODEL_INVALID,
                             "task %zu: its commands lie outside the register commands", i);
    }
    return 0;
}

// The commands of a task of containers 1 and 2, and before them those that load its lookup tables
// (slot 1), as a task of their own.
static int add_blobs(struct rknn_file *f, uint32_t node, const struct fb_table *task,
                     struct error *e)
{
    uint32_t blob = fb_u32(task, 0, 0), lut = fb_u32(task, 1, 0);
    if (blob >= f->n_tensors || lut >= f->n_tensors)
        return error_set(e, STATUS_MODEL_INVALID, "a task has no commands");
    if (lut)
        add_task(f, node)->commands = f->tensors[lut].data;
    struct rknn_task *added = add_task(f, node);
    added->commands = f->tensors[blob].data;
    added->relocations = fb_vector(task, 5, RKNN_RELOCATION_BYTES);
    return 0;
}

// Containers 1 and 2: each node lists its tasks, and each task has a blob of commands.
// Slot 8 is the number of cores that a task is for: those of several are passed over.
static int read_blob_tasks(struct rknn_file *f, const struct fb_table *graph, struct error *e)
{
    struct fb_list nodes = fb_tables(graph, 1);
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        struct fb_table b = fb_list_get(&nodes, i);
        n += 2 * (uint64_t)fb_tables(&b, 6).n;
    }
    f->tasks = pool_alloc(&f->pool, n, sizeof *f->tasks);
    if (!f->tasks)
        return error_no_memory(e, "the model's tables", 0);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        struct fb_table b = fb_list_get(&nodes, i);
        struct fb_list list = fb_tables(&b, 6);
        for (uint32_t k = 0; k < list.n; k++) {
            struct fb_table task = fb_list_get(&list, k);
            int r = rknn_check_slots(&f->container, RKNN_TASK, &task, "a task", e);
            if (r == 0)
                r = fb_u32(&task, 8, 1) > 1 ? 0 : add_blobs(f, i, &task, e);
            if (r < 0)
                return error_prefix(e, "node %u (%s)", i, f->nodes[i].name);
        }
    }
    return 0;
}

// Container 6 and the lite one have arrays of records; containers 1 and 2 have tables, for which
// the graph is entered once more. A file without tasks passes: nodes that need registers are
// refused when they are lowered.
int rknn_read_tasks(struct rknn_file *f, struct error *e)
{
    if (f->container.kind == RKNN_LITE)
        return read_task_records(f, f->container.tasks, f->container.registers, e);
    if (f->container.blobs) {
        struct fb_table root = fb_root(&f->fb, "RKNN");
        struct fb_list graphs = fb_tables(&root, 2);
        struct fb_table graph = fb_list_get(&graphs, 0);
        return read_blob_tasks(f, &graph, e);
    }
    const struct rknn_tensor *tasks = find_kind(f, RKNN_KIND_TASKS);
    const struct rknn_tensor *commands = find_kind(f, RKNN_KIND_REGISTERS);
    if (!tasks || !commands)
        return 0;
    return read_task_records(f, tasks->data, commands->data, e);
}
