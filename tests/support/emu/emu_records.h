// Task records in memory, worked off on the emulator as a kernel driver has a chip do it.
#pragma once

#include "npu/emu/emu_job.h"

struct emu_records_core {
    unsigned core;
    uint32_t first, n; // records
};

/// Cores begin shared convolutions together. *ret_done: records that were worked off, of all cores.
int emu_records_run(struct emu_npu *npu, const struct emu_memory *m, const uint8_t *records,
                    const struct emu_records_core *cores, unsigned n_cores, uint32_t *ret_done,
                    struct error *e);
