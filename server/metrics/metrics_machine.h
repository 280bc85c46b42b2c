// What the machine's clocks and sensors say, as metrics.
#pragma once

#include <stdio.h>

#include "server/observe/readings.h"

/// `now` NULL: there is no answer of the machine's drivers, which is said. What the machine has no
/// sensor of has no line.
void metrics_machine(FILE *out, const struct reading *now);
