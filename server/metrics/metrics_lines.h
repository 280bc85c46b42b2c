// Lines of Prometheus's text format, version 0.0.4.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/// HELP and TYPE of rknnd_NAME, before its lines.
void metrics_put_head(FILE *out, const char *name, const char *type, const char *help);

/// NAME="VALUE", between the braces of a line. What stands in the value must be printable.
void metrics_put_label(FILE *out, const char *name, const char *value);

/// The value at a line's end.
void metrics_put_seconds(FILE *out, uint64_t us);

/// Of characters that are printable, those with a meaning in a label.
static inline bool metrics_is_escaped(char c)
{
    return c == '"' || c == '\\';
}
