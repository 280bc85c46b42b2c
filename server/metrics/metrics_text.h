// Everything that can be counted, in Prometheus's text format, version 0.0.4.
#pragma once

#include <stddef.h>

#include "base/error.h"

struct services;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/// The caller frees *ret. Its size depends on models and users, never on programs or connections.
int metrics_text(const struct services *s, char **ret, size_t *ret_size, struct error *e);
