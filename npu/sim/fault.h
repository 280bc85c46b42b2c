// Injected faults, for tests of whatever has to live with a device: which job gets which.
#pragma once

#include <stdatomic.h>

#include "npu/npu.h"
#include "npu/sim/sim_options.h"

struct faults {
    const struct sim_options *options;
    atomic_ullong n_jobs[SIM_MAX_FAULTS]; // that a rule has seen
};

/// `options` must outlive f.
void faults_init(struct faults *f, const struct sim_options *options);

/// The fault that this job of the model is to have: of the first rule that wants one. Any thread.
enum sim_fault faults_next(struct faults *f, const char *model);

/// Before the job runs: crashes, hangs, waits, or refuses. Does nothing for the other faults.
int fault_before(enum sim_fault fault, struct error *e);

/// After it has run: spoils outputs. Does nothing for the other faults.
void fault_after(enum sim_fault fault, const struct npu_output *outputs, uint32_t n_outputs);
