// Names that somebody may have meant: those with the smallest edit distance to what was typed, if
// that is at most about a third of its length. Case does not count.
#include "base/options/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 100 // of a longer one only the beginning is compared

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned least_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

// Damerau's distance (optimal string alignment): insertions, deletions, changes and swaps of
// neighbours. Needs the last three rows of the matrix only:
//
//   now[j] = min(last[j] + 1, now[j-1] + 1, last[j-1] + (a != b), before[j-2] + 1 if swapped)
static unsigned edit_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, MAX_NAME), nb = strnlen(b, MAX_NAME);
    unsigned rows[3][MAX_NAME + 1];
    unsigned *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least_of(least_of(last[j], now[j - 1]) + 1,
                              last[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                now[j] = least_of(now[j], before[j - 2] + 1);
        }
        unsigned *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[nb];
}

void nearest_init(struct nearest *n, const char *name)
{
    *n = (struct nearest){.name = name};
}

static bool is_known(const struct nearest *n, const char *name)
{
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->names[i], name) == 0)
            return true;
    return false;
}

// A name that begins with the whole text counts as distance 1: it was typed in part. Only names as
// near as the nearest are kept; the pointers must outlive `n`.
void nearest_add(struct nearest *n, const char *known)
{
    size_t length = strnlen(n->name, MAX_NAME);
    bool begins = length >= 3 && strncmp(known, n->name, length) == 0;
    unsigned d = begins ? 1 : edit_distance(n->name, known);
    if (d > (length + 2) / 3 || (n->n > 0 && d > n->distance) || is_known(n, known))
        return;
    if (d < n->distance)
        n->n = 0;
    n->distance = d;
    if (n->n < NEAREST_NAMES)
        n->names[n->n++] = known;
}

// "; did you mean a, b or c?", or "" without names. `ret` has NEAREST_TEXT bytes.
const char *nearest_question(const struct nearest *n, const char *prefix, char *ret)
{
    size_t used = 0;
    *ret = 0;
    for (size_t i = 0; i < n->n && used < NEAREST_TEXT; i++)
        used += (size_t)snprintf(ret + used, NEAREST_TEXT - used, "%s%s%s",
                                 i == 0         ? "; did you mean "
                                 : i + 1 < n->n ? ", "
                                                : " or ",
                                 prefix, n->names[i]);
    if (n->n && used < NEAREST_TEXT)
        snprintf(ret + used, NEAREST_TEXT - used, "?");
    return ret;
}
