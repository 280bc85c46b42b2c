// Whose times are shown. An NPU's times are measured on it. A software NPU has two: what its
// machine took, and what the chip that it simulates would take by estimate. They are never mixed:
// the first are called "time" ("run", …), the others "machine" and "estimate".
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "rknnd.h"

struct timing {
    bool software;          // else all that is measured is the NPU's
    bool paced;             // the machine's times are made to last as long as the chip's
    bool assumed;           // the chip is a default, not chosen
    uint32_t n_unestimated; // layers that estimates leave out
    char chip[32];          // that estimates are for; "": there are none
};

struct timing timing_of(const rknnd_run_info *info);

/// The name in JSON of what was measured: "run_us", or "machine_run_us"; of "time_us" "machine_us".
const char *timing_name(const struct timing *t, const char *name, char room[static 64]);

/// Puts into `o` what was measured and, of a software NPU, what is estimated ("estimate_run_us").
/// Takes both.
void timing_put(const struct timing *t, json_t *o, const char *name, json_t *measured,
                json_t *estimate);

/// Microseconds; null for 0: not known.
json_t *timing_estimate(uint64_t ns);

/// {"device": "npu" or "software", "paced", "estimate_chip" (null: none), "estimate_assumed",
/// "unestimated_layers"}: what the other names stand for. NULL: out of memory.
json_t *timing_json(const struct timing *t);

/// The same in a sentence or two, each on a line behind `indent`; of an NPU nothing. `server`:
/// whose times they are.
void timing_print(const struct timing *t, const rknnd_server_info *server, FILE *out,
                  const char *indent);
