// A model of the chip's internal memory, whose first sram_size bytes are SRAM. Tensors get the
// lowest free offset in the order in which they are written, as in SDK guide 5.7.3.4; unlike
// memory_plan.c this is not for running but for estimating how many bytes hit the SRAM.
#include "npu/sim/cost/sram_arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"

#define ALIGNMENT 64

// Tensors that are live at the current step, sorted by offset.
struct residents {
    const struct sram_tensor **list;
    size_t n;
};

static uint64_t end_of(const struct sram_tensor *t)
{
    return align_up(t->offset + t->size, ALIGNMENT);
}

// Removes tensors that no step from `step` on reads.
static void sram_dismiss(struct residents *r, int32_t step)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i]->to >= step)
            r->list[kept++] = r->list[i];
    r->n = kept;
}

static void sram_admit(struct residents *r, const struct sram_tensor *t)
{
    size_t i = r->n++;
    for (; i > 0 && r->list[i - 1]->offset > t->offset; i--)
        r->list[i] = r->list[i - 1];
    r->list[i] = t;
}

// First fit in the gaps between residents.
static uint64_t lowest_place(const struct residents *r, uint64_t size)
{
    uint64_t at = 0;
    for (size_t i = 0; i < r->n && at + size > r->list[i]->offset; i++)
        if (end_of(r->list[i]) > at)
            at = end_of(r->list[i]);
    return at;
}

// `tensors` are in the order of `from`. Those with an offset of the file keep it.
int sram_plan(struct sram_tensor *tensors, size_t n, struct error *e)
{
    cleanup(free_p) const struct sram_tensor **list = calloc(n + 1, sizeof *list);
    if (!list)
        return error_no_memory(e, "a memory plan", n * sizeof *list);
    struct residents r = {list, 0};
    for (size_t i = 0; i < n; i++) {
        sram_dismiss(&r, tensors[i].from);
        if (tensors[i].offset == SRAM_UNPLACED)
            tensors[i].offset = lowest_place(&r, tensors[i].size);
        sram_admit(&r, &tensors[i]);
    }
    return 0;
}

// Bytes below sram_size. Inputs and outputs are in memory of the program (outside).
uint64_t sram_hit(const struct sram_tensor *t, uint64_t sram_size)
{
    if (t->outside || t->offset >= sram_size)
        return 0;
    uint64_t room = sram_size - t->offset;
    return t->size < room ? t->size : room;
}

// Traffic: each access of a tensor moves all its bytes.
void sram_count(const struct sram_tensor *tensors, size_t n, uint64_t sram_size,
                struct sram_use *ret)
{
    *ret = (struct sram_use){0};
    for (size_t i = 0; i < n; i++) {
        const struct sram_tensor *t = &tensors[i];
        uint64_t end = t->offset + t->size;
        ret->internal_bytes += t->size * t->uses;
        ret->sram_bytes += sram_hit(t, sram_size) * t->uses;
        if (end > ret->internal_size)
            ret->internal_size = end;
    }
}
