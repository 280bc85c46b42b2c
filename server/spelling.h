// A name that is nearly right. (rknnctl has more of this, for its commands.)
#pragma once

#include <stdbool.h>

/// Whether `known` may have been meant by `name`: few letters were added, left out, changed or
/// swapped with the next one. Of long names the beginning counts.
bool spelling_is_near(const char *name, const char *known);
