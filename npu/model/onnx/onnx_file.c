// Reads ONNX files (protobuf, onnx.pb.h by nanopb) into the structs of onnx_file.h.
//
// nanopb calls back for repeated fields. The callbacks copy as little as possible: messages, texts
// and raw data are collected as slices of the mapped file, and decoded afterwards, level by level:
//
//      Model -> Graph -> nodes -> attributes
//                      -> initializers, inputs, outputs, values
//
// so nothing recurses. Only what nanopb hands over in a buffer of its own (varints) is copied into
// the pool. The file is untrusted: nanopb bounds each message by its parent; counts are bounded
// here.
#include "npu/model/onnx/onnx_file.h"

#include <pb_decode.h>
#include <stdio.h>

#include "onnx.pb.h"

#define MAX_ITEMS (1u << 20) // of one list of messages, to bound memory

// ---- collecting ----

// What a callback fills.
struct sink {
    struct pool *pool;
    struct bytes file;
    struct onnx_list *list;
    struct onnx_numbers *numbers;
    struct bytes *fixed;
    size_t fixed_size;
};

// What is left of a field. The state of a buffer stream of nanopb is its position.
static struct bytes rest_of(const pb_istream_t *stream)
{
    return (struct bytes){stream->state, stream->bytes_left};
}

static bool skip_rest(pb_istream_t *stream)
{
    return pb_read(stream, NULL, stream->bytes_left);
}

static bool lies_in(struct bytes part, struct bytes all)
{
    return part.data >= all.data && part.data < all.data + all.size;
}

// One element of a repeated field as a slice of the file. A field whose wire type is a varint
// although bytes are expected is decoded by nanopb into a buffer of its own, which would not live
// long enough: lies_in() finds that out.
static bool take_slice(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    struct sink *k = *arg;
    struct onnx_list *l = k->list;
    struct bytes part = rest_of(stream);
    if (l->n == MAX_ITEMS || (part.size && !lies_in(part, k->file)) ||
        !pool_reserve(k->pool, l->items, l->n, l->room, l->n + 1))
        return false;
    l->items[l->n++] = part.size ? part : (struct bytes){(const uint8_t *)"", 0};
    return skip_rest(stream);
}

// Whole numbers, packed or one by one.
static bool take_varints(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    struct sink *k = *arg;
    struct onnx_numbers *l = k->numbers;
    while (stream->bytes_left) {
        uint64_t v;
        if (l->n == UINT32_MAX / 2 || !pb_decode_varint(stream, &v) ||
            !pool_reserve(k->pool, l->items, l->n, l->room, l->n + 1))
            return false;
        l->items[l->n++] = (int64_t)v;
    }
    return true;
}

// Floats and doubles. The usual case, one packed run, stays a slice of the file (weights may be
// large); further runs or single numbers are appended to a copy in the pool that doubles.
static bool take_fixed(pb_istream_t *stream, const pb_field_t *field, void **arg)
{
    (void)field;
    struct sink *k = *arg;
    struct bytes part = rest_of(stream);
    if (!k->fixed->size && lies_in(part, k->file)) {
        *k->fixed = part;
        k->fixed_size = part.size;
        return skip_rest(stream);
    }
    size_t need = k->fixed->size + part.size;
    if (need > k->fixed_size || lies_in(*k->fixed, k->file)) {
        uint8_t *fresh = pool_alloc(k->pool, need * 2, 1);
        if (!fresh)
            return false;
        memcpy(fresh, k->fixed->data ? k->fixed->data : fresh, k->fixed->size);
        k->fixed->data = fresh;
        k->fixed_size = need * 2;
    }
    memcpy((uint8_t *)(uintptr_t)k->fixed->data + k->fixed->size, part.data, part.size);
    k->fixed->size = need;
    return skip_rest(stream);
}

// Callbacks that fill a list, numbers or bytes. The sink is a compound literal: it lives as long as
// the block of the function that decodes.
#define SLICES(l) ((pb_callback_t){{.decode = take_slice}, &(struct sink){SINK, .list = &(l)}})
#define VARINTS(l)                                                                                 \
    ((pb_callback_t){{.decode = take_varints}, &(struct sink){SINK, .numbers = &(l)}})
#define FIXED(b) ((pb_callback_t){{.decode = take_fixed}, &(struct sink){SINK, .fixed = &(b)}})
#define SINK     .pool = f->pool, .file = f->bytes

// Decodes one message. noinit: the caller has set the callbacks, and zeroed the rest.
static int decode(const struct onnx_file *f, struct bytes message, const pb_msgdesc_t *fields,
                  void *to, const char *what, struct error *e)
{
    (void)f;
    pb_istream_t stream = pb_istream_from_buffer(message.data, message.size);
    if (pb_decode_noinit(&stream, fields, to))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID, "the file is damaged: %s cannot be read (%s)", what,
                     PB_GET_ERROR(&stream));
}

// The last of several, as protobuf has it for a field that is given more than once.
static struct bytes last(const struct onnx_list *l)
{
    return l->n ? l->items[l->n - 1] : (struct bytes){NULL, 0};
}

static const char *text(const struct onnx_file *f, struct bytes b)
{
    const char *copy = b.size ? pool_text(f->pool, b) : "";
    return copy ? copy : "";
}

static const char *last_text(const struct onnx_file *f, const struct onnx_list *l)
{
    return text(f, last(l));
}

// ---- tensors ----

// Dimensions of a tensor: at most GRAPH_MAX_DIMS, each of 0 to 2^32 - 1.
static int take_dims(const struct onnx_numbers *from, const char *name, int64_t *dims, uint32_t *n,
                     struct error *e)
{
    if (from->n > GRAPH_MAX_DIMS)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s has %u dimensions, %d are the most that is supported", name,
                         from->n, GRAPH_MAX_DIMS);
    for (uint32_t i = 0; i < from->n; i++) {
        if (from->items[i] < 0 || from->items[i] > UINT32_MAX)
            return error_set(e, STATUS_MODEL_INVALID,
                             "tensor %s: a dimension of %lld is not possible", name,
                             (long long)from->items[i]);
        dims[i] = from->items[i];
    }
    *n = from->n;
    return 0;
}

// Describes the tensor; its elements are in one of the fields, which onnx_tensor.c chooses by type.
int onnx_tensor_read(const struct onnx_file *f, struct bytes message, struct onnx_tensor *ret,
                     struct error *e)
{
    struct onnx_list name = {0}, raw = {0}, strings = {0}, segment = {0};
    struct onnx_numbers dims = {0};
    struct onnx_tensor t = {0};
    onnx_Tensor m = {.dims = VARINTS(dims),
                     .segment = SLICES(segment),
                     .float_data = FIXED(t.floats),
                     .int32_data = VARINTS(t.ints),
                     .string_data = SLICES(strings),
                     .int64_data = VARINTS(t.ints),
                     .name = SLICES(name),
                     .raw_data = SLICES(raw),
                     .double_data = FIXED(t.doubles),
                     .uint64_data = VARINTS(t.ints)};
    int r = decode(f, message, onnx_Tensor_fields, &m, "a tensor", e);
    if (r < 0)
        return r;
    t.name = last_text(f, &name);
    t.type = m.data_type;
    t.raw = last(&raw);
    t.external = m.data_location != 0;
    t.strings = strings.n > 0;
    if (segment.n)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s is cut into segments", t.name);
    r = take_dims(&dims, t.name, t.dims, &t.n_dims, e);
    if (r == 0)
        *ret = t;
    return r;
}

// ---- inputs, outputs, values ----

// A dimension is a number, or open (-1): a name, nothing, or a number that makes no sense.
static int read_dim(const struct onnx_file *f, struct bytes message, int64_t *ret, struct error *e)
{
    struct onnx_list param = {0};
    onnx_Dimension m = {.dim_param = SLICES(param)};
    int r = decode(f, message, onnx_Dimension_fields, &m, "a dimension", e);
    if (r == 0)
        *ret = m.has_dim_value && m.dim_value >= 0 && m.dim_value <= UINT32_MAX ? m.dim_value : -1;
    return r;
}

// A shape of too many dimensions counts as none, which is refused where it is needed.
static int read_shape(const struct onnx_file *f, struct bytes message, struct onnx_value *v,
                      struct error *e)
{
    struct onnx_list dims = {0};
    onnx_Shape m = {.dim = SLICES(dims)};
    int r = decode(f, message, onnx_Shape_fields, &m, "a shape", e);
    v->has_shape = dims.n <= GRAPH_MAX_DIMS;
    v->n_dims = v->has_shape ? dims.n : 0;
    for (uint32_t i = 0; i < v->n_dims && r == 0; i++)
        r = read_dim(f, dims.items[i], &v->dims[i], e);
    return r;
}

// Name, type and shape: ValueInfo > Type > TensorType > Shape, each optional. Absent ones decode as
// empty messages.
static int read_value(const struct onnx_file *f, struct bytes message, struct onnx_value *ret,
                      struct error *e)
{
    struct onnx_list name = {0}, type = {0}, tensor = {0}, shape = {0};
    onnx_ValueInfo m = {.name = SLICES(name), .type = SLICES(type)};
    onnx_Type t = {.tensor_type = SLICES(tensor)};
    onnx_TensorType tt = {.shape = SLICES(shape)};
    int r = decode(f, message, onnx_ValueInfo_fields, &m, "an input or output", e);
    if (r == 0)
        r = decode(f, last(&type), onnx_Type_fields, &t, "a type", e);
    if (r == 0)
        r = decode(f, last(&tensor), onnx_TensorType_fields, &tt, "a type", e);
    *ret = (struct onnx_value){.name = last_text(f, &name), .type = tt.elem_type};
    if (r == 0 && shape.n)
        r = read_shape(f, last(&shape), ret, e);
    return r;
}

static int read_values(const struct onnx_file *f, const struct onnx_list *from,
                       struct onnx_value **ret, uint32_t *ret_n, struct error *e)
{
    *ret = pool_alloc(f->pool, from->n, sizeof **ret);
    if (!*ret)
        return error_no_memory(e, "the model", 0);
    *ret_n = from->n;
    int r = 0;
    for (uint32_t i = 0; i < from->n && r == 0; i++)
        r = read_value(f, from->items[i], &(*ret)[i], e);
    return r;
}

// ---- nodes ----

// An attribute that stands for one of the call; without a name where the call has none.
static int take_given(const struct onnx_file *f, const char *name, const char *of,
                      struct onnx_attr *ret, struct error *e)
{
    if (!f->given)
        return error_set(e, STATUS_MODEL_INVALID,
                         "attribute %s stands for %s of a function, and is in none", name, of);
    *ret = (struct onnx_attr){.name = ""};
    for (uint32_t i = 0; i < f->n_given; i++)
        if (strcmp(f->given[i].name, of) == 0) {
            *ret = f->given[i];
            ret->name = name;
        }
    return 0;
}

static int read_attr(const struct onnx_file *f, struct bytes message, struct onnx_attr *ret,
                     struct error *e)
{
    struct onnx_list name = {0}, s = {0}, t = {0}, g = {0}, refers = {0};
    struct onnx_attr a = {0};
    onnx_Attribute m = {.name = SLICES(name),
                        .s = SLICES(s),
                        .t = SLICES(t),
                        .g = SLICES(g),
                        .floats = FIXED(a.floats),
                        .ints = VARINTS(a.ints),
                        .strings = SLICES(a.strings),
                        .ref_attr_name = SLICES(refers)};
    int r = decode(f, message, onnx_Attribute_fields, &m, "an attribute", e);
    if (r < 0)
        return r;
    a.name = last_text(f, &name);
    if (last(&refers).size)
        return take_given(f, a.name, last_text(f, &refers), ret, e);
    a.type = m.type;
    a.f = m.f;
    a.i = m.i;
    a.s = last(&s);
    a.t = last(&t);
    a.g = last(&g);
    *ret = a;
    return 0;
}

// Names of edges; "" stands for one that is left out. NULL: no memory.
static const char **read_names(const struct onnx_file *f, const struct onnx_list *from)
{
    const char **names = pool_alloc(f->pool, from->n, sizeof *names);
    for (uint32_t i = 0; names && i < from->n; i++)
        names[i] = text(f, from->items[i]);
    return names;
}

static int read_node(const struct onnx_file *f, struct bytes message, struct onnx_node *n,
                     struct error *e)
{
    struct onnx_list in = {0}, out = {0}, name = {0}, op = {0}, attrs = {0}, domain = {0},
                     overload = {0};
    onnx_Node m = {.input = SLICES(in),
                   .output = SLICES(out),
                   .name = SLICES(name),
                   .op_type = SLICES(op),
                   .attribute = SLICES(attrs),
                   .domain = SLICES(domain),
                   .overload = SLICES(overload)};
    int r = decode(f, message, onnx_Node_fields, &m, "a node", e);
    if (r < 0)
        return r;
    n->op = last_text(f, &op);
    n->domain = last_text(f, &domain);
    n->overload = last_text(f, &overload);
    n->n_inputs = in.n;
    n->n_outputs = out.n;
    n->inputs = read_names(f, &in);
    n->outputs = read_names(f, &out);
    n->attrs = pool_alloc(f->pool, attrs.n, sizeof *n->attrs);
    if (!n->inputs || !n->outputs || !n->attrs)
        return error_no_memory(e, "the model", 0);
    // Nodes need not have names; their first output's then tells which is meant.
    n->name = name.n && last(&name).size ? last_text(f, &name) : out.n ? n->outputs[0] : "";
    if (in.n > ONNX_MAX_EDGES || out.n > ONNX_MAX_EDGES)
        return error_set(e, STATUS_MODEL_INVALID, "node %s (%s): it has more than %d edges",
                         n->name, n->op, ONNX_MAX_EDGES);
    for (uint32_t i = 0; i < attrs.n && r == 0; i++) {
        r = read_attr(f, attrs.items[i], &n->attrs[n->n_attrs], e);
        n->n_attrs += r == 0 && n->attrs[n->n_attrs].name[0];
    }
    return r;
}

// ---- the file ----

static int read_graph(struct onnx_file *f, const struct onnx_list *graphs, struct error *e)
{
    struct onnx_list nodes = {0}, tensors = {0}, in = {0}, out = {0}, values = {0}, sparse = {0};
    int r = 0;
    // A message that is given in several pieces is all of them together.
    for (uint32_t i = 0; i < graphs->n && r == 0; i++) {
        onnx_Graph m = {.node = SLICES(nodes),
                        .initializer = SLICES(tensors),
                        .input = SLICES(in),
                        .output = SLICES(out),
                        .value_info = SLICES(values),
                        .sparse_initializer = SLICES(sparse)};
        r = decode(f, graphs->items[i], onnx_Graph_fields, &m, "the graph", e);
    }
    f->has_sparse = sparse.n > 0;
    f->n_nodes = nodes.n;
    f->n_initializers = tensors.n;
    f->nodes = pool_alloc(f->pool, nodes.n, sizeof *f->nodes);
    f->initializers = pool_alloc(f->pool, tensors.n, sizeof *f->initializers);
    if (!f->nodes || !f->initializers)
        return error_no_memory(e, "the model", 0);
    for (uint32_t i = 0; i < nodes.n && r == 0; i++)
        r = read_node(f, nodes.items[i], &f->nodes[i], e);
    for (uint32_t i = 0; i < tensors.n && r == 0; i++)
        r = onnx_tensor_read(f, tensors.items[i], &f->initializers[i], e);
    if (r == 0)
        r = read_values(f, &in, &f->inputs, &f->n_inputs, e);
    if (r == 0)
        r = read_values(f, &out, &f->outputs, &f->n_outputs, e);
    return r < 0 ? r : read_values(f, &values, &f->values, &f->n_values, e);
}

// A file of what lies in another one.
static struct onnx_file within(const struct onnx_file *of)
{
    return (struct onnx_file){.pool = of->pool,
                              .bytes = of->bytes,
                              .ir_version = of->ir_version,
                              .opset = of->opset,
                              .nested = true,
                              .n_functions = of->n_functions,
                              .functions = of->functions,
                              .given = of->given,
                              .n_given = of->n_given};
}

int onnx_file_subgraph(const struct onnx_file *of, struct bytes graph, struct onnx_file *ret,
                       struct error *e)
{
    struct onnx_list graphs = {.items = &graph, .n = 1};
    struct onnx_file f = within(of);
    int r = read_graph(&f, &graphs, e);
    if (r == 0 && f.has_sparse)
        r = error_set(e, STATUS_MODEL_INVALID, "sparse tensors are not supported");
    if (r == 0)
        *ret = f;
    return r;
}

// The version of the standard operators; those of other domains do not matter.
static int read_opset(struct onnx_file *f, struct bytes message, struct error *e)
{
    struct onnx_list domain = {0};
    onnx_OperatorSet m = {.domain = SLICES(domain)};
    int r = decode(f, message, onnx_OperatorSet_fields, &m, "the operator set", e);
    const char *name = last_text(f, &domain);
    if (r == 0 && (!name[0] || strcmp(name, "ai.onnx") == 0))
        f->opset = m.version;
    return r;
}

// ---- functions ----

// The lists of a function's message, some of which a caller wants.
struct function_lists {
    struct onnx_list name, domain, overload, in, out, nodes, opsets, defaults, values;
};

// Takes a function's message apart, without reading what lies in it.
static int read_function(const struct onnx_file *f, struct bytes message, struct function_lists *k,
                         struct error *e)
{
    onnx_Function m = {.name = SLICES(k->name),
                       .domain = SLICES(k->domain),
                       .overload = SLICES(k->overload),
                       .input = SLICES(k->in),
                       .output = SLICES(k->out),
                       .node = SLICES(k->nodes),
                       .opset_import = SLICES(k->opsets),
                       .attribute_proto = SLICES(k->defaults),
                       .value_info = SLICES(k->values)};
    return decode(f, message, onnx_Function_fields, &m, "a function", e);
}

// What the file's functions are called; their nodes are read when they are called.
static int list_functions(struct onnx_file *f, const struct onnx_list *from, struct error *e)
{
    struct onnx_function *list = pool_alloc(f->pool, from->n, sizeof *list);
    if (!list)
        return error_no_memory(e, "the model", 0);
    int r = 0;
    for (uint32_t i = 0; i < from->n && r == 0; i++) {
        struct function_lists k = {0};
        r = read_function(f, from->items[i], &k, e);
        list[i] = (struct onnx_function){last_text(f, &k.name), last_text(f, &k.domain),
                                         last_text(f, &k.overload), from->items[i]};
    }
    f->functions = list;
    f->n_functions = from->n;
    return r;
}

const struct onnx_function *onnx_file_function(const struct onnx_file *f,
                                               const struct onnx_node *call)
{
    for (uint32_t i = 0; i < f->n_functions; i++) {
        const struct onnx_function *fn = &f->functions[i];
        if (strcmp(fn->name, call->op) == 0 && strcmp(fn->domain, call->domain) == 0 &&
            strcmp(fn->overload, call->overload) == 0)
            return fn;
    }
    return NULL;
}

// The call's attributes, behind the function's defaults: the last of a name counts.
static int take_attributes(struct onnx_file *f, const struct onnx_list *defaults,
                           const struct onnx_node *call, struct error *e)
{
    struct onnx_attr *given = pool_alloc(f->pool, defaults->n + call->n_attrs + 1, sizeof *given);
    if (!given)
        return error_no_memory(e, "a function", 0);
    int r = 0;
    for (uint32_t i = 0; i < defaults->n && r == 0; i++)
        r = read_attr(f, defaults->items[i], &given[f->n_given++], e);
    for (uint32_t i = 0; i < call->n_attrs && r == 0; i++) {
        if (call->attrs[i].g.data) // whose names would be those around the call
            return error_set(e, STATUS_MODEL_INVALID, "attribute %s of a function is a graph",
                             call->attrs[i].name);
        given[f->n_given++] = call->attrs[i];
    }
    f->given = given;
    return r;
}

// Inputs and outputs of a function have names alone: types and shapes are those of the call.
static int name_values(struct onnx_file *f, const struct onnx_list *from, struct onnx_value **ret,
                       uint32_t *ret_n, struct error *e)
{
    *ret = pool_alloc(f->pool, from->n, sizeof **ret);
    if (!*ret)
        return error_no_memory(e, "a function", 0);
    *ret_n = from->n;
    for (uint32_t i = 0; i < from->n; i++)
        (*ret)[i] = (struct onnx_value){.name = text(f, from->items[i])};
    return 0;
}

// Nodes are called after the call as well. What it leaves out they leave out.
static int settle_node(const struct onnx_file *f, const struct onnx_node *call, struct onnx_node *n,
                       struct error *e)
{
    char name[300];
    int size = snprintf(name, sizeof name, "%.140s/%.140s", call->name, n->name);
    n->name = pool_text(f->pool, (struct bytes){(const uint8_t *)name, (size_t)size});
    if (!n->name)
        return error_no_memory(e, "a function", sizeof name);
    for (uint32_t i = 0; i < f->n_inputs; i++)
        for (uint32_t k = 0; k < n->n_inputs; k++)
            if ((i >= call->n_inputs || !call->inputs[i][0]) &&
                strcmp(n->inputs[k], f->inputs[i].name) == 0)
                n->inputs[k] = "";
    return 0;
}

// The function's nodes, in an order that they can run in.
static int read_body(struct onnx_file *f, const struct function_lists *k,
                     const struct onnx_node *call, struct error *e)
{
    f->nodes = pool_alloc(f->pool, k->nodes.n, sizeof *f->nodes);
    f->n_nodes = k->nodes.n;
    int r = f->nodes ? 0 : error_no_memory(e, "a function", 0);
    for (uint32_t i = 0; i < k->nodes.n && r == 0; i++) {
        r = read_node(f, k->nodes.items[i], &f->nodes[i], e);
        if (r == 0)
            r = settle_node(f, call, &f->nodes[i], e);
    }
    return r < 0 ? r : onnx_file_sort(f, e);
}

int onnx_file_call(const struct onnx_file *of, const struct onnx_function *function,
                   const struct onnx_node *call, struct onnx_file *ret, struct error *e)
{
    struct onnx_file f = within(of);
    struct function_lists k = {0};
    f.given = NULL;
    f.n_given = 0;
    int r = read_function(&f, function->message, &k, e);
    for (uint32_t i = 0; i < k.opsets.n && r == 0; i++)
        r = read_opset(&f, k.opsets.items[i], e);
    if (r == 0)
        r = take_attributes(&f, &k.defaults, call, e);
    if (r == 0)
        r = name_values(&f, &k.in, &f.inputs, &f.n_inputs, e);
    if (r == 0)
        r = name_values(&f, &k.out, &f.outputs, &f.n_outputs, e);
    if (r == 0)
        r = read_values(&f, &k.values, &f.values, &f.n_values, e);
    if (r == 0)
        r = read_body(&f, &k, call, e);
    if (r == 0)
        *ret = f;
    return r;
}

// Texts and slices point into `file` and `pool`.
int onnx_file_read(struct onnx_file *f, struct pool *pool, struct bytes file, struct error *e)
{
    *f = (struct onnx_file){.pool = pool, .bytes = file};
    struct onnx_list graphs = {0}, opsets = {0}, functions = {0};
    onnx_Model m = {
        .graph = SLICES(graphs), .opset_import = SLICES(opsets), .functions = SLICES(functions)};
    int r = decode(f, file, onnx_Model_fields, &m, "the model", e);
    f->ir_version = m.ir_version;
    f->opset = 1;
    for (uint32_t i = 0; i < opsets.n && r == 0; i++)
        r = read_opset(f, opsets.items[i], e);
    if (r == 0)
        r = list_functions(f, &functions, e);
    if (r == 0)
        r = read_graph(f, &graphs, e);
    return r < 0 ? r : onnx_file_sort(f, e);
}

// Protobuf has no magic: a file is taken for ONNX if all of it is a sequence of valid fields, among
// them a graph.
bool onnx_recognise(struct bytes file)
{
    pb_istream_t stream = pb_istream_from_buffer(file.data, file.size);
    bool graph = false, end = false;
    pb_wire_type_t wire;
    uint32_t tag;
    while (pb_decode_tag(&stream, &wire, &tag, &end)) {
        graph = graph || (tag == onnx_Model_graph_tag && wire == PB_WT_STRING);
        if (!pb_skip_field(&stream, wire))
            return false;
    }
    return end && graph;
}
