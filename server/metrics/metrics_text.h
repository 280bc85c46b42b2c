// Everything that can be counted, in Prometheus's text format, version 0.0.4.
#pragma once

#include <stddef.h>

#include "base/error.h"

struct reading;
struct services;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/// `now`: what the machine's sensors say; NULL: they do not answer. The caller frees *ret. Its size
/// depends on models and users, never on programs or connections.
int metrics_text(const struct services *s, const struct reading *now, char **ret, size_t *ret_size,
                 struct error *e);

/// What was counted (enum metrics_total_of) by this daemon and those whose place it has taken.
uint64_t metrics_total(const struct services *s, unsigned which);
