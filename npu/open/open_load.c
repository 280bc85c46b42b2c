// Loading: file -> programs -> steps -> what a CPU computes -> inputs and outputs -> constants into
// the NPU's memory.
#include "npu/open/open_load.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/batch.h"
#include "npu/model/onnx/onnx_graph.h"
#include "npu/model/rknn/program/rknn_pixels.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/open/direct/direct_form.h"
#include "npu/open/direct/direct_port.h"
#include "npu/open/open_chain.h"
#include "npu/open/open_context.h"
#include "npu/open/open_renew.h"
#include "npu/sim/sim_custom.h"
#include "npu/sim/sim_io.h"

void open_load_free(struct npu_model *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; m->nodes && i < m->file.n_nodes; i++)
        sim_node_free(m->nodes[i]);
    if (m->constants)
        m->provider->ops->memory_free(m->provider, m->constants);
    graph_done(&m->graph);
    rknn_program_done(&m->program);
    rknn_file_done(&m->file);
    pool_done(&m->pool);
    free(m);
}

CLEANUP_DEFINE(struct npu_model, open_load_free)

// ---- steps ----

// A Reshape that the file leaves to the NPU without a task: its output is its input.
static bool is_view(const struct npu_model *m, const struct rknn_node *n)
{
    const struct rknn_place *places = m->program.places;
    if (n->device == 0 || n->n_inputs < 1 || n->n_outputs != 1 || n->inputs[0] < 0 ||
        n->outputs[0] < 0)
        return false;
    const struct rknn_place *in = &places[n->inputs[0]], *out = &places[n->outputs[0]];
    return in->part == RKNN_PART_ARENA && out->part == RKNN_PART_ARENA && in->offset == out->offset;
}

static int choose_steps(struct npu_model *m, struct error *e)
{
    const struct rknn_file *f = &m->file;
    m->steps = pool_alloc(&m->pool, f->n_nodes, sizeof *m->steps);
    if (!m->steps)
        return error_no_memory(e, "a model", 0);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct rknn_node *n = &f->nodes[i];
        m->steps[i] = m->program.one[0].tasks[i].n           ? OPEN_NPU
                      : rknn_node_is_end(n) || is_view(m, n) ? OPEN_NOTHING
                                                             : OPEN_CPU;
    }
    return 0;
}

// Nodes with tasks that the provider cannot run are the CPU's.
static int judge_steps(struct npu_model *m, struct error *e)
{
    m->unable = pool_alloc(&m->pool, m->file.n_nodes + 1, sizeof *m->unable);
    if (!m->unable)
        return error_no_memory(e, "a model", 0);
    int s = open_chain_judge(m->provider, &m->program, m->file.n_nodes, m->unable, e);
    for (uint32_t i = 0; i < m->file.n_nodes && s == 0; i++)
        if (m->steps[i] == OPEN_NPU && m->unable[i])
            m->steps[i] = OPEN_CPU;
    return s;
}

// Tasks of the graph's ends change the form of inputs and outputs for programs that have others.
// Here inputs already are what the first node reads, and outputs are converted on the way out: such
// tasks in front of all others, and behind them, are left out.
static void leave_out_ends(struct npu_model *m)
{
    uint32_t n = m->file.n_nodes;
    for (uint32_t i = 0;
         i < n && (m->steps[i] == OPEN_NOTHING || rknn_node_is_end(&m->file.nodes[i])); i++)
        m->steps[i] = OPEN_NOTHING;
    for (uint32_t i = n;
         i > 0 && (m->steps[i - 1] == OPEN_NOTHING || rknn_node_is_end(&m->file.nodes[i - 1])); i--)
        m->steps[i - 1] = OPEN_NOTHING;
}

// ---- what a CPU computes ----

// A batch is run input by input: nodes see one, as in the file's tensors.
static int load_cpu_graph(struct npu_model *m, struct error *e)
{
    cleanup(free_p) bool *wanted = calloc(m->file.n_nodes + 1, sizeof *wanted);
    if (!wanted)
        return error_no_memory(e, "a model", m->file.n_nodes);
    for (uint32_t i = 0; i < m->file.n_nodes; i++)
        wanted[i] = m->steps[i] == OPEN_CPU;
    m->single = m->file;
    m->single.batch = 1;
    return rknn_graph_of(&m->graph, &m->single, m->chip,
                         &(struct rknn_graph_choice){.wanted = wanted}, e);
}

static int load_nodes(struct npu_model *m, struct error *e)
{
    uint32_t next = 0;
    m->nodes = pool_alloc(&m->pool, m->file.n_nodes, sizeof *m->nodes);
    m->graph_nodes = pool_alloc(&m->pool, m->file.n_nodes, sizeof *m->graph_nodes);
    if (!m->nodes || !m->graph_nodes)
        return error_no_memory(e, "a model", 0);
    int s = sim_custom_nodes(&m->graph, &m->info.custom, &m->info.n_custom, e);
    for (uint32_t i = 0; i < m->file.n_nodes && s == 0; i++) {
        if (m->steps[i] != OPEN_CPU)
            continue;
        m->graph_nodes[i] = next;
        s = sim_node_new(&m->graph, next++, &m->nodes[i], e);
    }
    return s;
}

// ---- inputs and outputs ----

int open_load_port(const struct npu_model *m, uint32_t tensor, struct open_port *ret,
                   struct error *e)
{
    const struct rknn_place *place = &m->program.places[tensor];
    struct open_port port = {.tensor = tensor, .dense = m->graph.tensors[tensor].size};
    const struct rknn_tensor *t = &m->file.tensors[tensor];
    for (uint32_t i = 0; m->inputs && i < m->info.n_inputs; i++)
        if (m->inputs[i].tensor == tensor && m->inputs[i].dense) {
            *ret = m->inputs[i];
            return 0;
        }
    if (place->part != RKNN_PART_ARENA)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s is not in the NPU's memory", t->name);
    int s = rknn_layout_of(&port.layout, t, m->chip, e);
    if (s < 0)
        return s;
    if (place->offset > m->program.arena_size ||
        port.layout.size > m->program.arena_size - place->offset)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s ends behind the NPU's memory",
                         t->name);
    *ret = port;
    return 0;
}

// Descriptions are of the whole batch.
static int describe_port(struct npu_model *m, uint32_t i, bool input, struct error *e)
{
    struct graph g = m->graph;
    uint32_t index = input ? g.inputs[i] : g.outputs[i];
    struct graph_tensor *t = &g.tensors[index], one = *t;
    uint32_t batch = m->file.batch;
    if (batch > 1 && t->n_dims && t->dims[0] == 1)
        t->dims[0] = batch;
    int s = graph_tensor_measure(t, e);
    if (s == 0)
        s = input ? sim_describe_input(&g, m->chip, i, (struct tensor_io *)&m->info.inputs[i], e)
                  : sim_describe_output(&g, m->chip, i, (struct tensor_io *)&m->info.outputs[i], e);
    if (s == 0 && batch > 1 && t->dims[0] != batch)
        s = error_set(e, STATUS_MODEL_INVALID,
                      "tensor %s: rknn_batch_size is %u, and its first dimension is not 1", t->name,
                      batch);
    *t = one;
    return s;
}

static int load_ports(struct npu_model *m, struct error *e)
{
    struct npu_model_info *info = &m->info;
    info->n_inputs = m->graph.n_inputs;
    info->n_outputs = m->graph.n_outputs;
    info->inputs = pool_alloc(&m->pool, info->n_inputs, sizeof *info->inputs);
    info->outputs = pool_alloc(&m->pool, info->n_outputs, sizeof *info->outputs);
    m->inputs = pool_alloc(&m->pool, info->n_inputs, sizeof *m->inputs);
    m->outputs = pool_alloc(&m->pool, info->n_outputs, sizeof *m->outputs);
    if (!info->inputs || !info->outputs || !m->inputs || !m->outputs)
        return error_no_memory(e, "a model", 0);
    int s = 0;
    for (uint32_t i = 0; i < info->n_inputs && s == 0; i++) {
        s = describe_port(m, i, true, e);
        if (s == 0)
            s = open_load_port(m, m->graph.inputs[i], &m->inputs[i], e);
        if (s == 0)
            s = rknn_pixels_set(&m->program, m->chip, m->inputs[i].tensor, &m->inputs[i].layout, e);
        if (s == 0)
            direct_form_values(&m->inputs[i], &info->inputs[i]);
    }
    for (uint32_t i = 0; i < info->n_outputs && s == 0; i++) {
        s = describe_port(m, i, false, e);
        if (s == 0)
            s = open_load_port(m, m->graph.outputs[i], &m->outputs[i], e);
    }
    return s;
}

// ---- the whole ----

static int load_constants(struct npu_model *m, struct error *e)
{
    const struct provider_ops *ops = m->provider->ops;
    uint64_t size = m->program.constants_size;
    int s = ops->memory_new(m->provider, size, PROVIDER_DATA, &m->constants, e);
    if (s < 0)
        return s;
    rknn_program_constants(&m->program, m->constants->map);
    return ops->memory_sync(m->provider, m->constants, 0, size, PROVIDER_TO_DEVICE, e);
}

static void fill_model_info(struct npu_model *m)
{
    struct npu_model_info *info = &m->info;
    info->n_shape_sets = 1;
    info->weight_size = m->file.weight_size ? m->file.weight_size : m->program.constants_size;
    info->internal_size = m->program.arena_size;
    info->memory_size = m->program.constants_size + m->file.pool.total + m->program.pool.total +
                        m->graph.pool.total;
    info->context_size = open_context_size(m);
    info->core_limit = m->chip->n_cores;
    info->batch = npu_batch(info);
    info->native_attrs = m->chip->small;
    info->custom_string = m->file.custom_string;
}

// Where the provider runs tasks as they are, what a node needs of others before it has to be there.
static int load_slices(struct npu_model *m, struct error *e)
{
    static const char why[] =
        "it needs registers or a table from before a node of the CPU's, where "
        "other programs may have used the NPU";
    cleanup(free_p) bool *on_cpu = calloc((size_t)m->file.n_nodes + 1, sizeof *on_cpu);
    m->node_us = pool_alloc(&m->pool, m->file.n_nodes, sizeof *m->node_us);
    if (!m->node_us || !on_cpu)
        return error_no_memory(e, "slices", m->file.n_nodes * sizeof *m->node_us);
    if (m->provider->ops->prepare)
        return open_cuts_find(&m->program, m->chip, NULL, &m->pool, &m->cuts, e);
    for (uint32_t i = 0; i < m->file.n_nodes; i++)
        on_cpu[i] = m->steps[i] == OPEN_CPU;
    int s = open_cuts_settle(&m->program, m->chip, on_cpu, &m->pool, &m->cuts, e);
    for (uint32_t i = 0; i < m->file.n_nodes && s == 0; i++)
        if (on_cpu[i] && m->steps[i] == OPEN_NPU) {
            m->steps[i] = OPEN_CPU;
            m->unable[i] = why;
        }
    return s;
}

static int load_model_file(struct npu_model *m, const struct chip *wanted, struct bytes file,
                           struct error *e)
{
    if (onnx_is_model(file))
        return error_set(e, STATUS_MODEL_INVALID,
                         "an NPU runs what was converted for it: the file is an ONNX model, which "
                         "--backend sim runs");
    int s = rknn_file_open(&m->file, file, e);
    if (s == 0)
        s = rknn_find_chip(wanted, &m->file, &m->chip, e);
    if (s == 0)
        s = rknn_program_open(&m->program, &m->file, m->chip, e);
    if (s == 0)
        s = choose_steps(m, e);
    if (s == 0)
        s = judge_steps(m, e);
    if (s == 0)
        s = load_slices(m, e);
    if (s == 0)
        s = load_cpu_graph(m, e);
    if (s < 0)
        return s;
    leave_out_ends(m);
    s = load_nodes(m, e);
    if (s == 0)
        s = load_ports(m, e);
    if (s == 0)
        s = direct_ports_find(m, e);
    return s == 0 ? open_renew_tasks(m, e) : s;
}

int open_load_plan(struct provider *provider, const struct chip *wanted, struct bytes file,
                   struct npu_model **ret, struct error *e)
{
    cleanup(open_load_free_p) struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->provider = provider;
    int s = load_model_file(m, wanted, file, e);
    if (s == 0)
        *ret = steal_ptr(m);
    return s;
}

int open_load_new(struct provider *provider, struct imports *imports, const struct chip *wanted,
                  const struct npu_model_source *source, struct npu_model **ret, struct error *e)
{
    cleanup(open_load_free_p) struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->provider = provider;
    m->imports = imports;
    if (source->options && source->options[0])
        return error_set(e, STATUS_PARAM_INVALID,
                         "load options are for ONNX models: a .rknn file has the shapes that it "
                         "was converted with");
    int s = load_model_file(m, wanted, source->file, e);
    if (s == 0)
        s = load_constants(m, e);
    if (s < 0)
        return s;
    fill_model_info(m);
    *ret = steal_ptr(m);
    return 0;
}
