// The device's SRAM.
#include "server/jobs/sram_use.h"

#define UNIT 4096u

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
