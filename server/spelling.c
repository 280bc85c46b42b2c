// Names that are nearly right, for "did you mean".
#include "server/spelling.h"

#include <string.h>

#define MAX_NAME 64

static unsigned spelling_least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

// Damerau-Levenshtein distance (optimal string alignment): rows[i][j] is the number of edits that
// turn the first i letters of `a` into the first j of `b`. An edit inserts, deletes or replaces a
// letter, or swaps two neighbours.
//
//   rows[i][j] = min(rows[i-1][j] + 1, rows[i][j-1] + 1, rows[i-1][j-1] + (a[i] != b[j]),
//                    rows[i-2][j-2] + 1 if the last two letters are swapped)
static unsigned spelling_distance(const char *a, size_t na, const char *b, size_t nb)
{
    unsigned rows[MAX_NAME + 1][MAX_NAME + 1];
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = (unsigned)(i + j);
                continue;
            }
            rows[i][j] = spelling_least(spelling_least(rows[i - 1][j], rows[i][j - 1]) + 1,
                                        rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                rows[i][j] = spelling_least(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    return rows[na][nb];
}

// One edit for every four letters: 1 for names of 2 to 5 letters, 2 up to 9, and so on.
bool spelling_is_near(const char *name, const char *known)
{
    size_t n = strnlen(name, MAX_NAME), m = strnlen(known, MAX_NAME);
    return spelling_distance(name, n, known, m) <= (n + 2) / 4;
}
