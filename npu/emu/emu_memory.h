// What an NPU sees of memory: regions at addresses of its own (behind the IOMMU), each somewhere in
// the emulator's process.
//
// Not for several threads at once.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define EMU_CORES 3
#define EMU_GRAIN 16 // bytes that are watched together

struct emu_touch;
struct emu_doubts;

struct emu_region {
    uint64_t address; // as the NPU names it
    size_t size;
    uint8_t *host;
    bool read_only;
    struct emu_touch *touched; // of each 16 bytes; malloc'ed. NULL: the region is not watched
};

// All zero is one without regions.
struct emu_memory {
    struct emu_region *regions; // by address, without overlaps
    size_t n, room;
    unsigned core;             // that is at work
    uint32_t meetings;         // of all cores
    struct emu_doubts *doubts; // malloc'ed, where a region is watched
};

/// Maps size > 0 bytes at `host`, which stay the caller's, to `address`. STATUS_PARAM_INVALID when
/// they overlap what is mapped.
int emu_memory_map(struct emu_memory *m, uint64_t address, void *host, size_t size,
                   struct error *e);

/// The NPU may only read the region that begins at `address`: writes are page faults.
void emu_memory_protect(struct emu_memory *m, uint64_t address);

/// Watches the region that begins at `address`, of whole EMU_GRAIN bytes: that a core reads what
/// another one has written since they last met is a page fault (*e says who). On a chip the outcome
/// would depend on which of them is faster.
int emu_memory_watch(struct emu_memory *m, uint64_t address, struct error *e);

/// At a task's end: the same for what it has changed that another core has written or read. Cores
/// may write the same.
int emu_memory_settle(struct emu_memory *m, struct error *e);

/// All cores have waited for each other.
void emu_memory_meet(struct emu_memory *m);

/// The region that begins at `address`; nothing happens if there is none.
void emu_memory_unmap(struct emu_memory *m, uint64_t address);
void emu_memory_done(struct emu_memory *m);

/// The bytes [address, address + size) in the emulator's process. NULL: they are not all in one
/// region; *e then says what the IOMMU of a chip would report, a page fault.
void *emu_memory_at(const struct emu_memory *m, uint64_t address, size_t size, struct error *e);

/// The same, for writing.
void *emu_memory_to(const struct emu_memory *m, uint64_t address, size_t size, struct error *e);
