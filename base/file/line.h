// Small files of one line, as the kernel has them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// The first line of a file without its newline, cut to fit. False: no such file, or the line is
/// empty; *ret is then untouched or "". Never waits for a writer.
bool line_read(const char *path, char *ret, size_t size);
