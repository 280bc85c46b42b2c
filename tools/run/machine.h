// What the server's machine says of heat, power and clocks, for those who look again and again.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "rknnd.h"

struct machine {
    rknnd_list *sensors; // of rknnd_sensor; NULL: not told, and `why`
    rknnd_list *clocks;  // of rknnd_clock; NULL: not told
    char why[160];
};

/// Does not fail: an old server does not tell, and a machine whose driver hangs cannot.
void machine_get(struct machine *m);
void machine_done(struct machine *m);

/// A line: the NPU's clock, and the same as machine_print_heat().
void machine_print(const struct machine *m, FILE *out);

/// The hottest sensor, power, what is slowed down by heat, on the rest of a line. Says what there is
/// none of.
void machine_print_heat(const struct machine *m, FILE *out);

/// [{"kind", "name", "value", "limit"}, …], in degrees Celsius, watts, joules and steps; a limit that
/// is not known is null. Not told: null.
json_t *machine_json(const struct machine *m);
