// What an NPU sees of memory: regions at addresses of its own (behind the IOMMU), each somewhere in
// the emulator's process.
//
// Not for several threads at once.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct emu_region {
    uint64_t address; // as the NPU names it
    size_t size;
    uint8_t *host;
    bool read_only;
};

// All zero is one without regions.
struct emu_memory {
    struct emu_region *regions; // by address, without overlaps
    size_t n, room;
};

/// Maps size > 0 bytes at `host`, which stay the caller's, to `address`. STATUS_PARAM_INVALID when
/// they overlap what is mapped.
int emu_memory_map(struct emu_memory *m, uint64_t address, void *host, size_t size,
                   struct error *e);

/// The NPU may only read the region that begins at `address`: writes are page faults.
void emu_memory_protect(struct emu_memory *m, uint64_t address);

/// The region that begins at `address`; nothing happens if there is none.
void emu_memory_unmap(struct emu_memory *m, uint64_t address);
void emu_memory_done(struct emu_memory *m);

/// The bytes [address, address + size) in the emulator's process. NULL: they are not all in one
/// region; *e then says what the IOMMU of a chip would report, a page fault.
void *emu_memory_at(const struct emu_memory *m, uint64_t address, size_t size, struct error *e);

/// The same, for writing.
void *emu_memory_to(const struct emu_memory *m, uint64_t address, size_t size, struct error *e);
