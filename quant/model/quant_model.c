// Reads ONNX files by protobuf-c into memory of a pool, and adds nodes and constants.
#include "quant/model/quant_model.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/order/order_nodes.h"
#include "quant/model/quant_external.h"
#include "quant/model/quant_nameless.h"

// Version of the format from which on a constant need not be an input, too.
#define FIRST_OF_CONSTANTS 4

// ---- reading ----

// If, Loop and Scan have graphs in their attributes, which may read any tensor of the outer one
// without naming it as an input.
static bool quant_model_has_subgraph(const Quant__Graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++) {
            const Quant__Attribute *a = g->node[i]->attribute[k];
            if ((a->has_g && a->g.len) || a->n_graphs)
                return true;
        }
    return false;
}

// Nodes come behind those that make what they read.
static int quant_model_sort(struct quant_pool *p, Quant__Graph *g, struct error *e)
{
    cleanup(free_p) struct order_node *nodes = calloc(g->n_node + 1, sizeof *nodes);
    cleanup(free_p) uint32_t *order = calloc(g->n_node + 1, sizeof *order);
    Quant__Node **sorted = quant_pool_take(p, g->n_node + 1, sizeof *sorted);
    bool moved;
    if (!nodes || !order || !sorted || g->n_node > UINT32_MAX)
        return error_no_memory(e, "the graph", g->n_node);
    for (size_t i = 0; i < g->n_node; i++)
        nodes[i] = (struct order_node){.inputs = (const char *const *)g->node[i]->input,
                                       .outputs = (const char *const *)g->node[i]->output,
                                       .n_inputs = (uint32_t)g->node[i]->n_input,
                                       .n_outputs = (uint32_t)g->node[i]->n_output};
    int r = order_nodes(nodes, (uint32_t)g->n_node, order, &moved, e);
    for (size_t i = 0; i < g->n_node && r == 0 && moved; i++)
        sorted[i] = g->node[order[i]];
    if (r == 0 && moved)
        g->node = sorted;
    return r;
}

int quant_model_parse(struct quant_model *m, const void *data, size_t size, const char *folder,
                      struct error *e)
{
    *m = (struct quant_model){0};
    ProtobufCAllocator allocator = quant_pool_for_proto(&m->pool);
    m->proto = quant__model__unpack(&allocator, size, data);
    if (!m->proto)
        return error_set(e, STATUS_MODEL_INVALID,
                         "it is no ONNX model, or it is damaged: its messages cannot be read");
    m->graph = m->proto->graph;
    if (!m->graph || !m->graph->n_node)
        return error_set(e, STATUS_MODEL_INVALID, "it is no ONNX model: it has no nodes");
    if (m->graph->n_sparse_initializer)
        return error_set(e, STATUS_MODEL_INVALID,
                         "it has sparse tensors, which are not supported: store them as others");
    m->has_subgraphs = quant_model_has_subgraph(m->graph);
    int r = quant_model_sort(&m->pool, m->graph, e);
    if (r == 0)
        r = quant_external_map(m->graph, &m->pool, &m->mappings, folder, e);
    return r < 0 ? r : quant_taken_make(&m->taken, &m->pool, m->graph, e);
}

// O_NONBLOCK: a pipe would wait for somebody who writes to it.
int quant_model_load(struct quant_model *m, const char *path, struct error *e)
{
    *m = (struct quant_model){0};
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup(free_p) char *copy = strdup(path);
    void *data = NULL;
    size_t size = 0;
    if (!copy)
        return error_no_memory(e, "the model", 0);
    if (fd < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "model %s", path);
    int r = quant_nameless_map(fd, &data, &size, e);
    if (r == 0)
        r = size ? quant_model_parse(m, data, size, dirname(copy), e)
                 : error_set(e, STATUS_MODEL_INVALID, "it is empty");
    if (size)
        munmap(data, size);
    return r < 0 ? error_prefix(e, "model %s", path) : 0;
}

void quant_model_done(struct quant_model *m)
{
    quant_external_unmap(m->mappings);
    quant_pool_done(&m->pool);
    *m = (struct quant_model){0};
}

int64_t quant_model_opset(const struct quant_model *m)
{
    for (size_t i = 0; i < m->proto->n_opset_import; i++) {
        const char *domain = quant_text(m->proto->opset_import[i]->domain);
        if (!*domain || strcmp(domain, "ai.onnx") == 0)
            return m->proto->opset_import[i]->version;
    }
    return 0;
}

const Quant__Attribute *quant_attr(const Quant__Node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(quant_text(n->attribute[i]->name), name) == 0)
            return n->attribute[i];
    return NULL;
}

int64_t quant_attr_int(const Quant__Node *n, const char *name, int64_t otherwise)
{
    const Quant__Attribute *a = quant_attr(n, name);
    return a && a->has_i ? a->i : a ? 0 : otherwise;
}

float quant_attr_float(const Quant__Node *n, const char *name, float otherwise)
{
    const Quant__Attribute *a = quant_attr(n, name);
    return a && a->has_f ? a->f : a ? 0 : otherwise;
}

// ---- changing ----

// Room for one more pointer behind n; *room 0: the array is not the pool's own yet.
static void *quant_model_grow(struct quant_pool *p, void *items, size_t n, size_t *room)
{
    if (n < *room)
        return items;
    size_t wanted = n < 16 ? 32 : n * 2;
    void **fresh = quant_pool_take(p, wanted, sizeof *fresh);
    if (!fresh)
        return NULL;
    if (n)
        memcpy(fresh, items, n * sizeof *fresh);
    *room = wanted;
    return fresh;
}

#define GROW(m, items, n, room)                                                                    \
    ({                                                                                             \
        void *grown_ = quant_model_grow(&(m)->pool, (items), (n), (room));                         \
        if (grown_)                                                                                \
            (items) = grown_;                                                                      \
        grown_ != NULL;                                                                            \
    })

Quant__Node *quant_model_node(struct quant_model *m, const char *op, const char *name,
                              size_t n_inputs, const char *const *inputs, const char *output)
{
    Quant__Node *n = quant_pool_take(&m->pool, 1, sizeof *n);
    char **in = quant_pool_take(&m->pool, n_inputs, sizeof *in);
    char **out = quant_pool_take(&m->pool, 1, sizeof *out);
    if (!n || !in || !out)
        return NULL;
    quant__node__init(n);
    n->op_type = quant_pool_text(&m->pool, "%s", op);
    n->name = quant_pool_text(&m->pool, "%s", name);
    out[0] = quant_pool_text(&m->pool, "%s", output);
    n->n_input = n_inputs;
    n->input = in;
    n->n_output = 1;
    n->output = out;
    for (size_t i = 0; i < n_inputs; i++)
        if (!(in[i] = quant_pool_text(&m->pool, "%s", inputs[i])))
            return NULL;
    return n->op_type && n->name && out[0] ? n : NULL;
}

static Quant__Attribute *quant_model_add_attr(struct quant_model *m, Quant__Node *n,
                                              const char *name, enum quant_attr_type type)
{
    Quant__Attribute *a = quant_pool_take(&m->pool, 1, sizeof *a);
    Quant__Attribute **list = quant_pool_take(&m->pool, n->n_attribute + 1, sizeof *list);
    if (!a || !list)
        return NULL;
    quant__attribute__init(a);
    a->name = quant_pool_text(&m->pool, "%s", name);
    a->has_type = true;
    a->type = (int32_t)type;
    if (!a->name)
        return NULL;
    if (n->n_attribute)
        memcpy(list, n->attribute, n->n_attribute * sizeof *list);
    list[n->n_attribute++] = a;
    n->attribute = list;
    return a;
}

bool quant_model_set_int(struct quant_model *m, Quant__Node *n, const char *name, int64_t value)
{
    Quant__Attribute *a = quant_model_add_attr(m, n, name, QUANT_ATTR_INT);
    if (!a)
        return false;
    a->has_i = true;
    a->i = value;
    return true;
}

bool quant_model_set_text(struct quant_model *m, Quant__Node *n, const char *name,
                          const char *value)
{
    Quant__Attribute *a = quant_model_add_attr(m, n, name, QUANT_ATTR_STRING);
    if (!a || !(a->s.data = (uint8_t *)quant_pool_text(&m->pool, "%s", value)))
        return false;
    a->has_s = true;
    a->s.len = strlen(value);
    return true;
}

void quant_attr_remove(Quant__Node *n, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(quant_text(n->attribute[i]->name), name) != 0)
            n->attribute[kept++] = n->attribute[i];
    n->n_attribute = kept;
}

Quant__Tensor *quant_model_take_constant(struct quant_model *m, const char *name,
                                         enum quant_type type, size_t n_dims, const int64_t *dims,
                                         void *data, size_t size)
{
    Quant__Graph *g = m->graph;
    Quant__Tensor *t = quant_pool_take(&m->pool, 1, sizeof *t);
    if (!t || !GROW(m, g->initializer, g->n_initializer, &m->room_initializers))
        return NULL;
    quant__tensor__init(t);
    t->name = quant_pool_text(&m->pool, "%s", name);
    t->dims = quant_pool_take(&m->pool, n_dims, sizeof *t->dims);
    if (!t->name || !t->dims)
        return NULL;
    t->n_dims = n_dims;
    if (n_dims)
        memcpy(t->dims, dims, n_dims * sizeof *dims);
    t->has_data_type = t->has_raw_data = true;
    t->data_type = (int32_t)type;
    t->raw_data = (ProtobufCBinaryData){.len = size, .data = data};
    g->initializer[g->n_initializer++] = t;
    if (m->proto->ir_version < FIRST_OF_CONSTANTS) {
        m->proto->has_ir_version = true;
        m->proto->ir_version = FIRST_OF_CONSTANTS;
    }
    return t;
}

Quant__Tensor *quant_model_constant(struct quant_model *m, const char *name, enum quant_type type,
                                    size_t n_dims, const int64_t *dims, const void *data,
                                    size_t size)
{
    void *own = quant_pool_take(&m->pool, size, 1);
    if (!own)
        return NULL;
    if (size)
        memcpy(own, data, size);
    return quant_model_take_constant(m, name, type, n_dims, dims, own, size);
}

bool quant_model_append(struct quant_model *m, struct quant_node_list *l, Quant__Node *n)
{
    if (!n || !GROW(m, l->items, l->n, &l->room))
        return false;
    l->items[l->n++] = n;
    return true;
}

void quant_model_take_nodes(struct quant_model *m, const struct quant_node_list *l)
{
    m->graph->node = l->items;
    m->graph->n_node = l->n;
}

// An operator of a domain that the model does not import is refused by ONNX Runtime, so the domain
// comes with the first node of it.
bool quant_model_import(struct quant_model *m, const char *domain, int64_t version)
{
    Quant__Model *p = m->proto;
    for (size_t i = 0; i < p->n_opset_import; i++)
        if (strcmp(quant_text(p->opset_import[i]->domain), domain) == 0)
            return true;
    Quant__OperatorSet **list = quant_pool_take(&m->pool, p->n_opset_import + 1, sizeof *list);
    Quant__OperatorSet *set = quant_pool_take(&m->pool, 1, sizeof *set);
    if (!list || !set)
        return false;
    quant__operator_set__init(set);
    set->domain = quant_pool_text(&m->pool, "%s", domain);
    set->has_version = true;
    set->version = version;
    if (p->n_opset_import)
        memcpy(list, p->opset_import, p->n_opset_import * sizeof *list);
    list[p->n_opset_import++] = set;
    p->opset_import = list;
    return set->domain != NULL;
}

bool quant_model_add_output(struct quant_model *m, const char *name)
{
    Quant__Graph *g = m->graph;
    Quant__ValueInfo *v = quant_pool_take(&m->pool, 1, sizeof *v);
    if (!v || !GROW(m, g->output, g->n_output, &m->room_outputs))
        return false;
    quant__value_info__init(v);
    v->name = quant_pool_text(&m->pool, "%s", name);
    if (!v->name)
        return false;
    g->output[g->n_output++] = v;
    return true;
}

bool quant_model_join(struct quant_model *m, const char *was, const char *now)
{
    if (!*was)
        return true;
    if (m->n_joined == m->room_joined) {
        size_t room = m->room_joined ? 2 * m->room_joined : 16;
        struct quant_joined *larger = quant_pool_take(&m->pool, room, sizeof *larger);
        if (!larger)
            return false;
        for (size_t i = 0; i < m->n_joined; i++)
            larger[i] = m->joined[i];
        m->joined = larger;
        m->room_joined = room;
    }
    m->joined[m->n_joined++] = (struct quant_joined){was, now};
    return true;
}

const char *quant_model_present_name(const struct quant_model *m, const char *name)
{
    for (size_t i = 0; i < m->n_joined; i++)
        if (strcmp(m->joined[i].was, name) == 0)
            name = m->joined[i].now;
    return name;
}
