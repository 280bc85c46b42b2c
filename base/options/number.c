// Reads numbers from options. strtoull() alone would accept spaces, signs and overflow, and
// strtod() exponents, nan and, in some locales, a comma.
#include "base/options/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int number_refuse(const char *text, uint64_t min, uint64_t max, const char *like,
                         struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not a number from %llu to %llu%s", text,
                     (unsigned long long)min, (unsigned long long)max, like);
}

// The digits that the text begins with; *ret_end is what follows them. False: there are none, or
// too many.
static bool read_digits(const char *text, uint64_t *ret, const char **ret_end)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    *ret_end = end;
    return errno == 0;
}

int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct error *e)
{
    const char *end;
    uint64_t n;
    if (!read_digits(text, &n, &end) || *end || n < min || n > max)
        return number_refuse(text, min, max, "", e);
    *ret = n;
    return 0;
}

int number_parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct error *e)
{
    static const char units[] = "KMG";
    const char *end, *unit;
    uint64_t n;
    bool good = read_digits(text, &n, &end);
    if (good && *end && (unit = strchr(units, *end))) {
        good = !__builtin_mul_overflow(n, UINT64_C(1) << (10 * (unit - units + 1)), &n);
        end++;
    }
    if (!good || *end || n < min || n > max)
        return number_refuse(text, min, max, " (with K, M or G behind it, or nothing)", e);
    *ret = n;
    return 0;
}

int number_parse_real(const char *text, uint64_t min, uint64_t max, double *ret, struct error *e)
{
    double value = 0, place = 1;
    bool digits = false;
    const char *p = text;
    for (; isdigit((unsigned char)*p); p++, digits = true)
        value = value * 10 + (*p - '0');
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p); p++, digits = true)
            value += (*p - '0') * (place /= 10);
    if (!digits || *p || value < (double)min || value > (double)max)
        return number_refuse(text, min, max, " (like 1.5)", e);
    *ret = value;
    return 0;
}
