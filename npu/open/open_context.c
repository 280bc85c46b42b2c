#include "npu/open/open_context.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/open/open_chain.h"

void open_context_free(struct npu_context *c)
{
    if (!c)
        return;
    const struct provider_ops *ops = c->model->provider->ops;
    struct provider_memory *memories[] = {c->arena, c->commands, c->tasks};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i])
            ops->memory_free(c->model->provider, memories[i]);
    for (uint32_t i = 0; c->runs && i < c->model->file.n_nodes; i++)
        sim_node_run_free(c->runs[i]);
    pool_done(&c->texts);
    free(c->places);
    free(c->runs);
    free(c->dense);
    free(c->layers);
    free(c);
}

CLEANUP_DEFINE(struct npu_context, open_context_free)

static int make_npu_memory(struct npu_context *c, struct error *e)
{
    const struct rknn_program *p = &c->model->program;
    struct provider *provider = c->model->provider;
    const struct provider_ops *ops = provider->ops;
    int s = ops->memory_new(provider, p->arena_size, PROVIDER_ARENA, &c->arena, e);
    if (s == 0)
        s = ops->memory_new(provider, p->n_commands * 8, PROVIDER_DATA, &c->commands, e);
    if (s == 0)
        s = ops->memory_new(provider, (uint64_t)p->n_tasks * TASK_BYTES, PROVIDER_TASKS, &c->tasks,
                            e);
    if (s < 0)
        return s;
    c->places =
        calloc((size_t)c->model->info.n_inputs + c->model->info.n_outputs + 1, sizeof *c->places);
    if (!c->places)
        return error_no_memory(e, "a context", 0);
    rknn_program_arena(p, c->arena->map);
    return open_context_sync(c, 0, p->arena_size, PROVIDER_TO_DEVICE, e);
}

// The commands, with the addresses of this context's memory.
static int write_commands(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    const struct rknn_program *p = &m->program;
    const uint64_t bases[RKNN_N_PARTS] = {[RKNN_PART_COMMANDS] = c->commands->address,
                                          [RKNN_PART_CONSTANTS] = m->constants->address,
                                          [RKNN_PART_ARENA] = c->arena->address};
    int s = rknn_program_relocate(p, bases, (uint64_t *)(void *)c->commands->map, e);
    if (s < 0)
        return s;
    for (uint32_t i = 0; i < m->info.n_inputs; i++)
        c->places[i].address = c->arena->address + open_port_offset(m, &m->inputs[i]);
    for (uint32_t i = 0; i < m->info.n_outputs; i++)
        c->places[m->info.n_inputs + i].address =
            c->arena->address + open_port_offset(m, &m->outputs[i]);
    for (uint64_t i = 0; i < p->n_commands; i++) // as the NPU reads them, on any machine
        write_le64(c->commands->map + 8 * i, ((uint64_t *)(void *)c->commands->map)[i]);
    return m->provider->ops->memory_sync(m->provider, c->commands, 0, p->n_commands * 8,
                                         PROVIDER_TO_DEVICE, e);
}

static int write_tasks(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    const struct rknn_program *p = &m->program;
    for (uint32_t i = 0; i < p->n_tasks; i++) {
        const struct rknn_program_task *t = &p->tasks[i];
        uint8_t *record = c->tasks->map + (size_t)i * TASK_BYTES;
        write_le32(record + TASK_NODE, t->node);
        write_le32(record + TASK_ENABLE, t->enable);
        write_le32(record + TASK_INTERRUPTS, t->interrupts);
        write_le32(record + TASK_CLEAR, TASK_CLEAR_ALL);
        write_le32(record + TASK_AMOUNT, t->n_commands);
        write_le64(record + TASK_ADDRESS, c->commands->address + 8 * t->first);
    }
    return m->provider->ops->memory_sync(m->provider, c->tasks, 0,
                                         (uint64_t)p->n_tasks * TASK_BYTES, PROVIDER_TO_DEVICE, e);
}

static int prepare_chain(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    struct provider_memory *const memories[] = {c->arena, m->constants};
    struct provider_chain chain = {.commands = (const uint64_t *)(const void *)c->commands->map,
                                   .memories = memories,
                                   .n_memories = sizeof memories / sizeof *memories};
    return open_chain_prepare(m->provider, &m->program, m->file.n_nodes, m->unable, c->tasks,
                              &chain, e);
}

static int make_runs(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    size_t dense = 1;
    for (uint32_t i = 0; i < m->graph.n_tensors; i++)
        if (!m->graph.tensors[i].constant && m->graph.tensors[i].size > dense)
            dense = m->graph.tensors[i].size;
    c->runs = calloc((size_t)m->file.n_nodes + 1, sizeof *c->runs);
    c->layers = calloc((size_t)m->file.n_nodes + 1, sizeof *c->layers);
    c->dense = malloc(dense);
    if (!c->runs || !c->layers || !c->dense)
        return error_no_memory(e, "a context", dense);
    int s = 0;
    for (uint32_t i = 0; i < m->file.n_nodes && s == 0; i++)
        if (m->steps[i] == OPEN_CPU)
            s = sim_node_run_new(m->nodes[i], &c->runs[i], e);
    return s;
}

int open_context_new(const struct npu_model *m, struct npu_context **ret, struct error *e)
{
    cleanup(open_context_free_p) struct npu_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    c->model = m;
    int s = make_npu_memory(c, e);
    if (s == 0)
        s = write_commands(c, e);
    if (s == 0)
        s = write_tasks(c, e);
    if (s == 0)
        s = prepare_chain(c, e);
    if (s == 0)
        s = make_runs(c, e);
    if (s < 0)
        return s;
    *ret = steal_ptr(c);
    return 0;
}

int open_context_sync(struct npu_context *c, uint64_t offset, uint64_t size, enum provider_way way,
                      struct error *e)
{
    struct provider *provider = c->model->provider;
    return provider->ops->memory_sync(provider, c->arena, offset, size, way, e);
}
