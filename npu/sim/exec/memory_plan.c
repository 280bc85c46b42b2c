// Places the tensors of a plan in the arena: live ranges, then the file's own offsets, then first
// fit by size (the drawing is in memory_plan.h). Runs once per plan. O(n^2) in the number of
// tensors, which is fine for the thousands that models have.
#include "npu/sim/exec/memory_plan.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define NEVER     INT32_MAX
#define ARENA_MAX ((uint64_t)1 << 32)

// From the step that writes a tensor to the last one that reads it. Inputs are written before all
// steps (-1), outputs are read after them (n_steps).
struct live_range {
    int32_t from, to;
};

// Extends the range of a tensor to a step that reads it. Constants are not in the arena. NEVER is
// larger than any step, so the one comparison finds both tensors that are written later and those
// that no step writes.
static int range_read(const struct plan *p, struct live_range *ranges, int32_t tensor, int32_t step,
                      struct error *e)
{
    const struct graph_tensor *t = tensor < 0 ? NULL : &p->graph->tensors[tensor];
    if (!t || t->constant)
        return 0;
    if (ranges[tensor].from >= step)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s is read before anything has written it", t->name);
    ranges[tensor].to = step;
    return 0;
}

// One step's reads, among them operands of fused additions, then its writes. Each tensor has one
// writer. An output that nobody reads lives during its step only; that of a step which watches the
// one before is written from then on.
static int range_step(const struct plan *p, struct live_range *ranges, int32_t i, struct error *e)
{
    const struct graph_node *n = p->steps[i].node;
    int r = 0;
    for (uint32_t k = 0; k < n->n_inputs && r == 0; k++)
        r = range_read(p, ranges, n->inputs[k], i, e);
    for (uint32_t k = 0; k < n->n_post && r == 0; k++)
        if (n->post[k].kind == POST_ADD)
            r = range_read(p, ranges, n->post[k].operand, i, e);
    if (r < 0)
        return error_prefix(e, "node %s (%s)", n->name, n->type);
    for (uint32_t k = 0; k < n->n_outputs; k++) {
        int32_t tensor = n->outputs[k];
        if (tensor < 0)
            continue;
        if (ranges[tensor].from != NEVER)
            return graph_refuse(n, e, "tensor %s is written twice", p->graph->tensors[tensor].name);
        ranges[tensor] = (struct live_range){step_before(&p->steps[i]) ? i - 1 : i, i};
    }
    return 0;
}

// Ranges of all tensors; `from` stays NEVER for those that no step touches.
static int ranges_find(const struct plan *p, struct live_range *ranges, struct error *e)
{
    const struct graph *g = p->graph;
    int32_t end = (int32_t)p->n_steps;
    for (uint32_t i = 0; i < g->n_tensors; i++)
        ranges[i].from = NEVER;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        ranges[g->inputs[i]] = (struct live_range){-1, -1};
    for (int32_t i = 0; i < end; i++) {
        int r = range_step(p, ranges, i, e);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        int r = range_read(p, ranges, (int32_t)g->outputs[i], end, e);
        if (r < 0)
            return r;
    }
    return 0;
}

// A tensor with an offset. The array is sorted by `begin`, so that searches stop early.
struct placed {
    uint64_t begin, end;
    struct live_range range;
    uint32_t tensor;
};

struct memory_plan {
    struct plan *plan;
    const struct live_range *ranges;
    struct placed *placed;
    uint32_t n;
};

static bool ranges_overlap(struct live_range a, struct live_range b)
{
    return a.from <= b.to && b.from <= a.to;
}

// The step at which one tensor is read for the last time and the other is written; -1: none.
static int32_t range_handover(struct live_range a, struct live_range b)
{
    if (a.to == b.from)
        return a.from < b.from ? b.from : -1;
    return b.to == a.from && b.from < a.from ? a.from : -1;
}

static bool memory_is_output(const struct step *s, uint32_t tensor)
{
    bool is = false;
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        is |= s->node->outputs[i] == (int32_t)tensor;
    return is;
}

// A step that works in place may write its output over an input that dies there, if both have the
// same bytes per element and order: element i is then read before it is overwritten.
static bool memory_may_share(const struct memory_plan *p, uint32_t i, const struct placed *other)
{
    int32_t step = range_handover(p->ranges[i], other->range);
    if (step < 0 || step >= (int32_t)p->plan->n_steps)
        return false;
    const struct graph_tensor *a = &p->plan->graph->tensors[i];
    const struct graph_tensor *b = &p->plan->graph->tensors[other->tensor];
    const struct step *s = &p->plan->steps[step];
    return s->op->in_place && (memory_is_output(s, i) || memory_is_output(s, other->tensor)) &&
           a->type == b->type && a->size == b->size && a->channels_last == b->channels_last;
}

// Whether tensor i at offset `begin` would overlap bytes of a tensor that is live at the same time.
static bool memory_conflicts(const struct memory_plan *p, uint32_t i, uint64_t begin)
{
    uint64_t end = begin + p->plan->graph->tensors[i].size;
    for (uint32_t k = 0; k < p->n && p->placed[k].begin < end; k++) {
        const struct placed *other = &p->placed[k];
        if (other->end > begin && ranges_overlap(p->ranges[i], other->range) &&
            !(other->begin == begin && memory_may_share(p, i, other)))
            return true;
    }
    return false;
}

// Inserts by offset and grows the arena, whose end is aligned for the vector kernels.
static void memory_put(struct memory_plan *p, uint32_t i, uint64_t begin)
{
    uint64_t end = begin + p->plan->graph->tensors[i].size;
    uint32_t k = p->n++;
    for (; k > 0 && p->placed[k - 1].begin > begin; k--)
        p->placed[k] = p->placed[k - 1];
    p->placed[k] = (struct placed){begin, end, p->ranges[i], i};
    p->plan->offsets[i] = begin;
    if (align_up(end, STEP_ALIGNMENT) > p->plan->arena_size)
        p->plan->arena_size = align_up(end, STEP_ALIGNMENT);
}

// First fit: the lowest aligned offset whose bytes are free during the live range of tensor i.
static uint64_t memory_find_gap(const struct memory_plan *p, uint32_t i)
{
    uint64_t begin = 0, size = p->plan->graph->tensors[i].size;
    struct live_range range = p->ranges[i];
    for (const struct placed *k = p->placed; k < p->placed + p->n && k->begin < begin + size; k++)
        if (ranges_overlap(range, k->range) && align_up(k->end, STEP_ALIGNMENT) > begin)
            begin = align_up(k->end, STEP_ALIGNMENT);
    return begin;
}

// In place of a dying input first: that saves memory and keeps the bytes in the cache.
static uint64_t memory_find(const struct memory_plan *p, uint32_t i)
{
    for (uint32_t k = 0; k < p->n; k++)
        if (memory_may_share(p, i, &p->placed[k]) && !memory_conflicts(p, i, p->placed[k].begin))
            return p->placed[k].begin;
    return memory_find_gap(p, i);
}

// Largest first, as small tensors fit into the gaps; the index decides ties, so that plans are
// reproducible.
static int compare_sizes(const void *a, const void *b, void *tensors)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct graph_tensor *t = tensors;
    if (t[i].size != t[j].size)
        return t[i].size > t[j].size ? -1 : 1;
    return i < j ? -1 : i > j;
}

// Keeps the offsets of a .rknn file's own memory plan where they are free of conflicts. `rest` gets
// the tensors that are still to be placed; returns how many.
static uint32_t memory_keep_file_offsets(struct memory_plan *p, uint32_t *rest)
{
    const struct graph *g = p->plan->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        uint64_t offset = g->tensors[i].arena_offset;
        if (p->ranges[i].from == NEVER)
            continue;
        if (offset != GRAPH_NO_OFFSET && !memory_conflicts(p, i, offset))
            memory_put(p, i, offset);
        else
            rest[n++] = i;
    }
    return n;
}

// Bookkeeping is freed here; only the offsets remain, in the plan's pool. The arena is at least as
// large as the file's own.
int memory_plan_make(struct plan *p, struct error *e)
{
    const struct graph *g = p->graph;
    size_t room = (size_t)g->n_tensors + 1;
    p->offsets = pool_alloc(&p->pool, g->n_tensors, sizeof *p->offsets);
    cleanup(free_p) struct live_range *ranges = calloc(room, sizeof *ranges);
    cleanup(free_p) struct placed *placed = calloc(room, sizeof *placed);
    cleanup(free_p) uint32_t *rest = calloc(room, sizeof *rest);
    if (!p->offsets || !ranges || !placed || !rest)
        return error_no_memory(e, "the memory plan", room * sizeof *placed);
    int r = ranges_find(p, ranges, e);
    if (r < 0)
        return r;
    struct memory_plan plan = {.plan = p, .ranges = ranges, .placed = placed};
    p->arena_size = align_up(g->arena_size, STEP_ALIGNMENT);
    uint32_t n = memory_keep_file_offsets(&plan, rest);
    qsort_r(rest, n, sizeof *rest, compare_sizes, g->tensors);
    for (uint32_t i = 0; i < n; i++)
        memory_put(&plan, rest[i], memory_find(&plan, rest[i]));
    if (p->arena_size > ARENA_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "its tensors need %llu bytes, more than 4 GB",
                         (unsigned long long)p->arena_size);
    return 0;
}

int memory_plan_visit(const struct plan *p,
                      void (*visit)(void *user, uint32_t tensor, int32_t from, int32_t to),
                      void *user, struct error *e)
{
    uint32_t n = p->graph->n_tensors;
    cleanup(free_p) struct live_range *ranges = calloc((size_t)n + 1, sizeof *ranges);
    if (!ranges)
        return error_no_memory(e, "the memory plan", n * sizeof *ranges);
    int r = ranges_find(p, ranges, e);
    for (uint32_t i = 0; i < n && r == 0; i++)
        if (ranges[i].from != NEVER)
            visit(user, i, ranges[i].from, ranges[i].to);
    return r;
}
