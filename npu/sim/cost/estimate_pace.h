// The time that a job takes on the chip, waited for slice by slice.
#pragma once

#include "npu/npu.h"

// What a job of a plan takes, and how that is shared among its layers.
struct estimate_pace {
    uint64_t start_us;  // of clock_us()
    uint64_t waited_us; // of it, between slices, until now
    double us;          // that the job is to take
    const struct npu_layer *layers;
    size_t n_layers;
    bool divides; // it has no layers, and can be interrupted anywhere
};

/// Sleeps until the job has taken its time; lends the device to others between slices, as
/// job->slices says. STATUS_FAIL if the job is stopped before.
int estimate_pace(struct estimate_pace *p, const struct npu_job *job, struct error *e);
