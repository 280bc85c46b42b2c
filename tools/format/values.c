// An output's largest elements and its range. NaNs are counted and left out of both.
#include "tools/format/values.h"

#include <math.h>

// Insertion into a sorted list of n_top: O(n) for the usual case, in which nearly all values are
// smaller than the list's last. Equal values keep the lower index first.
size_t values_top(const float *values, uint64_t n, struct value *top, size_t n_top)
{
    size_t found = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (isnan(values[i]) || n_top == 0 || (found == n_top && values[i] <= top[n_top - 1].value))
            continue;
        size_t at = found < n_top ? found++ : n_top - 1;
        for (; at > 0 && top[at - 1].value < values[i]; at--)
            top[at] = top[at - 1];
        top[at] = (struct value){i, values[i]};
    }
    return found;
}

// The sum is a double: a float would lose the small addends of a large tensor.
struct value_range values_range(const float *values, uint64_t n)
{
    struct value_range r = {.min = INFINITY, .max = -INFINITY};
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (isnan(values[i])) {
            r.n_nan++;
            continue;
        }
        r.min = fminf(r.min, values[i]);
        r.max = fmaxf(r.max, values[i]);
        sum += (double)values[i];
    }
    if (r.n_nan == n)
        return (struct value_range){.n_nan = n};
    r.mean = sum / (double)(n - r.n_nan);
    return r;
}
