// The text that people edit between the steps of a hybrid quantization (SDK guide 6.3.2).
// What it looks like: quant_table.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct quant_table_layer {
    char *name;
    uint8_t bits; // 0: float16
    uint32_t line;
};

struct quant_table_tensor {
    char *name;
    uint32_t line;
    bool symmetric;
    uint8_t bits;
    float min, max, scale;
    int32_t zp;
};

struct quant_table {
    struct quant_table_layer *layers; // that something was chosen for
    struct quant_table_tensor *tensors;
    size_t n_layers, n_tensors;
    size_t room_layers, room_tensors;
};

/// Refuses whatever is not as above, by its line. quant_table_done() also after a failure.
int quant_table_parse(struct quant_table *t, const char *text, size_t size, struct error *e);
void quant_table_done(struct quant_table *t);

/// Writes one; errors are the stream's.
void quant_table_write(const struct quant_table *t, FILE *file);
