// What the client library said last, as an error of ours.
#pragma once

#include "base/error.h"

/// The library's last words in this thread; `code` is what its function returned.
int library_error(struct error *e, int code);
