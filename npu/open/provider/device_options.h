// Options of providers that have a driver: [DEVICE][,compatible=FILE][,heap=BUFFERS][,sram].
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct device_options {
    char device[128];     // "": searched for
    char compatible[256]; // the device tree's list of names, which says the chip
    char heap[64];        // where /dev/rknpu's memory comes from, as --buffers says it
    bool sram;            // intermediate results may lie in the chip's own memory
};

int device_options_parse(const char *text, struct device_options *ret, struct error *e);
