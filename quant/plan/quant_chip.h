// What the NPUs of chips compute with, by the manuals of RKNN-Toolkit2 (config(), quantized_dtype
// and target_platform). All of them take weights with a scale for each output or for all, and
// tensors with zero points; symmetric ones are a case of these.
#pragma once

#include "base/error.h"
#include "quant/plan/quant_plan.h"

struct quant_chip {
    const char *name;
    bool int8, int16; // layers of these are computed there
};

/// By its name, in any case. Refuses names that are none, and says which there are.
int quant_chip_find(const char *name, const struct quant_chip **ret, struct error *e);

/// Refuses layers of a type that the chip (NULL: any) does not compute.
int quant_chip_check(const struct quant_chip *chip, uint8_t bits, const char *what,
                     struct error *e);
int quant_chip_check_choices(const struct quant_chip *chip, const struct quant_choice *choices,
                             size_t n, struct error *e);
