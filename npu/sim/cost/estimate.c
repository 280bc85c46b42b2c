// Sizes, cycles and traffic of one layer.
//
//   convolution  pixels, rounded up to 16, * taps * ceil(in channels / 32) * ceil(outputs / lanes)
//   memory       (bytes read + 2 * bytes written) * MHz / (MB/s)
//   layer        the larger of the two: both work at the same time
//
// Checked against the tables in the vendor's manual by test_sim_estimate.
#include "npu/sim/cost/estimate.h"

#define CBUF_BANK      (32u * 1024)
#define INPUTS_AT_ONCE 32 // channels that a convolution takes in at once
#define PIXELS_AT_ONCE 16
#define LEAST_STEPS    4 // of an 8-bit convolution for one pixel
#define WEIGHT_BANKS   2 // that weights take; larger ones are read again for each tile

// Bytes of register commands for a tile of a convolution, for any other layer, and for a lookup
// table with its set-up: what the DDR cycles of 8.2.1 leave when the data are taken off.
#define CONV_COMMANDS   1088
#define PLAIN_COMMANDS  688
#define LOOKUP_COMMANDS 8948

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t estimate_align(uint64_t a, uint64_t to)
{
    return ceil_div(a, to) * to;
}

static uint64_t element_size(bool fp16)
{
    return fp16 ? 2 : 1;
}

static uint32_t estimate_block(const struct chip *chip, bool fp16)
{
    return fp16 ? chip->c2_fp16 : chip->c2_int8;
}

// Channels that come out of the multipliers at once.
static uint32_t estimate_lanes(const struct chip *chip, enum estimate_kind kind, bool fp16)
{
    if (kind == ESTIMATE_DEPTHWISE)
        return fp16 ? chip->depthwise_int8 / 2 : chip->depthwise_int8;
    return (fp16 ? chip->macs_fp16 : chip->macs_int8) / INPUTS_AT_ONCE;
}

// ---- in time ----

static bool is_conv(const struct estimate_layer *l)
{
    return l->kind == ESTIMATE_CONV || l->kind == ESTIMATE_DEPTHWISE;
}

static uint64_t conv_macs(const struct estimate_layer *l)
{
    uint64_t outputs = (uint64_t)l->batch * l->out_height * l->out_width * l->out_channels;
    return outputs * l->kernel[0] * l->kernel[1] * (l->in_channels / l->groups);
}

// All convolutions in 5.11.3, 8.2.1 and 8.2.2 come out exactly. No depthwise one is printed: that
// it takes a step for each tap is a guess.
static uint64_t conv_cycles(const struct chip *chip, const struct estimate_layer *l)
{
    uint64_t pixels =
        estimate_align((uint64_t)l->batch * l->out_height * l->out_width, PIXELS_AT_ONCE);
    uint64_t steps = (uint64_t)l->kernel[0] * l->kernel[1];
    if (l->kind == ESTIMATE_CONV)
        steps *= ceil_div(l->in_channels / l->groups, INPUTS_AT_ONCE);
    if (!l->fp16 && steps < LEAST_STEPS)
        steps = LEAST_STEPS;
    return pixels * steps * ceil_div(l->out_channels, estimate_lanes(chip, l->kind, l->fp16));
}

// Runs over the rows, so that input rows and weights fit into the convolution buffer.
static uint64_t estimate_tiles(const struct chip *chip, const struct estimate_layer *l)
{
    uint32_t c2 = estimate_block(chip, l->fp16);
    uint64_t unit = l->in_channels <= c2 ? c2 : INPUTS_AT_ONCE;
    uint64_t row = l->in_width * estimate_align(l->in_channels, unit) * element_size(l->fp16);
    uint64_t banks = ceil_div(l->weight_bytes, CBUF_BANK);
    uint64_t room =
        (chip->buffer_banks - (banks < WEIGHT_BANKS ? banks : WEIGHT_BANKS)) * CBUF_BANK;
    uint64_t in_rows = row ? room / row : 0;
    if (in_rows <= l->kernel[0])
        return l->out_height;
    return ceil_div(l->out_height, (in_rows - l->kernel[0]) / l->stride + 1);
}

static uint64_t conv_read(const struct chip *chip, const struct estimate_layer *l)
{
    uint64_t n = estimate_tiles(chip, l) * l->batch;
    bool weights_stay = l->weight_bytes <= WEIGHT_BANKS * CBUF_BANK;
    return l->in_bytes + n * (CONV_COMMANDS + l->bias_bytes) +
           (weights_stay ? 1 : n) * l->weight_bytes;
}

void estimate_layer(const struct chip *chip, const struct estimate_layer *l, struct estimate *ret)
{
    *ret = (struct estimate){0};
    if (l->kind == ESTIMATE_CPU || l->kind == ESTIMATE_INPUT)
        return;
    if (is_conv(l)) {
        ret->macs = conv_macs(l);
        ret->npu_cycles = conv_cycles(chip, l);
        ret->read_bytes = conv_read(chip, l);
    } else {
        ret->read_bytes = l->in_bytes + l->weight_bytes + PLAIN_COMMANDS;
    }
    if (l->lookup)
        ret->read_bytes += LOOKUP_COMMANDS;
    ret->write_bytes = l->out_bytes;
    // Writing takes twice the time of reading (8.2.1: Add against Concat).
    uint64_t moved = ret->read_bytes + 2 * ret->write_bytes;
    ret->ddr_cycles = moved * chip->mhz / chip->ddr_mb_per_s;
    ret->total_cycles = ret->npu_cycles > ret->ddr_cycles ? ret->npu_cycles : ret->ddr_cycles;
}

uint64_t estimate_mac_cycles(const struct chip *chip, bool fp16, uint64_t macs)
{
    return macs / (fp16 ? chip->macs_fp16 : chip->macs_int8);
}

double estimate_us(const struct chip *chip, uint64_t cycles)
{
    return (double)cycles / chip->mhz;
}
