// What one node takes is learned from segments that have it: their time is shared among their nodes
// as they took it before. Contexts may learn at the same time; that makes slices a little longer or
// shorter.
#include "npu/open/open_slices.h"

#include "npu/slices.h"

void open_slices_add(struct open_slice *s, const struct npu_model *m, uint32_t node)
{
    unsigned us = atomic_load_explicit(&m->node_us[node], memory_order_relaxed);
    if (s->n++ == 0)
        *s = (struct open_slice){.n = 1, .first = node, .known = true};
    s->last = node;
    s->us += us;
    s->known = s->known && us;
}

bool open_slices_full(const struct open_slice *s, const struct npu_model *m, uint32_t node,
                      const struct rknn_schedule *schedule, const struct npu_slices *slices)
{
    unsigned us = atomic_load_explicit(&m->node_us[node], memory_order_relaxed);
    if (!slices || !open_cuts_of(&m->cuts, &m->program, schedule)[node])
        return false;
    return !s->known || !us || s->us + us > slices->us || npu_slices_wanted(slices);
}

void open_slices_took(struct open_slice *s, const struct npu_model *m, uint64_t us)
{
    for (uint32_t i = s->first; i <= s->last && s->n; i++) {
        unsigned before = atomic_load_explicit(&m->node_us[i], memory_order_relaxed);
        double part = s->known ? (double)before / (double)s->us : 1.0 / s->n;
        if (m->steps[i] == OPEN_NPU)
            atomic_store_explicit(&m->node_us[i], 1 + (unsigned)((double)us * part),
                                  memory_order_relaxed);
    }
    *s = (struct open_slice){0};
}
