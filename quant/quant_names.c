// Names and levels of the manuals, as what the options have.
#include <string.h>

#include "quant/quant.h"

// Those of RKNN-Toolkit2 2.x, of its versions before, and of the RKNN-Toolkit for chips of before.
static const struct dtype_name {
    const char *name;
    int dtype;       // rknnd_quant_dtype; -1: refused
    const char *why; // it is refused
} names[] = {
    {"w8a8", RKNND_QUANT_W8A8, NULL},
    {"asymmetric_quantized-8", RKNND_QUANT_W8A8, NULL},
    {"w16a16i", RKNND_QUANT_W16A16I, NULL},
    {"asymmetric_quantized-16", RKNND_QUANT_W16A16I, NULL},
    {"w16a16i_dfp", RKNND_QUANT_W16A16I_DFP, NULL},
    {"dynamic_fixed_point-16", RKNND_QUANT_W16A16I_DFP, NULL},
    {"dynamic_fixed_point-i16", RKNND_QUANT_W16A16I_DFP, NULL},
    {"w8a16", -1, "it keeps tensors in float16 and stores weights alone in 8 bits"},
    {"w4a16", -1, "it keeps tensors in float16 and stores weights alone in 4 bits"},
    {"w4a8", -1, "no chip computes with it"},
    {"asymmetric_quantized-u8", -1, "it is of chips before RK3566; w8a8 is what later ones have"},
    {"asymmetric_affine-u8", -1, "it is of chips before RK3566; w8a8 is what later ones have"},
    {"dynamic_fixed_point-8", -1, "it is of chips before RK3566; w8a8 is what later ones have"},
    {"dynamic_fixed_point-i8", -1, "it is of chips before RK3566; w8a8 is what later ones have"},
};

static int names_find_dtype(const char *name, rknnd_quant_dtype *ret, struct error *e)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) != 0)
            continue;
        if (names[i].dtype < 0)
            return error_set(e, STATUS_PARAM_INVALID, "%s is not made: %s", name, names[i].why);
        *ret = (rknnd_quant_dtype)names[i].dtype;
        return 0;
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" is no type of quantization; there are w8a8 (asymmetric_quantized-8), "
                     "w16a16i (asymmetric_quantized-16) and w16a16i_dfp (dynamic_fixed_point-16)",
                     name);
}

QUANT_EXPORT int rknnd_quant_find_dtype(const char *name, rknnd_quant_dtype *dtype)
{
    struct error e = {0};
    return quant_keep(name && dtype ? names_find_dtype(name, dtype, &e)
                                    : error_set(&e, STATUS_PARAM_INVALID, "no name, or nowhere"),
                      &e);
}

// First goes what changes weights by what is usual in them, then what changes biases by samples.
QUANT_EXPORT int rknnd_quant_find_level(uint32_t level, uint32_t *without)
{
    static const uint32_t left_out[] = {RKNND_QUANT_BATCH_NORM | RKNND_QUANT_ACTIVATIONS |
                                            RKNND_QUANT_EQUALIZATION | RKNND_QUANT_BIAS_CORRECTION,
                                        RKNND_QUANT_EQUALIZATION | RKNND_QUANT_BIAS_CORRECTION,
                                        RKNND_QUANT_EQUALIZATION, 0};
    struct error e = {0};
    if (level >= sizeof left_out / sizeof *left_out || !without)
        return quant_keep(
            error_set(&e, STATUS_PARAM_INVALID, "an optimization level of %u: 0 to 3", level), &e);
    *without = left_out[level];
    return 0;
}
