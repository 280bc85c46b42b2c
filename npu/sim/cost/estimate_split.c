// How cores share a layer: by lines of the image, by blocks of channels, or not at all. The rules
// are those that give the shares which the vendor's compiler writes into files, and the work-loads
// of SDK guide 5.3.2. Tested by test_sim_usage.
#include "npu/sim/cost/estimate.h"

#include "base/bytes.h"

// Channels of the smallest block that one core computes; a block is not divided further.
static uint32_t split_unit(const struct chip *chip, const struct estimate_layer *l)
{
    switch (l->kind) {
    case ESTIMATE_CONV:
        return (l->fp16 ? chip->macs_fp16 : chip->macs_int8) / 32;
    case ESTIMATE_DEPTHWISE:
        return l->fp16 ? chip->depthwise_int8 / 2 : chip->depthwise_int8;
    default:
        return l->fp16 ? chip->c2_fp16 : chip->c2_int8;
    }
}

// What is divided: rows where there are enough, else blocks of channels, else (of plain values) the
// one row. Depthwise convolutions are only ever divided by rows, what loads a table not at all.
enum way { WHOLE, BY_ROWS, BY_CHANNELS, BY_WIDTH };

static enum way find_way(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores)
{
    bool values = l->kind == ESTIMATE_VALUES, conv = l->kind == ESTIMATE_CONV;
    if (n_cores < 2 || n_cores > chip->n_cores || (values && !chip->shares_values))
        return WHOLE;
    if (l->lookup || (!values && !conv && l->kind != ESTIMATE_DEPTHWISE))
        return WHOLE;
    if (l->out_height >= (values ? n_cores : 2))
        return BY_ROWS;
    if ((values || conv) && l->out_channels / split_unit(chip, l) >= n_cores)
        return BY_CHANNELS;
    return values && l->out_width >= n_cores ? BY_WIDTH : WHOLE;
}

bool estimate_is_shared(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores)
{
    return find_way(chip, l, n_cores) != WHOLE;
}

static uint64_t even_share(uint64_t n, uint32_t n_cores, uint32_t core)
{
    return n / n_cores + (core < n % n_cores);
}

// Channels of one core, in whole blocks. In 8-bit convolutions the last core takes what does not
// divide evenly, otherwise the first cores take one block more.
static uint64_t channel_share(const struct chip *chip, const struct estimate_layer *l,
                              uint32_t n_cores, uint32_t core)
{
    uint64_t u = split_unit(chip, l), blocks = align_up(l->out_channels, u) / u;
    if (l->kind != ESTIMATE_CONV || l->fp16)
        return even_share(blocks, n_cores, core) * u;
    uint64_t each = l->out_channels / n_cores / u;
    return (core + 1 < n_cores ? each : blocks - each * (n_cores - 1)) * u;
}

// Output elements of one core.
static uint64_t split_share(const struct chip *chip, const struct estimate_layer *l, enum way way,
                            uint32_t n_cores, uint32_t core)
{
    uint64_t channels = align_up(l->out_channels, split_unit(chip, l)), rows = l->out_height;
    uint64_t width = l->out_width;
    if (way == BY_ROWS)
        rows = even_share(rows, n_cores, core);
    if (way == BY_CHANNELS)
        channels = channel_share(chip, l, n_cores, core);
    if (way == BY_WIDTH)
        width = even_share(width, n_cores, core);
    return l->batch * rows * width * channels;
}

// Output elements per core. The last of several divided layers, and every divided elementwise
// layer, has share_work on top for each core that works.
void estimate_share(const struct chip *chip, const struct estimate_layer *l, uint32_t n_cores,
                    bool next_is_shared, uint64_t ret[ESTIMATE_MAX_CORES])
{
    enum way way = find_way(chip, l, n_cores);
    uint32_t n = way == WHOLE ? 1 : n_cores;
    bool closes = way != WHOLE && (l->kind == ESTIMATE_VALUES || !next_is_shared);
    if (l->kind == ESTIMATE_CPU || l->kind == ESTIMATE_INPUT)
        n = 0;
    for (uint32_t i = 0; i < ESTIMATE_MAX_CORES; i++)
        ret[i] = i < n ? split_share(chip, l, way, n, i) : 0;
    for (uint32_t i = 0; i < n && closes; i++)
        ret[i] += ret[i] ? chip->share_work : 0;
}
