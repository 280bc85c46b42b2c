// Values of options, from text. Each refuses with the option's name and what is allowed, and leaves
// *ret untouched then.
#include "tools/ui/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CORES 16

// Decimal digits only: strtoull() alone would accept a sign and leading spaces.
int parse_number(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *ret,
                 struct failure *f)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || n < min || n > max)
        return failure_set(f, EXIT_USAGE, "%s: \"%s\" is not a number from %u to %u", what, text,
                           min, max);
    *ret = (uint32_t)n;
    return 0;
}

// Digits and a point, whatever the locale: strtod() may want a comma. No exponent, no inf or nan.
static bool parse_fraction(const char *text, double *ret)
{
    double value = 0, place = 1;
    bool digits = false;
    for (; isdigit((unsigned char)*text); text++, digits = true)
        value = value * 10 + (*text - '0');
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++, digits = true)
            value += (*text - '0') * (place /= 10);
    *ret = value;
    return digits && !*text;
}

// Bounds are whole numbers; units are the caller's.
int parse_real(const char *what, const char *text, uint32_t min, uint32_t max, double *ret,
               struct failure *f)
{
    double value;
    if (!parse_fraction(text, &value) || value < min || value > max)
        return failure_set(f, EXIT_USAGE, "%s: \"%s\" is not a number from %u to %u (like 1.5)",
                           what, text, min, max);
    *ret = value;
    return 0;
}

// "0x3": a mask of cores, at most RKNN_NPU_CORE_ALL.
static bool parse_hex_mask(const char *text, uint32_t *ret)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0 || !isxdigit((unsigned char)text[2]))
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 16);
    if (*end || errno || n == 0 || n > RKNN_NPU_CORE_ALL)
        return false;
    *ret = (uint32_t)n;
    return true;
}

// "0,1" or "0_1", as the API's names have it.
static bool parse_core_list(const char *text, uint32_t *ret)
{
    uint32_t mask = 0;
    for (const char *p = text;; p++) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return false;
        unsigned long core = strtoul(p, &end, 10);
        if (core >= MAX_CORES)
            return false;
        mask |= 1u << core;
        if (!*end)
            break;
        if (*end != ',' && *end != '_')
            return false;
        p = end;
    }
    *ret = mask;
    return true;
}

// Names first, then masks, then lists: "0" is core 0, "0x1" a mask.
int parse_core_mask(const char *text, uint32_t *ret, struct failure *f)
{
    if (strcmp(text, "auto") == 0)
        *ret = RKNN_NPU_CORE_AUTO;
    else if (strcmp(text, "all") == 0)
        *ret = RKNN_NPU_CORE_ALL;
    else if (!parse_hex_mask(text, ret) && !parse_core_list(text, ret))
        return failure_set(f, EXIT_USAGE,
                           "--core-mask: \"%s\" is not auto, all, core numbers (0 or 0,1 or 0_1_2) "
                           "or a mask (0x3)",
                           text);
    return 0;
}
