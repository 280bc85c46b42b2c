// Differences are taken only where they cannot be negative: a server may say anything.
#include "client/debug/numbered.h"

int numbered_check(const struct numbered *part, uint64_t next, const char *what, struct error *e)
{
    if (part->first >= next && part->end >= part->first && part->end - part->first >= part->n &&
        (part->n > 0 || part->end == part->first))
        return 0;
    return error_set(e, STATUS_FAIL, "the server reports %s %llu to %llu, %u of them", what,
                     (unsigned long long)part->first, (unsigned long long)part->end, part->n);
}
