#include "quant/plan/quant_chip.h"

#include <stdio.h>
#include <strings.h>

// The manuals leave int16 to two chips, and int8 to all but one. RV1126B, which they do not have
// yet, is known by its files, which are int8.
static const struct quant_chip chips[] = {
    {"rv1103", true, true},   {"rv1103b", true, false}, {"rv1106", true, true},
    {"rv1106b", true, false}, {"rv1126b", true, false}, {"rk2118", false, false},
    {"rk3562", true, false},  {"rk3566", true, false},  {"rk3568", true, false},
    {"rk3576", true, false},  {"rk3588", true, false},  {"rk3588s", true, false},
};
#define N_CHIPS (sizeof chips / sizeof *chips)

int quant_chip_find(const char *name, const struct quant_chip **ret, struct error *e)
{
    char names[16 * N_CHIPS];
    size_t at = 0;
    for (size_t i = 0; i < N_CHIPS; i++) {
        if (strcasecmp(name, chips[i].name) == 0) {
            *ret = &chips[i];
            return 0;
        }
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", chips[i].name);
    }
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is no chip that is known; there are %s", name,
                     names);
}

int quant_chip_check(const struct quant_chip *chip, uint8_t bits, const char *what, struct error *e)
{
    if (!chip || !bits || (bits == 8 ? chip->int8 : chip->int16))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID, "%s: %s has no int%d layers%s", what, chip->name,
                     bits, bits == 16 ? " (rv1103 and rv1106 have)" : "");
}

int quant_chip_check_choices(const struct quant_chip *chip, const struct quant_choice *choices,
                             size_t n, struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++)
        r = quant_chip_check(chip, choices[i].bits, choices[i].name, e);
    return r;
}
