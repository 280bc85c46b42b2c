// Chains in integers, byte by byte. Tests: test_npuref and test_emulator, against files' own
// programs.
#include "npu/sim/simd/chain.h"

#include <stdlib.h>

#include "npu/sim/simd/lut.h"

static int64_t chain_within(int64_t v, const int32_t bounds[2])
{
    return v < bounds[0] ? bounds[0] : v > bounds[1] ? bounds[1] : v;
}

// v / 2^shift to nearest, ties to even, saturated.
static int64_t chain_shifted(int64_t v, uint32_t shift)
{
    static const int32_t any[2] = {INT32_MIN, INT32_MAX};
    int64_t half = shift ? INT64_C(1) << (shift - 1) : 0, whole = v >> shift;
    int64_t rest = v - (int64_t)((uint64_t)whole << shift);
    whole += shift && (rest > half || (rest == half && (whole & 1)));
    return chain_within(whole, any);
}

static int8_t chain_stored(const struct graph_chain *c, int8_t x)
{
    static const int32_t bytes[2] = {INT8_MIN, INT8_MAX};
    int64_t v = (int64_t)x + c->bs_add;
    const struct graph_scaling *bs = &c->bs[v < 0];
    v = chain_within(chain_shifted(v * bs->factor, bs->shift), c->bounds[0]);
    v = v * c->bn[v < 0].factor + c->bn_add;
    v = chain_within(chain_shifted(v, c->bn[v < 0].shift), c->bounds[1]);
    if (c->lut)
        return lut_stored(c->lut, (int32_t)v);
    int64_t zp = (int64_t)((uint64_t)(int64_t)c->zp << c->out.shift);
    return (int8_t)chain_within(chain_shifted(v * c->out.factor + zp, c->out.shift), bytes);
}

void chain_table(const struct graph_chain *chain, int8_t table[256])
{
    for (int i = 0; i < 256; i++)
        table[i] = chain_stored(chain, (int8_t)i);
}

int chain_differs(const int8_t a[256], const int8_t b[256])
{
    int most = 0;
    for (int i = 0; i < 256; i++)
        most = abs(a[i] - b[i]) > most ? abs(a[i] - b[i]) : most;
    return most;
}
