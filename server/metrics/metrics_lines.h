// Lines of Prometheus's text format, version 0.0.4.
#pragma once

#include <stdio.h>

/// HELP and TYPE of rknnd_NAME, before its lines.
void metrics_put_head(FILE *out, const char *name, const char *type, const char *help);

/// NAME="VALUE", between the braces of a line. What stands in the value must be printable.
void metrics_put_label(FILE *out, const char *name, const char *value);
