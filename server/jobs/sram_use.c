// The device's SRAM: accounting only, so that a context's owner is told how much is left for
// others.
#include "server/jobs/sram_use.h"

#define UNIT 4096u

// Rounded up to whole units, or cut to the whole units that are left.
uint64_t sram_take(struct sram *s, uint64_t size)
{
    uint64_t free = s->total - s->used, units = size / UNIT + (size % UNIT != 0);
    uint64_t taken = units > free / UNIT ? free / UNIT * UNIT : units * UNIT;
    s->used += taken;
    return taken;
}

void sram_give(struct sram *s, uint64_t taken)
{
    s->used -= taken;
}
