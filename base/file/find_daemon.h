// Where the program rknnd is, for those who start one of their own.
#pragma once

#include <limits.h>

#include "base/error.h"

/// RKNND_DAEMON, if it is set (it need not be there: starting it will say so); else in the
/// installation that has the file `beside`, a program or a library of ours with all links resolved
/// (NULL: none); else in PATH. Other places are never searched. ret: PATH_MAX bytes.
int find_daemon(const char *beside, char *ret, struct error *e);
