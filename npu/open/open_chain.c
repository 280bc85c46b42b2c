// Providers that cannot submit a file's tasks as they are (mainline's driver) are shown all of them
// once, in the order of one core: to say which they cannot do, and to make their own of the others.
#include "npu/open/open_chain.h"

#include <stdlib.h>

#include "base/cleanup.h"

// The tasks of one core, node by node. *ret is malloc'ed.
static int chain_of(const struct rknn_program *p, uint32_t n_nodes, struct provider_task **ret,
                    uint32_t *ret_n, struct error *e)
{
    uint32_t n = 0;
    struct provider_task *tasks = calloc((size_t)p->n_tasks + 1, sizeof *tasks);
    if (!tasks)
        return error_no_memory(e, "tasks", p->n_tasks * sizeof *tasks);
    for (uint32_t node = 0; node < n_nodes; node++) {
        const struct rknn_range *r = &p->one[0].tasks[(size_t)node * p->one[0].n_cores];
        for (uint32_t i = 0; i < r->n && n < p->n_tasks; i++) {
            const struct rknn_program_task *t = &p->tasks[r->first + i];
            tasks[n++] = (struct provider_task){.first = t->first,
                                                .n_commands = t->n_commands,
                                                .enable = t->enable,
                                                .record = r->first + i};
        }
    }
    *ret = tasks;
    *ret_n = n;
    return 0;
}

int open_chain_judge(const struct provider *p, const struct rknn_program *program, uint32_t n_nodes,
                     const char **unable, struct error *e)
{
    cleanup(free_p) struct provider_task *tasks = NULL;
    uint32_t n = 0;
    if (!p->ops->judge)
        return 0;
    int s = chain_of(program, n_nodes, &tasks, &n, e);
    if (s == 0)
        s = p->ops->judge(p, program->commands, tasks, n, e);
    for (uint32_t i = 0; i < n && s == 0; i++)
        if (tasks[i].unable)
            unable[program->tasks[tasks[i].record].node] = tasks[i].unable;
    return s;
}

int open_chain_prepare(struct provider *p, const struct rknn_program *program, uint32_t n_nodes,
                       const char *const *unable, struct provider_memory *records,
                       struct provider_chain *chain, struct error *e)
{
    cleanup(free_p) struct provider_task *tasks = NULL;
    if (!p->ops->prepare)
        return 0;
    int s = chain_of(program, n_nodes, &tasks, &chain->n, e);
    if (s < 0)
        return s;
    chain->tasks = tasks;
    for (uint32_t i = 0; i < chain->n; i++)
        tasks[i].unable = unable[program->tasks[tasks[i].record].node];
    s = p->ops->prepare(p, records, chain, e);
    chain->tasks = NULL;
    return s;
}
