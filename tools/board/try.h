// One probe on one target, as it is done in a process of its own.
#pragma once

#include <jansson.h>

#include "tools/board/kit.h"

// What computes: a daemon of the kit's own with a backend, or a server that runs already.
struct target {
    char name[64]; // "vendor", "rknpu", "rocket", "device", "emulator", "software"; with ":DEVICE"
    char backend[160]; // "": a server
    const char *uri;   // of that
    const char *words; // for people
};

struct trial {
    const struct target *target;
    const struct kit *kit;
    json_t *probe;      // NULL: only whether the target is there
    const char *folder; // for a daemon of the kit's own
};

/// {"server": {...}, "clocks": …, "sensors": …} of a target that is there, or of a probe:
/// {"tensors": [{"name", "node", "op", "type", "dims", "hex"}], "run_us": [...], "layers": [...],
/// "nodes": [the same, of each node], "no_nodes": why there are none}. What fails: {"failed":
/// words, "code"}. The caller's.
json_t *try_probe(void *user); // a struct trial
