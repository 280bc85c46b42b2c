// What follows "sim:" in --backend: CHIP[,paced][,speed=F][,strict][,programs=GLOB][,FAULT]…
//
//   CHIP       the chip that the device simulates; "any" or nothing: the chip of each model
//   paced      a job takes the time that it would take on the chip, and the CPU only where its
//              results are not known yet, and to end on time
//   speed=F    paced, and the chip is F times as fast
//   strict     nodes that are not understood are refused, and not computed by their own register
//              programs (sim_rknn.h)
//   programs=GLOB  nodes of .rknn files whose names match are computed by their programs in any
//              case: a second reading of what they do, and slow
//   FAULT      KIND@N (the N-th job of a worker) or KIND%P (each job, P times in a hundred), then
//              :GLOB for models whose name matches. KIND: slow (100 ms more), hang, crash, wrong
//              (one bit of the first output is wrong), memory (the job says that there is none)
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/chip.h"

#define SIM_MAX_FAULTS 8

enum sim_fault { FAULT_NONE, FAULT_SLOW, FAULT_HANG, FAULT_CRASH, FAULT_WRONG, FAULT_MEMORY };

struct sim_fault_rule {
    enum sim_fault kind;
    uint64_t at_job; // 0: by chance
    double chance;   // 0 … 1
    char models[64]; // shell pattern
};

struct sim_options {
    const struct chip *chip; // NULL: any
    bool paced;
    double speed;
    bool strict;
    char programs[64]; // shell pattern; "": none
    unsigned n_faults;
    struct sim_fault_rule faults[SIM_MAX_FAULTS];
};

int sim_options_parse(const char *text, struct sim_options *ret, struct error *e);
