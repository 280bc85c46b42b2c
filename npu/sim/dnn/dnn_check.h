// Whether oneDNN's numbers are right on this machine: once for a process, before they are used.
#pragma once

#include <dnnl.h>

#include "base/error.h"

/// STATUS_DEVICE_UNAVAILABLE: they are not; the words say what to do. Takes about a millisecond the
/// first time. Any thread.
int dnn_check(dnnl_engine_t engine, struct error *e);
