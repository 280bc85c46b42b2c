// How cores share a layer. The rules are those by which the shares in files come about, and the
// work-loads of SDK guide 5.3.2.
#include "npu/sim/estimate.h"

static uint64_t align(uint64_t a, uint64_t to)
{
    return (a + to - 1) / to * to;
}

// Channels of a block that only one core can do.
static uint32_t unit(const struct chip *chip, const struct estimate_layer *l)
{
    switch (l->kind) {
    case ESTIMATE_CONV:
        return (l->half ? chip->macs_half : chip->macs_int8) / 32;
    case ESTIMATE_DEPTHWISE:
        return l->half ? chip->depthwise_int8 / 2 : chip->depthwise_int8;
    default:
        return l->half ? chip->c2_half : chip->c2_int8;
    }
}

// Rows go round evenly, the first cores take the rest. Plain values need a row for each core.
static bool by_rows(const struct estimate_layer *l, uint32_t n_cores)
{
    return l->kind == ESTIMATE_VALUES ? l->out_height >= n_cores : l->out_height > 1;
}

static bool by_channels(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores)
{
    return l->kind != ESTIMATE_DEPTHWISE && l->out_channels / unit(chip, l) >= n_cores;
}

bool estimate_is_shared(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores)
{
    bool can = l->kind == ESTIMATE_CONV || l->kind == ESTIMATE_DEPTHWISE ||
               (l->kind == ESTIMATE_VALUES && chip->shares_values);
    return can && n_cores > 1 && n_cores <= chip->n_cores &&
           (by_rows(l, n_cores) || by_channels(chip, l, n_cores));
}

static uint64_t even_share(uint64_t n, uint32_t n_cores, uint32_t core)
{
    return n / n_cores + (core < n % n_cores);
}

// Blocks of channels. In 8-bit convolutions the last core takes what does not divide evenly, in all
// else the first ones do.
static uint64_t channel_share(const struct chip *chip, const struct estimate_layer *l,
                              uint32_t n_cores, uint32_t core)
{
    uint64_t u = unit(chip, l), blocks = align(l->out_channels, u) / u;
    if (l->kind != ESTIMATE_CONV || l->half)
        return even_share(blocks, n_cores, core) * u;
    uint64_t each = l->out_channels / n_cores / u;
    return (core + 1 < n_cores ? each : blocks - each * (n_cores - 1)) * u;
}

void estimate_share(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores,
                    bool next_is_shared, uint64_t ret[ESTIMATE_MAX_CORES])
{
    uint64_t channels = align(l->out_channels, unit(chip, l)),
             row = (uint64_t)l->out_width * l->batch;
    for (uint32_t i = 0; i < ESTIMATE_MAX_CORES; i++)
        ret[i] = 0;
    if (l->kind == ESTIMATE_CPU || l->kind == ESTIMATE_INPUT)
        return;
    if (!estimate_is_shared(chip, l, n_cores)) {
        ret[0] = l->out_height * row * channels;
        return;
    }
    bool rows = by_rows(l, n_cores);
    uint64_t closing = l->kind == ESTIMATE_VALUES || !next_is_shared ? chip->share_work : 0;
    for (uint32_t i = 0; i < n_cores; i++) {
        uint64_t share = rows ? even_share(l->out_height, n_cores, i) * row * channels
                              : channel_share(chip, l, n_cores, i) * row * l->out_height;
        ret[i] = share ? share + closing : 0;
    }
}
