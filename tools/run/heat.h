// What the server's machine says of heat, power and clocks, for those who look again and again.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "rknnd.h"

struct heat {
    rknnd_list *sensors; // of rknnd_sensor; NULL: not told, and `why`
    rknnd_list *clocks;  // of rknnd_clock; NULL: not told
    char why[160];
};

/// Does not fail: an old server does not tell, and a machine whose driver hangs cannot.
void heat_get(struct heat *m);
void heat_done(struct heat *m);

/// A line: the NPU's clock, and the same as heat_print_rest().
void heat_print(const struct heat *m, FILE *out);

/// The hottest sensor, power, what is slowed down by heat, on the rest of a line. Says what there
/// is none of.
void heat_print_rest(const struct heat *m, FILE *out);

/// [{"kind", "name", "value", "limit"}, …], in degrees Celsius, watts, joules and steps; a limit
/// that is not known is null. Not told: null.
json_t *heat_json(const struct heat *m);
