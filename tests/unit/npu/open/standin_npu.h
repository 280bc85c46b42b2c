// What stand-ins of kernels share: an NPU on the emulator with memory at addresses of its own, and
// their table of calls in place of the kernel's, from begin to end.
#pragma once

#include "npu/emu/emu_npu.h"
#include "npu/open/provider/device_calls.h"

struct standin_npu {
    struct emu_memory memory;
    struct emu_npu *npu;
    uint64_t next_address;
    const struct device_calls *before; // whose place is taken
    long *wrong;                       // counts what is wrong with requests
};

extern struct standin_npu standin;

void standin_npu_begin(const struct device_calls *calls, uint64_t first_address, long *wrong);
void standin_npu_end(void); // after all memory is unmapped

/// A place behind all others, with a page that is nobody's.
uint64_t standin_npu_place(uint64_t size);

/// Counts and prints what is wrong with a request: -EINVAL.
int standin_npu_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
