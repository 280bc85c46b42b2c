// What one node takes is learned from segments that have it: their time is shared among their nodes
// as they took it before. Contexts may learn at the same time; that makes slices a little longer or
// shorter.
#include "npu/open/open_slices.h"

#include "npu/slices.h"

static unsigned known_us(const struct npu_model *m, uint32_t node)
{
    return atomic_load_explicit(&m->node_us[node], memory_order_relaxed);
}

void open_slices_add(struct open_slice *s, const struct npu_model *m, uint32_t node)
{
    unsigned us = known_us(m, node);
    if (s->n++ == 0)
        *s = (struct open_slice){.n = 1, .first = node, .known = true};
    s->last = node;
    s->us += us;
    s->known = s->known && us;
}

bool open_slices_full(const struct open_slice *s, const struct npu_model *m, uint32_t node,
                      const struct rknn_schedule *schedule, const struct npu_slices *slices)
{
    unsigned us = known_us(m, node);
    if (!slices || !open_cuts_of(&m->cuts, &m->program, schedule)[node])
        return false;
    return !s->known || !us || s->us + us > slices->us || npu_slices_wanted(slices);
}

// In front of the node behind it, since none shares its segments.
static bool cut_behind(const struct npu_model *m, uint32_t node,
                       const struct rknn_schedule *schedule)
{
    for (uint32_t i = node + 1; i < m->file.n_nodes; i++)
        if (schedule->tasks[i].n)
            return open_cuts_of(&m->cuts, &m->program, schedule)[i];
    return true;
}

bool open_slices_divide(const struct npu_model *m, uint32_t node,
                        const struct rknn_schedule *schedule, const struct npu_slices *slices)
{
    if (!slices || schedule->n_cores != 1 || schedule->tasks[node].n < 2)
        return false;
    unsigned us = known_us(m, node);
    return (!us || us > slices->us) && open_cuts_of(&m->cuts, &m->program, schedule)[node] &&
           cut_behind(m, node, schedule);
}

uint32_t open_slices_part(const struct npu_model *m, uint32_t node, const struct rknn_range *tasks,
                          uint32_t done, const struct npu_slices *slices)
{
    double us = known_us(m, node), of_each = us / tasks->n;
    uint32_t n = 0;
    for (uint32_t i = 1; done + i <= tasks->n; i++) {
        if (done + i < tasks->n && !open_cuts_inside(&m->cuts, tasks->first + done + i))
            continue;
        if (n && i * of_each > slices->us)
            break;
        n = i;
        if (us <= 0 || npu_slices_wanted(slices))
            break;
    }
    return n;
}

void open_slices_divided(const struct npu_model *m, uint32_t node, uint64_t us)
{
    atomic_store_explicit(&m->node_us[node], 1 + (unsigned)us, memory_order_relaxed);
}

void open_slices_took(struct open_slice *s, const struct npu_model *m, uint64_t us)
{
    for (uint32_t i = s->first; i <= s->last && s->n; i++) {
        unsigned before = known_us(m, i);
        double part = s->known ? (double)before / (double)s->us : 1.0 / s->n;
        if (m->steps[i] == OPEN_NPU)
            atomic_store_explicit(&m->node_us[i], 1 + (unsigned)((double)us * part),
                                  memory_order_relaxed);
    }
    *s = (struct open_slice){0};
}
