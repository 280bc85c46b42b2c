// What the byte multiplication of AVX2 takes: images split into two, and sums of their bytes.
// conv_vnni.h has why. Tests: test_sim_conv_AVX2.
#include <stdlib.h>

#include "npu/sim/conv/conv_vnni.h"

#define HIGH_ZP (-64) // numbers are about as often below zero as above it

static bool split_is_input(const struct graph *g, int32_t tensor)
{
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if ((int64_t)g->inputs[i] == tensor)
            return true;
    return false;
}

bool conv_split_fits(const struct step *s, const struct conv *c)
{
    return dnn_has_avx2() && !dnn_int8_is_exact() && c->x_zp < HIGH_ZP &&
           !split_is_input(s->plan->graph, s->node->inputs[0]);
}

KERNEL(void, split_pair_sums, (const int8_t *w, size_t n, int32_t *ret_min, int32_t *ret_max),
       (w, n, ret_min, ret_max))
{
    int32_t min = 0, max = 0;
    for (size_t i = 0; i < n; i += 2) {
        int32_t sum = w[i] + w[i + 1];
        min = sum < min ? sum : min;
        max = sum > max ? sum : max;
    }
    *ret_min = min;
    *ret_max = max;
}

uint8_t conv_split_limit(const int8_t *w, size_t n)
{
    int32_t min, max, limit = UINT8_MAX;
    split_pair_sums(w, n, &min, &max);
    limit = max && INT16_MAX / max < limit ? INT16_MAX / max : limit;
    limit = min && INT16_MIN / min < limit ? INT16_MIN / min : limit;
    return (uint8_t)limit;
}

KERNEL(void, split_bytes, (uint8_t *restrict x, size_t n, uint8_t limit, uint8_t *restrict high),
       (x, n, limit, high))
{
    for (size_t i = 0; i < n; i++) {
        uint8_t low = x[i] < limit ? x[i] : limit;
        high[i] = (uint8_t)(x[i] - low);
        x[i] = low;
    }
}

void conv_split(uint8_t *x, size_t n, uint8_t limit, uint8_t *high)
{
    split_bytes(x, n, limit, high);
}
