// The parts of the page of a quantization.
#pragma once

#include <stdio.h>

#include "quant/quant.h"

struct quant_page {
    const struct rknnd_quant *q;
    rknnd_quant_about about; // NULLs are ""
    FILE *out;
    struct error *e;
};

/// Which layers to keep in float, and why.
int quant_page_advice(const struct quant_page *p);

/// The tables of layers and of tensors with their histograms.
int quant_page_layers(const struct quant_page *p);

/// Begins a row of a table: which node or tensor ("node", "tensor": `what`), its operator, and
/// "8 bits", "16 bits" or "float".
void quant_page_row(FILE *out, const char *what, const char *name, const char *op, uint32_t bits);

/// The tensor of that name; NULL: it is real numbers.
const rknnd_quant_tensor *quant_page_tensor(const struct quant_page *p, const char *name);

/// What was compared of the tensor of that name; NULL: nothing.
const rknnd_quant_layer *quant_page_layer(const struct quant_page *p, const char *name);
