// The chip model against the numbers that the vendor's manual prints (SDK guide, sections named at
// each test), from the shapes of the layers alone.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "npu/sim/cost/estimate.h"
#include "npu/sim/cost/sram_arena.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct chip *chip(const char *name)
{
    const struct chip *c = chip_find(name);
    assert_non_null(c);
    return c;
}

static void check_near(double value, double printed, double tolerance)
{
    if (fabs(value - printed) > tolerance)
        fail_msg("%.6g, the manual has %.6g", value, printed);
}

// ---- in memory ----

static uint64_t ceil_to(uint64_t a, uint64_t to)
{
    return (a + to - 1) / to * to;
}

// Channels that one result of the multipliers has.
static uint64_t channels_at_once(const struct chip *c, enum estimate_kind kind)
{
    return kind == ESTIMATE_DEPTHWISE ? c->depthwise_int8 : c->macs_int8 / 32;
}

// An 8-bit tensor in native form, NC1HWC2, as a layer of the kind writes it (5.7.3.4). C1 is what
// the padded size gives.
struct native {
    uint64_t c1, c2, size;
};

static struct native native_of(const struct chip *c, enum estimate_kind kind, uint64_t channels,
                               uint64_t pixels)
{
    uint64_t c2 = c->c2_int8, unit = c2;
    if (kind == ESTIMATE_INPUT && channels <= 4) // an image: as it comes
        return (struct native){1, channels, pixels * channels};
    if (kind == ESTIMATE_CONV || kind == ESTIMATE_DEPTHWISE)
        unit = channels_at_once(c, kind);
    uint64_t size = ceil_to(ceil_to(channels, unit), c2) * (pixels > 1 ? ceil_to(pixels, 4) : 1);
    return (struct native){size / (pixels * c2), c2, size};
}

// Bytes of an 8-bit convolution's weights.
static uint64_t weight_bytes(const struct chip *c, const struct estimate_layer *l)
{
    uint64_t taps = l->kernel[0] * l->kernel[1], inputs = l->in_channels / l->groups;
    if (l->kind == ESTIMATE_DEPTHWISE)
        return taps * ceil_to(l->out_channels, c->c2_int8);
    return taps * l->out_channels * ceil_to(inputs, inputs <= c->c2_int8 ? c->c2_int8 : 16);
}

// Of its bias table, whose records have 4 bytes with the biases alone, and 8 with multipliers and
// zero points for each channel.
static uint64_t bias_bytes(const struct chip *c, const struct estimate_layer *l, uint64_t record)
{
    return ceil_to(l->out_channels, channels_at_once(c, l->kind)) * record;
}

// ---- convolutions ----

struct conv {
    uint32_t in, out, height, width, kernel, stride; // height and width of the output
    uint64_t npu_cycles, ddr_cycles;                 // printed; 0: not compared
    bool lookup;
};

static struct estimate_layer layer_of(const struct chip *c, const struct conv *v)
{
    uint32_t in_height = v->height * v->stride, in_width = v->width * v->stride;
    struct estimate_layer l = {.kind = ESTIMATE_CONV,
                               .lookup = v->lookup,
                               .batch = 1,
                               .in_channels = v->in,
                               .in_width = in_width,
                               .out_channels = v->out,
                               .out_height = v->height,
                               .out_width = v->width,
                               .kernel = {v->kernel, v->kernel},
                               .stride = v->stride,
                               .groups = 1};
    enum estimate_kind before = v->in <= 4 ? ESTIMATE_INPUT : ESTIMATE_CONV;
    l.in_bytes = native_of(c, before, v->in, (uint64_t)in_height * in_width).size;
    l.out_bytes = native_of(c, ESTIMATE_CONV, v->out, (uint64_t)v->height * v->width).size;
    l.weight_bytes = weight_bytes(c, &l);
    l.bias_bytes = bias_bytes(c, &l, 8);
    return l;
}

static void check_conv(const struct chip *c, const struct conv *v, double ddr_tolerance)
{
    struct estimate_layer l = layer_of(c, v);
    struct estimate cost;
    estimate_layer(c, &l, &cost);
    assert_int_equal(cost.npu_cycles, v->npu_cycles);
    assert_int_equal(cost.total_cycles,
                     cost.npu_cycles > cost.ddr_cycles ? cost.npu_cycles : cost.ddr_cycles);
    if (v->ddr_cycles == 0)
        return;
    double off = fabs((double)cost.ddr_cycles / (double)v->ddr_cycles - 1);
    if (off > ddr_tolerance)
        fail_msg("%u to %u channels, %ux%u: %llu DDR cycles, the manual has %llu", v->in, v->out,
                 v->kernel, v->kernel, (unsigned long long)cost.ddr_cycles,
                 (unsigned long long)v->ddr_cycles);
}

// Figures 8-3 (8.2.1) and 8-4 (8.2.2): all thirteen convolutions. DDR cycles of the former come out
// to the cycle; the latter, of another network, have layers without lookup table, whose tasks are a
// few hundred bytes shorter than we think.
static void rk356x_convolutions(void **state)
{
    (void)state;
    static const struct conv first[] = {
        {32, 64, 120, 160, 3, 2, 691200, 665207, true},
        {64, 32, 120, 160, 1, 1, 153600, 332036, true},
        {64, 32, 120, 160, 1, 1, 153600, 332036, true},
        {32, 32, 120, 160, 1, 1, 153600, 248988, true},
        {32, 32, 120, 160, 3, 1, 345600, 250087, true},
        {64, 64, 120, 160, 1, 1, 307200, 497258, true},
        {64, 128, 60, 80, 3, 2, 691200, 401854, true},
        {128, 64, 60, 80, 1, 1, 76800, 167682, true},
    };
    static const struct conv second[] = {
        {128, 128, 60, 80, 3, 1, 1382400, 327096, false},
        {128, 128, 60, 80, 3, 1, 1382400, 327096, false},
        {128, 4, 60, 80, 1, 1, 19200, 103405, false},
        {128, 1, 60, 80, 1, 1, 19200, 103345, false},
    };
    // Of 8-bit pixels: the printed cycles are, to the cycle, those of 56 tiles, where 3 would do
    // for the buffer. One row does not tell the rule.
    static const struct conv pixels = {3, 32, 240, 320, 3, 2, 1382400, 794117, true};
    for (size_t i = 0; i < COUNT(first); i++)
        check_conv(chip("rk3568"), &first[i], 1e-5);
    for (size_t i = 0; i < COUNT(second); i++)
        check_conv(chip("rk3568"), &second[i], 0.002);
    check_conv(chip("rk3568"), &pixels, 0.02);
}

// Figures 5-17 and 5-18 (5.11.3), RK3576. Sparsity leaves the NPU cycles as they are; what it does
// to weights in memory is not modelled, so only cycles of the multipliers are compared.
static void rk3576_convolutions(void **state)
{
    (void)state;
    static const struct conv rows[] = {
        {3, 64, 112, 112, 7, 2, 1229312, 0, false}, {64, 64, 56, 56, 1, 1, 25088, 0, false},
        {64, 64, 56, 56, 3, 1, 112896, 0, false},   {64, 256, 56, 56, 1, 1, 100352, 0, false},
        {256, 64, 56, 56, 1, 1, 50176, 0, false},   {256, 128, 56, 56, 1, 1, 100352, 0, false},
        {128, 128, 28, 28, 3, 2, 112896, 0, false}, {128, 512, 28, 28, 1, 1, 50176, 0, false},
        {256, 512, 28, 28, 1, 2, 100352, 0, false}, {512, 128, 28, 28, 1, 1, 50176, 0, false},
        {128, 128, 28, 28, 3, 1, 112896, 0, false}, {512, 256, 28, 28, 1, 1, 100352, 0, false},
        {256, 256, 14, 14, 3, 2, 119808, 0, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_conv(chip("rk3576"), &rows[i], 0);
}

// Figure 8-6 (8.2.4), of an older toolkit: there the column NPU Cycles is that of busy multipliers,
// and MacUsage follows from it, the time and 900 MHz. Its DDR Cycles are bytes read and written
// alike, at 5914 MB/s.
static double older_ddr_cycles(const struct estimate *cost)
{
    return (double)(cost->read_bytes + cost->write_bytes) * 900 / 5914;
}

static void mac_usage(void **state)
{
    (void)state;
    static const struct {
        struct conv conv;
        uint64_t us;
        double usage;
    } rows[] = {
        {{3, 3, 300, 300, 1, 1, 1582, 0, false}, 585, 0.3},
        {{1, 8, 150, 150, 7, 2, 17226, 0, false}, 1556, 1.23},
        {{1, 8, 150, 150, 7, 2, 17226, 0, false}, 1505, 1.27},
        {{1, 8, 150, 150, 7, 2, 17226, 0, false}, 1573, 1.22},
        {{24, 64, 150, 150, 1, 1, 67500, 329723, false}, 684, 10.96},
        {{64, 64, 75, 75, 1, 1, 45000, 110676, false}, 281, 17.79},
        {{64, 192, 75, 75, 3, 1, 1215000, 253595, false}, 1456, 92.72},
        {{192, 32, 38, 38, 1, 1, 17328, 50564, false}, 192, 10.03},
        {{192, 64, 38, 38, 1, 1, 34656, 58609, false}, 193, 19.95},
        {{64, 96, 38, 38, 3, 1, 155952, 43855, false}, 304, 57},
        {{96, 96, 38, 38, 3, 1, 233928, 55095, false}, 399, 65.14},
        {{192, 64, 38, 38, 1, 1, 34656, 58609, false}, 144, 26.74},
    };
    const struct chip *c = chip("rk3566");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct estimate_layer l = layer_of(c, &rows[i].conv);
        struct estimate cost;
        estimate_layer(c, &l, &cost);
        uint64_t cycles = estimate_mac_cycles(c, false, cost.macs);
        assert_int_equal(cycles, rows[i].conv.npu_cycles);
        check_near(100 * estimate_us(c, cycles) / (double)rows[i].us, rows[i].usage, 0.0051);
        // The first four, of 8-bit pixels, are read in more and other pieces than we know.
        if (rows[i].conv.ddr_cycles)
            check_near(older_ddr_cycles(&cost) / (double)rows[i].conv.ddr_cycles, 1, 0.001);
    }
}

// The same figure: all that Clips read and write.
static void older_clips(void **state)
{
    (void)state;
    static const struct {
        uint64_t channels, side, ddr_cycles;
    } rows[] = {{64, 150, 438387}, {64, 75, 109676}, {192, 75, 328817},
                {32, 38, 14169},   {64, 38, 28233},  {96, 38, 42297}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t bytes = rows[i].channels * rows[i].side * rows[i].side;
        struct estimate_layer l = {.kind = ESTIMATE_VALUES, .in_bytes = bytes, .out_bytes = bytes};
        struct estimate cost;
        estimate_layer(chip("rk3566"), &l, &cost);
        check_near(older_ddr_cycles(&cost), (double)rows[i].ddr_cycles, 1);
    }
}

// ---- other layers ----

// Figure 8-3: Add, Concat. Figure 5-18: MaxPool, whose RW is 980 KB, at 297 MHz: the clock
// that the first row's time and MacUsage give.
static void plain_layers(void **state)
{
    (void)state;
    const uint64_t plane = 32 * 120 * 160;
    struct estimate_layer add = {
        .kind = ESTIMATE_VALUES, .in_bytes = 2 * plane, .out_bytes = plane};
    struct estimate_layer concat = {
        .kind = ESTIMATE_VALUES, .in_bytes = 2 * plane, .out_bytes = 2 * plane};
    struct estimate cost;
    estimate_layer(chip("rk3568"), &add, &cost);
    assert_int_equal(cost.npu_cycles, 0);
    check_near((double)cost.ddr_cycles / 329574, 1, 0.002);
    estimate_layer(chip("rk3568"), &concat, &cost);
    check_near((double)cost.ddr_cycles / 494407, 1, 0.002);

    // Figure 8-4: both Sigmoids, of what convolutions have written: 96 and 16 channels.
    static const struct {
        uint64_t channels, ddr_cycles;
    } sigmoids[] = {{96, 186625}, {16, 32181}};
    for (size_t i = 0; i < COUNT(sigmoids); i++) {
        uint64_t bytes = sigmoids[i].channels * 60 * 80;
        struct estimate_layer l = {
            .kind = ESTIMATE_VALUES, .lookup = true, .in_bytes = bytes, .out_bytes = bytes};
        estimate_layer(chip("rk3568"), &l, &cost);
        check_near((double)cost.ddr_cycles, (double)sigmoids[i].ddr_cycles, 1);
    }

    struct chip slow = *chip("rk3576");
    slow.mhz = 297;
    struct estimate_layer pool = {
        .kind = ESTIMATE_WHOLE, .in_bytes = 64 * 112 * 112, .out_bytes = 64 * 56 * 56};
    estimate_layer(&slow, &pool, &cost);
    assert_int_equal((cost.read_bytes + cost.write_bytes) / 1024, 980);
    check_near((double)cost.ddr_cycles / 47923, 1, 0.002);
    check_near(estimate_us(&slow, 1229312), 4139.1, 0.1);
}

static void cpu_costs_nothing(void **state)
{
    (void)state;
    struct estimate_layer l = {.kind = ESTIMATE_CPU, .in_bytes = 100, .out_bytes = 100};
    struct estimate cost;
    uint64_t shares[ESTIMATE_MAX_CORES];
    estimate_layer(chip("rk3588"), &l, &cost);
    assert_int_equal(cost.total_cycles, 0);
    assert_int_equal(cost.read_bytes + cost.write_bytes, 0);
    estimate_share(chip("rk3588"), &l, 2, false, shares);
    assert_int_equal(shares[0] + shares[1] + shares[2], 0);
}

// ---- SRAM: section 5.7.3.4, MobileNetV1 on RK3588 ----

#define ARENA     0xff3e0000 // where the printed table has it
#define SRAM_SIZE 524288

struct resident {
    enum estimate_kind kind; // of the layer that writes it
    uint32_t channels, height;
    uint32_t c1, c2; // printed
    uint64_t start, end, hit;
};

// What layers 1 … 30 of the table read. Layer 31 reads output57, 1000 floats that lie elsewhere.
static const struct resident residents[] = {
    {ESTIMATE_INPUT, 3, 224, 1, 3, 0xff3b0000, 0xff3d4c00, 0},
    {ESTIMATE_CONV, 32, 112, 2, 16, 0xff404c00, 0xff466c00, 0x5b400},
    {ESTIMATE_DEPTHWISE, 32, 112, 4, 16, 0xff466c00, 0xff52ac00, 0},
    {ESTIMATE_CONV, 64, 112, 4, 16, 0xff52ac00, 0xff5eec00, 0},
    {ESTIMATE_DEPTHWISE, 64, 56, 4, 16, 0xff3e0000, 0xff411000, 0x31000},
    {ESTIMATE_CONV, 128, 56, 8, 16, 0xff411000, 0xff473000, 0x4f000},
    {ESTIMATE_DEPTHWISE, 128, 56, 8, 16, 0xff473000, 0xff4d5000, 0},
    {ESTIMATE_CONV, 128, 56, 8, 16, 0xff3e0000, 0xff442000, 0x62000},
    {ESTIMATE_DEPTHWISE, 128, 28, 8, 16, 0xff442000, 0xff45a800, 0x18800},
    {ESTIMATE_CONV, 256, 28, 16, 16, 0xff3e0000, 0xff411000, 0x31000},
    {ESTIMATE_DEPTHWISE, 256, 28, 16, 16, 0xff411000, 0xff442000, 0x31000},
    {ESTIMATE_CONV, 256, 28, 16, 16, 0xff3e0000, 0xff411000, 0x31000},
    {ESTIMATE_DEPTHWISE, 256, 14, 16, 16, 0xff411000, 0xff41d400, 0xc400},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 14, 32, 16, 0xff3f8800, 0xff411000, 0x18800},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 14, 32, 16, 0xff3f8800, 0xff411000, 0x18800},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 14, 32, 16, 0xff3f8800, 0xff411000, 0x18800},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 14, 32, 16, 0xff3f8800, 0xff411000, 0x18800},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 14, 32, 16, 0xff3f8800, 0xff411000, 0x18800},
    {ESTIMATE_CONV, 512, 14, 32, 16, 0xff3e0000, 0xff3f8800, 0x18800},
    {ESTIMATE_DEPTHWISE, 512, 7, 33, 16, 0xff3f8800, 0xff3ff000, 0x6800},
    {ESTIMATE_CONV, 1024, 7, 67, 16, 0xff3e0000, 0xff3ed000, 0xd000},
    {ESTIMATE_DEPTHWISE, 1024, 7, 67, 16, 0xff3ed000, 0xff3fa000, 0xd000},
    {ESTIMATE_CONV, 1024, 7, 67, 16, 0xff3e0000, 0xff3ed000, 0xd000},
    {ESTIMATE_WHOLE, 1024, 1, 64, 16, 0xff3ed000, 0xff3ed400, 0x400},
    {ESTIMATE_CONV, 1000, 1, 64, 16, 0xff3e0000, 0xff3e0400, 0x400},
};

#define N_RESIDENTS COUNT(residents)

static void plan_mobilenet(struct sram_tensor tensors[N_RESIDENTS + 1])
{
    for (size_t i = 0; i < N_RESIDENTS; i++) {
        const struct resident *r = &residents[i];
        struct native native =
            native_of(chip("rk3588"), r->kind, r->channels, (uint64_t)r->height * r->height);
        assert_int_equal(native.c1, r->c1);
        assert_int_equal(native.c2, r->c2);
        tensors[i] = (struct sram_tensor){.size = native.size,
                                          .offset = SRAM_UNPLACED,
                                          .from = (int32_t)i - 1,
                                          .to = (int32_t)i,
                                          .uses = i ? 2 : 1,
                                          .outside = i == 0};
    }
    tensors[N_RESIDENTS] = (struct sram_tensor){.size = 1000 * sizeof(float),
                                                .offset = SRAM_UNPLACED,
                                                .from = (int32_t)N_RESIDENTS - 1,
                                                .to = (int32_t)N_RESIDENTS,
                                                .uses = 1,
                                                .outside = true};
    assert_int_equal(sram_plan(tensors, N_RESIDENTS + 1, NULL), 0);
}

static void sram_table(void **state)
{
    (void)state;
    struct sram_tensor tensors[N_RESIDENTS + 1];
    struct sram_use use;
    plan_mobilenet(tensors);
    assert_int_equal(tensors[0].size, residents[0].end - residents[0].start);
    for (size_t i = 1; i < N_RESIDENTS; i++) {
        assert_int_equal(ARENA + tensors[i].offset, residents[i].start);
        assert_int_equal(ARENA + tensors[i].offset + tensors[i].size, residents[i].end);
        assert_int_equal(sram_hit(&tensors[i], SRAM_SIZE), residents[i].hit);
    }
    sram_count(tensors, N_RESIDENTS + 1, SRAM_SIZE, &use);
    assert_int_equal(use.internal_size, 2157568);
    assert_int_equal(use.internal_bytes, 11068320);
    assert_int_equal(use.sram_bytes, 6688768);
}

// Total Weight Memory Size and Predict Weight Memory RW Amount. This model's biases are alone in
// their tables: per-layer quantization.
static void weight_sizes(void **state)
{
    (void)state;
    uint64_t space = 0, read = 0;
    for (size_t i = 1; i < N_RESIDENTS; i++) {
        const struct resident *in = &residents[i - 1], *out = &residents[i];
        uint32_t kernel = out->kind == ESTIMATE_DEPTHWISE || i == 1 ? 3 : 1;
        struct estimate_layer l = {
            .kind = out->kind,
            .in_channels = in->channels,
            .out_channels = out->channels,
            .kernel = {kernel, kernel},
            .groups = out->kind == ESTIMATE_DEPTHWISE ? in->channels : 1,
        };
        if (out->kind == ESTIMATE_WHOLE)
            continue; // the pool has no weights
        uint64_t weight = weight_bytes(chip("rk3588"), &l),
                 bias = bias_bytes(chip("rk3588"), &l, 4);
        read += weight + bias;
        space += estimate_constant_space(weight) + estimate_constant_space(bias);
    }
    assert_int_equal(space, 4260864);
    assert_int_equal(read, 4260832);
}

// A tensor that is read late keeps its place.
static void plan_of_a_branch(void **state)
{
    (void)state;
    struct sram_tensor t[] = {
        {100, SRAM_UNPLACED, 0, 3, 2, false},
        {64, SRAM_UNPLACED, 1, 2, 2, false},
        {128, SRAM_UNPLACED, 2, 3, 2, false},
        {64, SRAM_UNPLACED, 3, 4, 2, false}, // where the second one was
        {300, 1000, 4, 5, 2, false},
    };
    assert_int_equal(sram_plan(t, COUNT(t), NULL), 0);
    assert_int_equal(t[0].offset, 0);
    assert_int_equal(t[1].offset, 128);
    assert_int_equal(t[2].offset, 192);
    assert_int_equal(t[3].offset, 128);
    assert_int_equal(t[4].offset, 1000);
    struct sram_use use;
    sram_count(t, COUNT(t), 1100, &use);
    assert_int_equal(use.internal_size, 1300);
    assert_int_equal(use.sram_bytes, 2 * (100 + 64 + 128 + 64 + 100));
}

// ---- cores: section 5.3.2, LeNet on RK3588 with cores 0 and 1 ----

static const struct {
    enum estimate_kind kind;
    uint32_t channels, height;
    double loads[2], improvement; // printed
} lenet[] = {
    {ESTIMATE_CONV, 20, 24, {50, 50}, 50},
    {ESTIMATE_WHOLE, 20, 12, {100, 0}, 0},
    {ESTIMATE_CONV, 50, 8, {50, 50}, 50},
    {ESTIMATE_WHOLE, 50, 4, {100, 0}, 0},
    {ESTIMATE_CONV, 500, 1, {48.1, 51.9}, 48.1},
    {ESTIMATE_CONV, 10, 1, {100, 0}, 0},
    {ESTIMATE_CPU, 10, 1, {0, 0}, 0},
};

static struct estimate_layer lenet_layer(size_t i)
{
    return (struct estimate_layer){.kind = lenet[i].kind,
                                   .batch = 1,
                                   .out_channels = lenet[i].channels,
                                   .out_height = lenet[i].height,
                                   .out_width = lenet[i].height};
}

static void work_loads(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lenet); i++) {
        struct estimate_layer l = lenet_layer(i),
                              next = lenet_layer(i + 1 < COUNT(lenet) ? i + 1 : i);
        uint64_t shares[ESTIMATE_MAX_CORES];
        estimate_share(chip("rk3588"), &l, 2, estimate_is_shared(chip("rk3588"), &next, 2), shares);
        double sum = (double)(shares[0] + shares[1]), most = 0;
        for (size_t core = 0; core < 2; core++) {
            double load = sum > 0 ? 100 * (double)shares[core] / sum : 0;
            check_near(load, lenet[i].loads[core], 0.05);
            most = load > most ? load : most;
        }
        check_near(sum > 0 ? 100 - most : 0, lenet[i].improvement, 0.05);
        assert_int_equal(shares[2], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rk356x_convolutions), cmocka_unit_test(rk3576_convolutions),
        cmocka_unit_test(mac_usage),           cmocka_unit_test(older_clips),
        cmocka_unit_test(plain_layers),        cmocka_unit_test(cpu_costs_nothing),
        cmocka_unit_test(sram_table),          cmocka_unit_test(weight_sizes),
        cmocka_unit_test(plan_of_a_branch),    cmocka_unit_test(work_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
