// The clocks of a server's machine: CPU, NPU, DDR, … with their governors.
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "rknnd.h"

struct frequencies {
    rknnd_list *list; // of rknnd_clock
};

/// Of the server that contexts use. frequencies_done() is safe after a failure.
int frequencies_get(struct frequencies *q, struct error *e);
void frequencies_done(struct frequencies *q);

/// Under a heading, a line for each domain (CPU, NPU, DDR, …).
void frequencies_print(const struct frequencies *q);

/// A list of objects. NULL: out of memory.
json_t *frequencies_json(const struct frequencies *q);
