// What a quantization did, one thing after the other, and what each took: so one sees where the
// time goes.
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct stage {
    const char *name;
    uint64_t begun_ns;     // by the clock of all programs (CLOCK_MONOTONIC)
    uint64_t processor_ns; // of this program, when it began
};

struct stages {
    struct stage *items;
    size_t n, room;
};

/// The one before ends and this one begins; `name` outlives the list. "": nothing begins.
void stages_begin(struct stages *s, const char *name);
void stages_done(struct stages *s);

/// A list of those that took a while. NULL: out of memory.
json_t *stages_json(const struct stages *s);
