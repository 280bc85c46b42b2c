// Reads sizes and counts from options: decimal digits, and K, M or G for powers of 1024.
#include "server/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// strtoull() alone would accept spaces, signs and overflow, hence the checks around it.
bool size_parse(const char *text, bool suffix, uint64_t min, uint64_t max, uint64_t *ret)
{
    static const char suffixes[] = "KMG";
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return false;
    const char *unit = suffix && *end ? strchr(suffixes, *end) : NULL;
    if (unit) {
        if (__builtin_mul_overflow(n, 1ull << (10 * (unit - suffixes + 1)), &n))
            return false;
        end++;
    }
    *ret = n;
    return !*end && n >= min && n <= max;
}
