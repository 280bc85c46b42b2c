// The emulator as a device that is not as expected, for tests of whatever has to live with one: how
// its chip computes where that is open, and faults.
//
//   rk3588,out-zp=1          the chip's switch (tensor/arithmetic.h) says its second choice
//   rk3588,wrong@3           the lowest bit of the first byte that job 3 writes is turned over
//   rk3588,timeout@3         job 3 ends without its interrupt
//   rk3588,hang@3 crash@3    job 3 never returns; its process dies in the middle
//   rk3588,races             a job fails in which a core touches what another one does at that time
//   rk3588,others            behind each job another program has left its own in registers and
//   tables
//
// Jobs are submissions, counted from 1 in each process; 0 means every one.
#pragma once

#include <stdbool.h>

#include "npu/emu/emu_npu.h"
#include "tensor/arithmetic.h"

enum emu_fault {
    EMU_FAULT_NONE,
    EMU_FAULT_WRONG,
    EMU_FAULT_TIMEOUT,
    EMU_FAULT_HANG,
    EMU_FAULT_CRASH
};

struct emu_standin {
    char chip[32];
    enum emu_fault fault;
    unsigned long at_job, n_jobs; // at_job 0: every job
    bool races, others;
    bool chosen[CHIP_N_SWITCHES]; // by the options
    uint8_t choices[CHIP_N_SWITCHES];
};

int emu_standin_parse(const char *text, struct emu_standin *ret, struct error *e);

/// Tells a new emulator what was chosen.
void emu_standin_choose(const struct emu_standin *s, struct emu_npu *npu);

/// Before a job: counts it, and hangs, dies, or fails with STATUS_TIMEOUT. *ret_wrong: what it
/// writes is to be spoilt.
int emu_standin_before(struct emu_standin *s, bool *ret_wrong, struct error *e);

/// Where a program of `n` commands writes to; 0: it does not say.
uint64_t emu_standin_output(const uint8_t *commands, uint32_t n, bool new_registers);
