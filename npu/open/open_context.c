// What a context has of its own: the arena where tensors lie, a copy of the model's commands with
// the addresses of that arena in them, and the records of tasks that the driver is given. Constants
// are the model's, and the same for all of its contexts. Nothing is written again for a run, unless
// the program brings other memory.
#include "npu/open/open_context.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "npu/open/direct/imports.h"
#include "npu/open/open_chain.h"

void open_context_free(struct npu_context *c)
{
    if (!c)
        return;
    const struct provider_ops *ops = c->model->provider->ops;
    struct provider_memory *memories[] = {c->own, c->commands, c->tasks};
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

static int make_own(struct npu_context *c, struct error *e)
{
    struct provider *provider = c->model->provider;
    return provider->ops->memory_new(provider, c->model->program.arena_size, PROVIDER_ARENA,
                                     &c->own, e);
}

// What a file has there from the start; nearly all have nothing. `whole`: nothing of what CPUs have
// written there before is to reach it later.
static int fill_arena(struct npu_context *c, bool whole, struct error *e)
{
    const struct rknn_program *p = &c->model->program;
    uint64_t offset, size;
    rknn_program_arena(p, open_context_map(c, 0));
    int s = whole ? open_context_sync(c, 0, p->arena_size, PROVIDER_TO_DEVICE, e) : 0;
    for (uint32_t i = 0; !whole && s == 0 && rknn_program_arena_part(p, &i, &offset, &size); i++)
        s = open_context_sync(c, offset, size, PROVIDER_TO_DEVICE, e);
    return s;
}

uint64_t open_context_size(const struct npu_model *m)
{
    const struct rknn_program *p = &m->program;
    return p->arena_size + p->n_commands * 8 + (uint64_t)p->n_tasks * TASK_BYTES;
}

static int make_npu_memory(struct npu_context *c, struct error *e)
{
    const struct rknn_program *p = &c->model->program;
    struct provider *provider = c->model->provider;
    const struct provider_ops *ops = provider->ops;
    int s = make_own(c, e);
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
    c->arena = (struct open_arena){.memory = c->own, .address = c->own->address};
    return fill_arena(c, true, e);
}

// The commands, with the addresses of this context's memory.
static int write_commands(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    const struct rknn_program *p = &m->program;
    const uint64_t bases[RKNN_N_PARTS] = {[RKNN_PART_COMMANDS] = c->commands->address,
                                          [RKNN_PART_CONSTANTS] = m->constants->address,
                                          [RKNN_PART_ARENA] = open_context_address(c, 0)};
    int s = rknn_program_relocate(p, bases, (uint64_t *)(void *)c->commands->map, e);
    if (s < 0)
        return s;
    for (uint32_t i = 0; i < m->info.n_inputs; i++) {
        c->places[i].address = open_context_address(c, open_port_offset(m, &m->inputs[i]));
        c->places[i].flip = DIRECT_AS_FILE;
    }
    for (uint32_t i = 0; i < m->info.n_outputs; i++)
        c->places[m->info.n_inputs + i].address =
            open_context_address(c, open_port_offset(m, &m->outputs[i]));
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
    struct provider_memory *const memories[] = {c->own, m->constants};
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
    return provider->ops->memory_sync(provider, c->arena.memory, c->arena.offset + offset, size,
                                      way, e);
}

// ---- a program's memory ----

// Imports it. NULL, with *why: intermediate results stay in memory of the context's own.
static const struct import *choose_internal(struct npu_context *c, const char **why)
{
    const struct npu_model *m = c->model;
    const struct open_internal *in = &c->internal;
    *why = !in->buffer ? "it is no dma-buf" : m->provider->ops->info(m->provider)->no_import;
    if (!*why && in->offset % RKNN_PART_ALIGN)
        *why = "it begins at no multiple of 64 bytes";
    if (!*why && in->size < m->program.arena_size)
        *why = "it is smaller than the model's";
    const struct import *i = *why ? NULL : imports_get(m->imports, in->buffer);
    if (!*why && (!i || !i->memory))
        *why = i ? i->why.text : "there is no memory";
    return *why ? NULL : i;
}

// Commands and addresses of tensors follow; records of tasks do not change.
static int move_arena(struct npu_context *c, struct open_arena to, struct error *e)
{
    c->arena = to;
    int s = write_commands(c, e);
    if (s < 0)
        c->arena.memory = NULL; // to be tried again
    return s;
}

// Imports are looked up for each job: only so are they known to be there still.
int open_context_place(struct npu_context *c, struct error *e)
{
    const struct npu_model *m = c->model;
    struct open_internal *in = &c->internal;
    const char *why = NULL;
    const struct import *outside = in->given && m->imports ? choose_internal(c, &why) : NULL;
    if (why && why != in->said)
        log_info("a program's memory for intermediate results is not used: %s", why);
    in->said = why;
    int s = outside || c->own ? 0 : make_own(c, e);
    if (s < 0)
        return s;
    struct open_arena to = {.memory = outside ? outside->memory : c->own,
                            .offset = outside ? in->offset : 0};
    to.address = to.memory->address + to.offset;
    bool moves = to.memory != c->arena.memory || to.address != c->arena.address;
    if (moves)
        s = move_arena(c, to, e);
    if (s == 0 && (moves || outside)) // where others may have been meanwhile
        s = fill_arena(c, moves, e);
    if (s == 0 && outside && c->own) {
        m->provider->ops->memory_free(m->provider, c->own);
        c->own = NULL;
    }
    return s;
}
