// Regions in the order of their addresses, searched by halves.
#include "npu/emu/emu_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

// Who has touched 16 bytes: the meetings that there had been then, and one. 0: nobody has.
struct emu_touch {
    uint32_t written, read[EMU_CORES];
    uint8_t writers; // a bit for each core
};

// What a task writes that another core has touched, as it was before.
struct emu_doubts {
    struct emu_doubt {
        uint64_t address;
        const uint8_t *host;
        uint8_t before[EMU_GRAIN];
        unsigned other;
    } * list;
    size_t n, room;
};

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
    m->regions[at] = (struct emu_region){address, size, host, false, NULL};
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
    free(m->regions[at - 1].touched);
    memmove(&m->regions[at - 1], &m->regions[at], (m->n - at) * sizeof *m->regions);
    m->n--;
}

void emu_memory_done(struct emu_memory *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->regions[i].touched);
    free(m->regions);
    if (m->doubts)
        free(m->doubts->list);
    free(m->doubts);
    *m = (struct emu_memory){0};
}

// ---- cores that touch the same bytes ----

int emu_memory_watch(struct emu_memory *m, uint64_t address, struct error *e)
{
    size_t at = count_before(m, address);
    struct emu_region *r = at ? &m->regions[at - 1] : NULL;
    if (!r || r->address != address || r->touched || r->size % EMU_GRAIN)
        return error_set(e, STATUS_PARAM_INVALID, "nothing to watch begins at %#" PRIx64, address);
    if (!m->doubts)
        m->doubts = calloc(1, sizeof *m->doubts);
    r->touched = calloc(r->size / EMU_GRAIN, sizeof *r->touched);
    return r->touched && m->doubts ? 0 : error_no_memory(e, "what cores touch", r->size);
}

void emu_memory_meet(struct emu_memory *m)
{
    m->meetings++;
}

static int refuse_race(const struct emu_memory *m, const char *does, uint64_t address,
                       unsigned other, const char *has, struct error *e)
{
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "core %u %s %#" PRIx64 ", which core %u has %s, and they have not waited for "
                     "each other meanwhile",
                     m->core, does, address, other, has);
}

int emu_memory_settle(struct emu_memory *m, struct error *e)
{
    size_t n = m->doubts ? m->doubts->n : 0;
    for (size_t i = 0; i < n; i++) {
        const struct emu_doubt *d = &m->doubts->list[i];
        if (memcmp(d->host, d->before, EMU_GRAIN) == 0)
            continue;
        m->doubts->n = 0;
        return refuse_race(m, "changes", d->address, d->other, "written or read", e);
    }
    if (n)
        m->doubts->n = 0;
    return 0;
}

// A core other than this one that has written it, or read it where this one writes, since they met
// last; EMU_CORES: none, or this one has written it, too, which was looked at then.
static unsigned find_other(const struct emu_memory *m, const struct emu_touch *t, bool writes)
{
    uint32_t now = m->meetings + 1;
    uint8_t writers = t->written == now ? t->writers : 0;
    if (writers >> m->core & 1)
        return EMU_CORES;
    for (unsigned i = 0; i < EMU_CORES; i++)
        if (writers >> i & 1 || (writes && i != m->core && t->read[i] == now))
            return i;
    return EMU_CORES;
}

static int touch_grain(const struct emu_memory *m, const struct emu_region *r, uint64_t i,
                       bool writes, struct error *e)
{
    struct emu_touch *t = &r->touched[i];
    uint64_t address = r->address + i * EMU_GRAIN;
    unsigned other = find_other(m, t, writes);
    if (other != EMU_CORES && !writes)
        return refuse_race(m, "reads", address, other, "written", e);
    if (other != EMU_CORES) {
        struct emu_doubts *d = m->doubts;
        if (array_reserve(d->list, d->room, d->n + 1, "what cores touch", e) < 0)
            return STATUS_MALLOC_FAIL;
        struct emu_doubt *doubt = &d->list[d->n++];
        *doubt = (struct emu_doubt){address, r->host + i * EMU_GRAIN, {0}, other};
        memcpy(doubt->before, doubt->host, EMU_GRAIN);
    }
    if (writes) {
        t->writers = (uint8_t)(1u << m->core | (t->written == m->meetings + 1 ? t->writers : 0));
        t->written = m->meetings + 1;
    } else {
        t->read[m->core] = m->meetings + 1;
    }
    return 0;
}

static int touch_bytes(const struct emu_memory *m, const struct emu_region *r, uint64_t address,
                       size_t size, bool writes, struct error *e)
{
    uint64_t first = address - r->address, last = first + (size ? size - 1 : 0);
    for (uint64_t i = first / EMU_GRAIN; i <= last / EMU_GRAIN; i++)
        if (touch_grain(m, r, i, writes, e) < 0)
            return STATUS_DEVICE_UNAVAILABLE;
    return 0;
}

static void *find_bytes(const struct emu_memory *m, uint64_t address, size_t size, bool writes,
                        struct error *e)
{
    size_t at = count_before(m, address);
    const struct emu_region *r = at ? &m->regions[at - 1] : NULL;
    if (r && address - r->address <= r->size && size <= r->size - (address - r->address) &&
        !(writes && r->read_only)) {
        if (r->touched && touch_bytes(m, r, address, size, writes, e) < 0)
            return NULL;
        return r->host + (address - r->address);
    }
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
