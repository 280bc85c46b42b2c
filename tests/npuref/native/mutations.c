// Changes one register of one task of a .rknn file, or what its tables say, and looks whether
// npu/sim notices.
//
//   mutations FILE NODES EACH SEED    NODES of the NPU's nodes by chance, EACH changes of each
//   mutations FILE [NAME]             every bit of every command of every node, or of the register
//                                     or the operator of this name
//   mutations FILE kinds PART PARTS [NAME]
//                                     the same, but once of what does the same in several nodes
//                                     (tasks of one number of one operator), in the smallest node
//   mutations FILE NODES EACH SEED tables
//                                     changes what the file's tables say of nodes and their tensors
//   mutations FILE absent [OPERATOR]  leaves out each attribute of each node, or of such nodes
//
// What npu/sim still computes must be what the emulator computes by the changed commands. A line
// for each change that is not so:
//
//   NODE (OPERATOR) task T REGISTER (0xOFFSET) 0xOLD -> 0xNEW: wrong | ends | unjudged
//   NODE (OPERATOR) attribute | tensor | operator | input …: wrong | ends | unjudged
//
//   wrong      the emulator's outputs are others
//   ends       the emulator refuses the commands, npu/sim does not
//   unjudged   the two differ before anything was changed, or the emulator does not run the node
//
// and one with the counts of all verdicts.
#include <stdio.h>
#include <stdlib.h>

#include "npu/model/rknn/regs/rknn_registers.h"
#include "npu/model/rknn/rknn_chip.h"
#include "tests/npuref/native/mutations.h"
#include "tests/support/sim_run.h"

#define KINDS      (1u << 22) // more than there can be: of operators, tasks, registers and bits
#define FIRST_DATA 0x4104     // points of lookup tables: values, not registers

struct place {
    uint32_t node, task, offset;
    uint8_t *value; // 32 bits
};

static const char *name_of(const struct mutations *m, uint32_t offset)
{
    for (int i = 0; i < RKNN_REGISTER_COUNT; i++)
        if (rknn_register_at(m->chip, (enum rknn_register)i) == offset && offset)
            return rknn_register_name((enum rknn_register)i);
    return "?";
}

static void change(struct mutations *m, const struct place *p, uint32_t value,
                   const struct base *before)
{
    char what[160];
    uint32_t old = read_le32(p->value);
    if (value == old)
        return;
    snprintf(what, sizeof what, "task %u %s (0x%04x) 0x%08x -> 0x%08x", p->task,
             name_of(m, p->offset), p->offset, old, value);
    write_le32(p->value, value);
    mutations_judge(m, p->node, before, what);
    write_le32(p->value, old);
}

// The k-th command of a task; NULL: it is a point of a table, or nothing.
static bool place_of(const struct mutations *m, uint32_t node, uint32_t task, size_t k,
                     struct place *ret)
{
    const struct rknn_task *t = &m->file.tasks[m->file.nodes[node].first_task + task];
    uint8_t *p = m->bytes + (t->commands.data - m->bytes) + 8 * k;
    bool blobs = m->file.container.blobs;
    *ret = (struct place){node, task, read_le16(blobs ? p + 2 : p), blobs ? p + 4 : p + 2};
    return ret->offset != FIRST_DATA && ret->offset >= 0x1000;
}

// Whether a bit of a register of the node's task has not been changed in a node of its operator
// yet. Tasks beyond TASKS are taken for one.
static bool is_new(struct mutations *m, const struct place *p, uint32_t bit)
{
    enum { TASKS = 16 };
    uint64_t key = 14695981039346656037u;
    for (const char *c = m->file.nodes[p->node].op; *c; c++)
        key = (key ^ (uint8_t)*c) * 1099511628211u;
    key = (key ^ (p->task < TASKS ? p->task : TASKS)) * 1099511628211u;
    key = (key ^ p->offset) * 1099511628211u;
    key = (key ^ bit) * 1099511628211u;
    if (m->parts && (key >> 40) % m->parts != m->part)
        return false;
    for (size_t i = key % KINDS;; i = (i + 1) % KINDS) {
        if (m->kinds[i] == key)
            return false;
        if (m->kinds[i] == 0) {
            m->kinds[i] = key;
            return true;
        }
    }
}

// Whether any of the node's commands is of the register of this name.
static bool sets(const struct mutations *m, uint32_t node, const char *name)
{
    const struct rknn_node *n = &m->file.nodes[node];
    struct place p;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        for (size_t k = 0; 8 * k + 8 <= m->file.tasks[n->first_task + t].commands.size; k++)
            if (place_of(m, node, t, k, &p) && strcmp(name, name_of(m, p.offset)) == 0)
                return true;
    return false;
}

// Of the register of this name, or of all (NULL).
static void all_of(struct mutations *m, uint32_t node, const char *name, const struct base *b)
{
    const struct rknn_node *n = &m->file.nodes[node];
    struct place p;
    for (uint32_t t = 0; t < n->n_tasks; t++)
        for (size_t k = 0; 8 * k + 8 <= m->file.tasks[n->first_task + t].commands.size; k++)
            for (uint32_t bit = 0; bit < 32 && place_of(m, node, t, k, &p); bit++)
                if ((!name || strcmp(name, name_of(m, p.offset)) == 0) &&
                    (!m->kinds || is_new(m, &p, bit)))
                    change(m, &p, read_le32(p.value) ^ 1u << bit, b);
}

static uint32_t other_value(struct mutations *m, uint32_t old)
{
    switch (below(m, 4)) {
    case 0:
        return old + 1 + below(m, 4);
    case 1:
        return old - 1 - below(m, 4);
    case 2:
        return below(m, 2) ? old * 2 : old / 2;
    default:
        return old ^ 1u << below(m, 32);
    }
}

static void some_of(struct mutations *m, uint32_t node, uint32_t n_changes, const struct base *b)
{
    const struct rknn_node *n = &m->file.nodes[node];
    struct place p;
    for (uint32_t i = 0; i < n_changes; i++) {
        uint32_t t = below(m, n->n_tasks);
        size_t size = m->file.tasks[n->first_task + t].commands.size / 8;
        if (size && place_of(m, node, t, below(m, (uint32_t)size), &p))
            change(m, &p, other_value(m, read_le32(p.value)), b);
    }
}

static bool is_of_interest(const struct rknn_node *n)
{
    return n->device != 0 && n->n_tasks && !rknn_node_is_end(n);
}

static void one_node(struct mutations *m, uint32_t node, uint32_t n_changes, bool tables,
                     const char *name)
{
    struct base b = {0};
    if (base_init(m, node, &b)) {
        if (tables)
            mutations_of_tables(m, node, n_changes, &b);
        else if (n_changes)
            some_of(m, node, n_changes, &b);
        else
            all_of(m, node, name, &b);
    }
    base_done(&b);
}

// Changes all bits of the node if its operator has this name, or those of the register that has it.
static void named(struct mutations *m, uint32_t node, const char *name)
{
    const struct rknn_node *n = &m->file.nodes[node];
    bool whole = !name || strcmp(name, n->op) == 0;
    if (is_of_interest(n) && (whole || sets(m, node, name)))
        one_node(m, node, 0, false, whole ? NULL : name);
}

static void some_nodes(struct mutations *m, uint32_t n, uint32_t n_changes, bool tables)
{
    uint32_t there = 0;
    for (uint32_t i = 0; i < m->file.n_nodes; i++)
        there += is_of_interest(&m->file.nodes[i]);
    for (uint32_t k = 0; k < n && there; k++) {
        uint32_t chosen = below(m, there), i = 0;
        for (; !is_of_interest(&m->file.nodes[i]) || chosen--; i++)
            ;
        one_node(m, i, n_changes, tables, NULL);
    }
}

struct sized {
    uint64_t size; // of all of its tensors
    uint32_t node;
};

static int compare_sizes(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size ? 1 : -1)
                              : (x->node > y->node) - (x->node < y->node);
}

static uint64_t size_of(const struct rknn_file *f, const int32_t *tensors, uint32_t n)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < n; i++)
        size += tensors[i] < 0 ? 0 : f->tensors[tensors[i]].size;
    return size;
}

static void each_kind(struct mutations *m, const char *name)
{
    const struct rknn_file *f = &m->file;
    struct sized *order = calloc(f->n_nodes + 1, sizeof *order);
    m->kinds = calloc(KINDS, sizeof *m->kinds);
    if (!order || !m->kinds)
        abort();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct rknn_node *n = &f->nodes[i];
        order[i] = (struct sized){
            size_of(f, n->inputs, n->n_inputs) + size_of(f, n->outputs, n->n_outputs), i};
    }
    qsort(order, f->n_nodes, sizeof *order, compare_sizes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        named(m, order[i].node, name);
    free(m->kinds);
    free(order);
}

int main(int argc, char **argv)
{
    struct mutations m = {0};
    struct error e = {0};
    size_t size;
    bool tables = argc == 6 && strcmp(argv[5], "tables") == 0;
    bool kinds = (argc == 5 || argc == 6) && strcmp(argv[2], "kinds") == 0;
    m.absent = (argc == 3 || argc == 4) && strcmp(argv[2], "absent") == 0;
    if (argc != 2 && argc != 3 && argc != 5 && !tables && !kinds && !m.absent)
        return 2;
    m.bytes = sim_read_file(argv[1], &size, &e);
    if (!m.bytes || rknn_file_open(&m.file, (struct bytes){m.bytes, size}, &e) < 0 ||
        rknn_find_chip(NULL, &m.file, &m.chip, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    m.state = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (kinds) {
        m.part = (uint32_t)atoi(argv[3]);
        m.parts = (uint32_t)atoi(argv[4]);
        each_kind(&m, argc == 6 ? argv[5] : NULL);
    } else if (argc > 4)
        some_nodes(&m, (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), tables);
    for (uint32_t i = 0; i < m.file.n_nodes && argc <= 4; i++) {
        const struct rknn_node *n = &m.file.nodes[i];
        if (!m.absent)
            named(&m, i, argc == 3 ? argv[2] : NULL);
        else if (is_of_interest(n) && (argc == 3 || strcmp(argv[3], n->op) == 0))
            one_node(&m, i, 0, true, NULL);
    }
    mutations_print_counts(&m);
    rknn_file_done(&m.file);
    free(m.bytes);
    return 0;
}
