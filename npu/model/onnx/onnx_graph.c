// Turns an ONNX file into a graph. The passes:
//
//      initializers, inputs     constants and ports; shapes from the load options
//      nodes, in file order     lowered one by one (onnx_ops.c); nodes of constants are computed
//      outputs
//      onnx_order()             tensors that no image operator touches keep the file's order
//      onnx_gelu()              the nodes of a GELU become one
//      onnx_qdq()               QuantizeLinear ... DequantizeLinear become nodes on int8
//      onnx_fuse()              activations and BatchNormalization join their neighbours
//
// Shapes are inferred on the way, so every dimension must be known when a node is reached. The
// names of ONNX edges are mapped to tensor indices by onnx_names.c. Called once per load and shape
// set, on one thread.
#include "npu/model/onnx/onnx_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_lower.h"
#include "npu/model/onnx/onnx_names.h"
#include "npu/model/rknn/rknn_container.h"

#define OPSET_MIN 6  // of models of all operators
#define OPSET_MAX 24 // 21 to 24 only add types to the operators that are supported

// ---- constants, inputs ----

// The file's constants. Elements stay in the file where their form allows it.
int onnx_lower_initializers(struct onnx_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < l->f->n_initializers; i++) {
        const struct onnx_tensor *t = &l->f->initializers[i];
        if (onnx_names_has(l->names, t->name))
            return error_set(e, STATUS_MODEL_INVALID, "tensor %s is there twice", t->name);
        int32_t index = onnx_tensor_new(l, t->name, e);
        if (index < 0)
            return index;
        int r = onnx_tensor_constant(l->f, t, &l->g->tensors[index], e);
        if (r == 0)
            r = onnx_names_set(l->names, t->name, index, e);
        if (r < 0)
            return r;
    }
    return 0;
}

#define SHAPE_TEXT 200

// Appends "x3", or "x?" for a dimension that is open.
static void add_dim(char *text, uint32_t i, int64_t dim)
{
    size_t used = strlen(text);
    if (dim < 0)
        snprintf(text + used, SHAPE_TEXT - used, "%s?", i ? "x" : "");
    else
        snprintf(text + used, SHAPE_TEXT - used, "%s%lld", i ? "x" : "", (long long)dim);
}

// The load options may only fix dimensions that the file leaves open. The message shows both
// shapes.
static int check_shape(const struct onnx_value *v, const struct load_shape *s, const uint32_t *dims,
                       struct error *e)
{
    bool fits = s->n_dims == v->n_dims;
    for (uint32_t i = 0; i < v->n_dims && fits; i++)
        fits = v->dims[i] < 0 || v->dims[i] == dims[i];
    if (fits)
        return 0;
    char given[SHAPE_TEXT] = "", known[SHAPE_TEXT] = "";
    for (uint32_t i = 0; i < s->n_dims; i++)
        add_dim(given, i, dims[i]);
    for (uint32_t i = 0; i < v->n_dims; i++)
        add_dim(known, i, v->dims[i]);
    return error_set(e, STATUS_PARAM_INVALID,
                     "input %s: shape %s does not fit the model's %s (? may be chosen)", v->name,
                     given, known);
}

// The shape of an input in this shape set. An open first dimension without an option is 1: that is
// how exporters write a batch of any size. Any other needs the options.
static int take_shape(const struct onnx_lowering *l, const struct onnx_value *v, uint32_t *dims,
                      struct error *e)
{
    const struct load_shape *s = load_options_shape(l->options, v->name);
    const uint32_t *said = s ? load_shape_at(s, l->shape_set) : NULL;
    int r = s ? check_shape(v, s, said, e) : 0;
    for (uint32_t i = 0; i < v->n_dims && r == 0; i++) {
        if (v->dims[i] < 0 && i > 0 && !s)
            return error_set(e, STATUS_MODEL_INVALID,
                             "input %s: dimension %u is not fixed: give the input's shape when the "
                             "model is loaded (rknnctl --shape, rknnd_set_load_options)",
                             v->name, i);
        dims[i] = said ? said[i] : v->dims[i] < 0 ? 1 : (uint32_t)v->dims[i];
    }
    return r;
}

// Lists the inputs that exist, so that a misspelt name is quickly found.
static int refuse_name(const struct onnx_lowering *l, const char *name, struct error *e)
{
    char names[300] = "";
    for (uint32_t i = 0; i < l->f->n_inputs && strlen(names) < sizeof names - 1; i++) {
        size_t used = strlen(names);
        if (onnx_names_find(l->names, l->f->inputs[i].name) < 0) // a weight, in old files
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                     l->f->inputs[i].name);
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "a shape is given for \"%s\": the model has no input \"%s\", only %s", name,
                     name, names);
}

// Every input that the options name must be there.
static int check_options(const struct onnx_lowering *l, struct error *e)
{
    for (uint32_t i = 0; i < l->options->n_shapes; i++) {
        const char *name = l->options->shapes[i].input;
        uint32_t k = 0;
        while (k < l->f->n_inputs && strcmp(l->f->inputs[k].name, name) != 0)
            k++;
        if (k == l->f->n_inputs || onnx_names_find(l->names, name) >= 0)
            return refuse_name(l, name, e);
    }
    return 0;
}

// NAME/float: names of tensors are unique.
static const char *name_float(struct onnx_lowering *l, const char *name)
{
    char text[300];
    int n = snprintf(text, sizeof text, "%.280s/float", name);
    return pool_text(&l->g->pool, (struct bytes){(const uint8_t *)text, (size_t)n});
}

// Halves are computed as floats: programs give and get halves, and a Cast stands between.
static int32_t convert_real(struct onnx_lowering *l, const char *name, int32_t x,
                            enum tensor_type to, struct error *e)
{
    const struct graph_tensor from = l->g->tensors[x];
    struct onnx_node *n = pool_alloc(&l->g->pool, 1, sizeof *n);
    const char *real = name_float(l, name);
    if (!n || !real)
        return error_no_memory(e, "the graph", sizeof *n);
    *n = (struct onnx_node){.name = name, .op = "Cast", .domain = ""};
    l->node = n;
    int32_t y = onnx_temporary(l, to, from.n_dims, from.dims, e);
    if (y >= 0 && to == TENSOR_FLOAT32)
        l->g->tensors[y].name = real;
    else if (y >= 0 && strcmp(from.name, name) == 0)
        l->g->tensors[x].name = real;
    enum graph_op op = from.n_elems ? GRAPH_CONVERT : GRAPH_REF;
    struct graph_node *made = y < 0 ? NULL : onnx_emit(l, op, &x, 1, &y, 1, e);
    if (!made)
        return y < 0 ? y : STATUS_MALLOC_FAIL;
    if (op == GRAPH_REF) {
        made->on_cpu = true;
        made->ref.op = REF_OP_CAST;
    }
    return y;
}

static int take_input(struct onnx_lowering *l, const struct onnx_value *v, struct error *e)
{
    int32_t index = onnx_tensor_new(l, v->name, e);
    if (index < 0)
        return index;
    struct graph_tensor *t = &l->g->tensors[index];
    if (!onnx_type_of(v->type, &t->type) || !v->has_shape)
        return error_set(e, STATUS_MODEL_INVALID, "input %s: element type %d%s is not supported",
                         v->name, v->type, v->has_shape ? "" : " without a shape");
    int r = take_shape(l, v, t->dims, e);
    if (r < 0)
        return r;
    if (v->type == ONNX_FLOAT16)
        t->type = TENSOR_FLOAT16;
    t->natural = v->type == ONNX_UINT64;
    t->n_dims = v->n_dims;
    t->channels_last = t->n_dims == 4;
    r = graph_tensor_measure(t, e);
    if (r == 0 && v->type == ONNX_FLOAT16)
        r = index = convert_real(l, v->name, index, TENSOR_FLOAT32, e);
    return r < 0 ? r : onnx_names_set(l->names, v->name, index, e);
}

// An input with a default is taken as that constant.
static int check_default(const struct onnx_lowering *l, const struct onnx_value *v, int32_t tensor,
                         struct error *e)
{
    enum tensor_type type;
    bool fits = onnx_type_of(v->type, &type) && l->g->tensors[tensor].constant &&
                l->g->tensors[tensor].type == type;
    return fits ? 0
                : error_set(e, STATUS_MODEL_INVALID, "input %s: its default is of another type",
                            v->name);
}

// Inputs of the model that are not initializers: in old files these are listed as inputs too.
static int take_inputs(struct onnx_lowering *l, struct error *e)
{
    struct graph *g = l->g;
    uint32_t *inputs = pool_alloc(&g->pool, l->f->n_inputs, sizeof *inputs);
    if (!inputs)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < l->f->n_inputs; i++) {
        const struct onnx_value *v = &l->f->inputs[i];
        int32_t known = onnx_names_find(l->names, v->name);
        const uint32_t first = g->n_tensors;
        int r = known >= 0 ? check_default(l, v, known, e) : take_input(l, v, e);
        if (r < 0)
            return r;
        if (known < 0)
            inputs[g->n_inputs++] = first;
    }
    g->inputs = inputs;
    g->preprocess = pool_alloc(&g->pool, g->n_inputs, sizeof *g->preprocess);
    return g->preprocess ? 0 : error_no_memory(e, "the graph", 0);
}

// ---- nodes ----

// Inputs by name, in l->in; new tensors for the outputs, in l->out. Edges that are left out are -1,
// and cut off at the end of the list. ONNX is in SSA form: a name is made once, and before it is
// used.
static int take_edges(struct onnx_lowering *l, struct error *e)
{
    const struct onnx_node *n = l->node;
    l->n_in = n->n_inputs;
    l->n_out = n->n_outputs;
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        l->in[i] = n->inputs[i][0] ? onnx_names_find(l->names, n->inputs[i]) : -1;
        if (n->inputs[i][0] && l->in[i] < 0)
            return onnx_refuse(l, e, "nothing before it makes its input %s", n->inputs[i]);
    }
    while (l->n_in && l->in[l->n_in - 1] < 0)
        l->n_in--;
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        l->out[i] = -1;
        if (!n->outputs[i][0])
            continue;
        if (onnx_names_has(l->names, n->outputs[i]))
            return onnx_refuse(l, e, "its output %s is there twice", n->outputs[i]);
        l->out[i] = onnx_tensor_new(l, n->outputs[i], e);
        if (l->out[i] < 0)
            return l->out[i];
        int r = onnx_names_set(l->names, n->outputs[i], l->out[i], e);
        if (r < 0)
            return r;
    }
    while (l->n_out && l->out[l->n_out - 1] < 0)
        l->n_out--;
    return 0;
}

// Operators that mean the same in operator set 1 as in OPSET_MIN: allowed in older files.
static bool is_as_ever(const char *op)
{
    static const char *const names[] = {
        "AveragePool",  "Conv",    "DepthToSpace", "GlobalAveragePool", "GlobalMaxPool",
        "LRN",          "MaxPool", "Not",          "Softplus",          "Softsign",
        "SpaceToDepth", "Squeeze", "Transpose",    "Unsqueeze"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], op) == 0)
            return true;
    return false;
}

// Operators of which output 0 may be left out.
static bool needs_first(const struct onnx_operator *op)
{
    return op->lower != onnx_lower_recurrent && op->lower != onnx_lower_dynamic_lstm &&
           op->lower != onnx_lower_if && op->lower != onnx_lower_loop &&
           op->lower != onnx_lower_scan;
}

// What is refused before lowering: unknown operators, operator sets that differ, wrong numbers of
// edges.
static int check_node(const struct onnx_lowering *l, const struct onnx_operator *op,
                      struct error *e)
{
    const struct onnx_node *n = l->node;
    if (l->f->opset < OPSET_MIN && !is_as_ever(n->op))
        return onnx_refuse(l, e, "its form of operator set %lld is not supported",
                           (long long)l->f->opset);
    bool first = (l->n_out && l->out[0] >= 0) || !needs_first(op);
    if (l->n_in < op->min_inputs || l->n_in > op->max_inputs || !l->n_out || !first)
        return onnx_refuse(l, e, "%u inputs are not supported, or it has no output", l->n_in);
    if (l->n_out > op->max_outputs)
        return onnx_refuse(l, e, "its output %u is not supported", l->n_out - 1);
    for (uint32_t i = 0; i < op->min_inputs; i++)
        if (l->in[i] < 0)
            return onnx_refuse(l, e, "its input %u is missing", i);
    return 0;
}

static bool all_constant(const struct graph *g, const struct graph_node *n)
{
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] >= 0 && !g->tensors[n->inputs[i]].constant)
            return false;
    return true;
}

// Computes nodes from `first` on whose inputs are all constants, and removes them. Later nodes then
// see constants, for example shapes that files compute from Shape, Gather and Concat.
static int fold_from(struct onnx_lowering *l, uint32_t first, struct error *e)
{
    struct graph *g = l->g;
    uint32_t kept = first;
    for (uint32_t i = first; i < g->n_nodes; i++) {
        struct graph_node n = g->nodes[i];
        int r = 0;
        if (all_constant(g, &n))
            r = onnx_fold(l, &n, e);
        else
            g->nodes[kept++] = n;
        if (r < 0)
            return r;
    }
    g->n_nodes = kept;
    return 0;
}

// Whether the node's operator is one of the standard's. ONNX Runtime has a domain of its own in
// which two of them take 16 bits, which the standard's do from operator set 21 on, and others are
// there for sets before theirs; they are the same else.
static bool is_known(const struct onnx_node *n)
{
    // For calibrations: rknnd's own.
    if (strcmp(n->op, "Observe") == 0)
        return strcmp(n->domain, "rknnd") == 0;
    if (strcmp(n->op, "DynamicQuantizeLSTM") == 0)
        return strcmp(n->domain, "com.microsoft") == 0;
    return onnx_is_standard(n->domain) ||
           (strcmp(n->domain, "com.microsoft") == 0 &&
            (strcmp(n->op, "QuantizeLinear") == 0 || strcmp(n->op, "DequantizeLinear") == 0 ||
             strcmp(n->op, "Gelu") == 0 || strcmp(n->op, "GatherND") == 0 ||
             strcmp(n->op, "GridSample") == 0 || strcmp(n->op, "Pad") == 0 ||
             strcmp(n->op, "Trilu") == 0));
}

// Whether input i may be a quantized weight in packed form (onnx_quant.c). Products and
// convolutions of images do: they unpack weights only when the executor wants them.
static bool takes_packed(const struct onnx_lowering *l, uint32_t i)
{
    const struct graph_tensor *weight = onnx_in(l, 1), *bias = onnx_in(l, 2);
    if (i == 0 || !onnx_is_standard(l->node->domain))
        return false;
    if (strcmp(l->node->op, "Conv") == 0)
        return weight->constant && weight->n_dims == 4 && (!bias || bias->constant) &&
               onnx_in(l, i)->n_dims == (i == 1 ? 4 : 1);
    return strcmp(l->node->op, "MatMul") == 0 || strcmp(l->node->op, "Gemm") == 0;
}

// All other nodes get real numbers.
static int unpack_inputs(struct onnx_lowering *l, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < l->n_in && r == 0; i++)
        if (l->in[i] >= 0 && !takes_packed(l, i))
            r = onnx_unpacked(l, l->in[i], e);
    return r;
}

// uint64 is kept as int64. What is made of such numbers is such a number, unless a Cast says what
// it is.
static void mark_naturals(struct onnx_lowering *l)
{
    bool natural = false;
    for (uint32_t i = 0; i < l->n_in; i++)
        natural = natural || (l->in[i] >= 0 && l->g->tensors[l->in[i]].natural);
    if (l->operator->lower == onnx_lower_cast)
        natural = l->operator->argument ? l->g->tensors[l->in[1]].natural
                                        : onnx_int(l, "to", 0) == ONNX_UINT64;
    for (uint32_t i = 0; i < l->n_out; i++)
        if (l->out[i] >= 0 && l->g->tensors[l->out[i]].type == TENSOR_INT64)
            l->g->tensors[l->out[i]].natural = natural || l->g->tensors[l->out[i]].natural;
}

// Lowers one node; one that ONNX defines by several others is taken apart first.
static int take_node(struct onnx_lowering *l, const struct onnx_node *n, struct error *e)
{
    uint32_t first = l->g->n_nodes;
    const struct onnx_operator *op = is_known(n) ? onnx_operator(n->op) : NULL;
    const struct onnx_expansion *x = onnx_expansion(l, n);
    if (x)
        return onnx_expand(l, x, n, take_node, e);
    l->node = n;
    l->operator= op;
    int r = take_edges(l, e);
    const struct onnx_function *function = op || r < 0 ? NULL : onnx_file_function(l->f, n);
    if (function)
        return onnx_lower_call(l, function, e);
    if (r == 0 && !op)
        return onnx_refuse(l, e, "this operator%s%s is not supported",
                           n->domain[0] ? " of domain " : "", n->domain);
    if (r == 0)
        r = check_node(l, op, e);
    if (r == 0)
        r = onnx_check_sequences(l, e);
    if (r == 0)
        r = onnx_check_attributes(l, e);
    if (r == 0)
        r = unpack_inputs(l, e);
    uint32_t late = r == 0 ? onnx_late_operands(l) : 0;
    if (r == 0)
        r = late ? onnx_lower_late(l, late, NULL, 0, e) : op->lower(l, e);
    if (r < 0)
        return r;
    mark_naturals(l);
    return fold_from(l, first, e);
}

int onnx_lower_nodes(struct onnx_lowering *l, const struct onnx_node *nodes, uint32_t n,
                     struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = take_node(l, &nodes[i], e);
    return r;
}

// ---- outputs ----

// An output of the model must be written by a node: a constant one gets a node that copies it.
static int write_constant(struct onnx_lowering *l, const struct onnx_value *v, int32_t *tensor,
                          struct error *e)
{
    static const int64_t kind = REF_IDENTITY;
    struct onnx_node *n = pool_alloc(&l->g->pool, 1, sizeof *n);
    if (!n)
        return error_no_memory(e, "the graph", 0);
    *n = (struct onnx_node){.name = v->name, .op = "Constant"};
    l->node = n;
    l->n_in = l->n_out = 1;
    l->in[0] = *tensor;
    l->out[0] = onnx_tensor_new(l, v->name, e);
    if (l->out[0] < 0)
        return l->out[0];
    *tensor = l->out[0];
    int r = onnx_shape_like(l, 0, &l->g->tensors[l->in[0]], e);
    return r < 0 ? r : onnx_emit_ref(l, REF_OP_UNARY, 1, &kind, 1, e);
}

static int take_outputs(struct onnx_lowering *l, struct error *e)
{
    struct graph *g = l->g;
    uint32_t n = l->f->n_outputs, *outputs = pool_alloc(&g->pool, n, sizeof *outputs);
    if (!outputs)
        return error_no_memory(e, "the graph", 0);
    for (uint32_t i = 0; i < n; i++) {
        const struct onnx_value *v = &l->f->outputs[i];
        int32_t tensor = onnx_names_find(l->names, v->name);
        if (tensor < 0)
            return error_set(e, STATUS_MODEL_INVALID, "output %s: nothing makes it", v->name);
        if (onnx_is_sequence(l, tensor))
            return error_set(e, STATUS_MODEL_INVALID,
                             "output %s is a sequence of tensors: make its elements outputs "
                             "(SequenceAt)",
                             v->name);
        int r = onnx_unpacked(l, tensor, e);
        if (r == 0 && g->tensors[tensor].constant)
            r = write_constant(l, v, &tensor, e);
        if (r == 0 && v->type == ONNX_FLOAT16 && g->tensors[tensor].type == TENSOR_FLOAT32)
            r = tensor = convert_real(l, v->name, tensor, TENSOR_FLOAT16, e);
        if (r < 0)
            return r;
        outputs[i] = (uint32_t)tensor;
    }
    g->outputs = outputs;
    g->n_outputs = n;
    return n ? 0 : error_set(e, STATUS_MODEL_INVALID, "the model has no output");
}

int onnx_lower_outputs(struct onnx_lowering *l, struct error *e)
{
    int r = take_outputs(l, e);
    if (r == 0)
        r = onnx_order(l->g, e);
    if (r == 0)
        r = onnx_gelu(l->g, e);
    if (r == 0)
        r = onnx_qdq(l, e);
    return r < 0 ? r : onnx_fuse(l->g, e);
}

static int lower_all(struct onnx_lowering *l, struct error *e)
{
    const struct onnx_file *f = l->f;
    int r = onnx_lower_initializers(l, e);
    if (r == 0)
        r = check_options(l, e);
    if (r == 0)
        r = take_inputs(l, e);
    if (r == 0)
        r = onnx_lower_nodes(l, f->nodes, f->n_nodes, e);
    return r < 0 ? r : onnx_lower_outputs(l, e);
}

static int lower_file(struct graph *g, const struct onnx_file *f,
                      const struct load_options *options, uint32_t shape_set,
                      const struct graph_executor *executor, struct error *e)
{
    if (f->opset < 1 || f->opset > OPSET_MAX)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the model uses operator set %lld; %d to %d are supported",
                         (long long)f->opset, 1, OPSET_MAX);
    if (f->has_sparse)
        return error_set(e, STATUS_MODEL_INVALID, "sparse tensors are not supported");
    cleanup(free_p) struct onnx_lowering *l = calloc(1, sizeof *l);
    if (!l)
        return error_no_memory(e, "the graph", 0);
    l->f = f;
    l->g = g;
    l->options = options;
    l->shape_set = shape_set;
    l->executor = executor;
    int r = onnx_names_new(&l->names, NULL, e);
    if (r == 0)
        r = lower_all(l, e);
    onnx_names_free(l->names);
    onnx_names_free(l->stated);
    return r;
}

bool onnx_is_model(struct bytes file)
{
    return rknn_recognise(file) == RKNN_UNKNOWN && onnx_recognise(file);
}

int onnx_graph(struct graph *g, struct bytes file, const struct load_options *options,
               uint32_t shape_set, const struct graph_executor *executor, struct error *e)
{
    *g = (struct graph){0};
    struct onnx_file *f = pool_alloc(&g->pool, 1, sizeof *f); // stays: late nodes read it
    int r = f ? onnx_file_read(f, &g->pool, file, e) : error_no_memory(e, "the graph", sizeof *f);
    if (r == 0)
        r = lower_file(g, f, options, shape_set, executor, e);
    if (r < 0)
        graph_done(g);
    return r;
}
