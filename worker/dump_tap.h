// The tap of a dump: hands the tensors of a run over in parts that fit a window of memory, one part
// at a time, and takes others back in their place if it is asked to. The run waits while a part is
// out, so a dump holds no more than its window.
#pragma once

#include "npu/npu.h"
#include "protocol/message.h"
#include "worker/gate.h"

struct dump_tap {
    struct npu_tap npu; // for npu_job.tap
    // What is posted: `part` says what the window holds.
    rknnd_DumpReply part;
    uint32_t n_tensors; // so far
    // The tap's:
    char only[sizeof((rknnd_WorkerDump){0}.only)];
    uint8_t *window;
    uint64_t window_size;
    bool replace;
    struct gate *gate;
    void (*post)(struct dump_tap *t);
};

/// Refuses devices that never block: they cannot wait for a part to be taken; and, to `replace`
/// tensors, those that cannot.
int dump_tap_check(const struct npu_device_info *device, bool replace, struct error *e);

/// For one run: tensors that match `only` ("": all) go to the window; post(t) comes from the run's
/// thread when a part is there, and the run continues after gate_open(). With `replace`, post(t)
/// comes also for each part that is wanted: gate_open() comes when the window holds it.
void dump_tap_start(struct dump_tap *t, const char *only, bool replace, void *window,
                    uint64_t window_size, struct gate *gate, void (*post)(struct dump_tap *t));
