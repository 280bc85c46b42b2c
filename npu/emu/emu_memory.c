// Regions in the order of their addresses, searched by halves.
#include "npu/emu/emu_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

// How many regions begin at or before `address`.
static size_t count_before(const struct emu_memory *m, uint64_t address)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->regions[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int emu_memory_map(struct emu_memory *m, uint64_t address, void *host, size_t size, struct error *e)
{
    size_t at = count_before(m, address);
    uint64_t end;
    bool bad = !size || __builtin_add_overflow(address, size, &end);
    if (!bad && at > 0)
        bad = address - m->regions[at - 1].address < m->regions[at - 1].size;
    if (!bad && at < m->n)
        bad = end > m->regions[at].address;
    if (bad)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%zu bytes at %#" PRIx64 " overlap memory that is mapped", size, address);
    int r = array_reserve(m->regions, m->room, m->n + 1, "the NPU's memory", e);
    if (r < 0)
        return r;
    memmove(&m->regions[at + 1], &m->regions[at], (m->n - at) * sizeof *m->regions);
    m->regions[at] = (struct emu_region){address, size, host, false};
    m->n++;
    return 0;
}

void emu_memory_protect(struct emu_memory *m, uint64_t address)
{
    size_t at = count_before(m, address);
    if (at && m->regions[at - 1].address == address)
        m->regions[at - 1].read_only = true;
}

void emu_memory_unmap(struct emu_memory *m, uint64_t address)
{
    size_t at = count_before(m, address);
    if (!at || m->regions[at - 1].address != address)
        return;
    memmove(&m->regions[at - 1], &m->regions[at], (m->n - at) * sizeof *m->regions);
    m->n--;
}

void emu_memory_done(struct emu_memory *m)
{
    free(m->regions);
    *m = (struct emu_memory){0};
}

static void *find_bytes(const struct emu_memory *m, uint64_t address, size_t size, bool writes,
                        struct error *e)
{
    size_t at = count_before(m, address);
    const struct emu_region *r = at ? &m->regions[at - 1] : NULL;
    if (r && address - r->address <= r->size && size <= r->size - (address - r->address) &&
        !(writes && r->read_only))
        return r->host + (address - r->address);
    error_set(e, STATUS_DEVICE_UNAVAILABLE,
              "page fault: %zu bytes at %#" PRIx64 " are not mapped%s", size, address,
              writes ? " for writing" : "");
    return NULL;
}

void *emu_memory_at(const struct emu_memory *m, uint64_t address, size_t size, struct error *e)
{
    return find_bytes(m, address, size, false, e);
}

void *emu_memory_to(const struct emu_memory *m, uint64_t address, size_t size, struct error *e)
{
    return find_bytes(m, address, size, true, e);
}
