// Tests of base/convert: every number is held against exact integer arithmetic.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tensor/convert.h"
#include "tests/support/seed.h"

// ---- halves

// The value of a half, by its definition (IEEE 754-2008, 3.4).
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 0    ? ldexp(fraction, -24)
                       : exponent == 31 ? (fraction ? NAN : INFINITY)
                                        : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void every_half_survives(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = convert_fp16_to_float((uint16_t)h);
        double value = half_value((uint16_t)h);
        if (isnan(value)) {
            assert_true(isnan(f));
            assert_true(isnan(half_value(convert_float_to_fp16(f))));
        } else {
            assert_cmp((double)f, ==, value);
            assert_int_equal(!signbit(f), !signbit(value));
            assert_int_equal(convert_float_to_fp16(f), h);
        }
    }
}

static void floats_go_to_the_nearest_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double above = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
        float middle = (float)((half_value((uint16_t)h) + above) / 2);
        assert_int_equal(convert_float_to_fp16(middle), h + (h & 1));
        assert_int_equal(convert_float_to_fp16(nextafterf(middle, 0)), h);
        assert_int_equal(convert_float_to_fp16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(convert_float_to_fp16(-middle), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(convert_float_to_fp16(3e38f), 0x7c00);
    assert_int_equal(convert_float_to_fp16(1e-40f), 0);
}

// ---- inputs

#define FORM(type_, layout_) ((struct convert_form){.type = (type_), .layout = (layout_)})
#define MAX_ELEMENTS         (2 * 30 * 40 * 4)

static void set_dims(struct tensor_attr *a, uint32_t n, uint32_t h, uint32_t w, uint32_t c)
{
    size_t bytes;
    a->n_dims = 4;
    a->layout = TENSOR_NHWC;
    memcpy(a->dims, (uint32_t[]){n, h, w, c}, 4 * sizeof *a->dims);
    a->n_elems = n * h * w * c;
    assert_true(tensor_bytes(a->type, a->n_elems, &bytes));
    a->size = (uint32_t)bytes;
}

// round((x - mean) / (std * scale) + zp), halves to even, where x, mean and std are given in
// eighths and scale is mantissa * 2^-shift: all in integers.
static int64_t exactly(int64_t x, int64_t mean, int64_t std, int64_t mantissa, int shift,
                       int64_t zp, int64_t low, int64_t high)
{
    int64_t p = (x - mean) * ((int64_t)1 << shift), q = std * mantissa;
    int64_t magnitude = p < 0 ? -p : p, rounded = (2 * magnitude + q) / (2 * q);
    if ((2 * magnitude + q) % (2 * q) == 0 && (rounded + zp) % 2 != 0)
        rounded--;
    int64_t stored = (p < 0 ? -rounded : rounded) + zp;
    return stored < low ? low : stored > high ? high : stored;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

// Writes a random number of the type and returns it in eighths.
static int64_t put_random(enum tensor_type type, uint8_t *to, uint32_t *seed)
{
    uint32_t r = next_random(seed);
    int8_t i8 = (int8_t)r;
    int16_t i16 = (int16_t)(r % 4096 - 2048);
    float f32 = (float)i16 / 8;
    uint16_t f16 = convert_float_to_fp16((float)(r % 2048) / 8);
    switch (type) {
    case TENSOR_INT8:
        memcpy(to, &i8, 1);
        return i8 * 8;
    case TENSOR_UINT8:
        *to = (uint8_t)r;
        return (uint8_t)r * 8;
    case TENSOR_INT16:
        memcpy(to, &i16, 2);
        return i16 * 8;
    case TENSOR_FLOAT16:
        memcpy(to, &f16, 2);
        return r % 2048;
    default:
        memcpy(to, &f32, 4);
        return i16;
    }
}

static int64_t stored_at(enum tensor_type type, const uint8_t *p, size_t i)
{
    int16_t i16;
    memcpy(&i16, p + (type == TENSOR_INT16 ? 2 * i : 0), sizeof i16);
    return type == TENSOR_INT8 ? (int8_t)p[i] : type == TENSOR_UINT8 ? p[i] : i16;
}

struct numbers {
    int64_t mean[4], std[4]; // eighths
    int64_t mantissa;
    int shift;
};

static struct tensor_io random_input(enum tensor_type type, struct numbers *k, uint32_t *seed)
{
    static const uint8_t orders[][4] = {{0, 1, 2, 3}, {2, 1, 0, 3}, {3, 0, 1, 2}};
    struct tensor_io io = {.logical = {.type = type, .qnt = TENSOR_QNT_AFFINE}};
    uint32_t kind = next_random(seed) % 4, channels = 1 + next_random(seed) % 4;
    set_dims(&io.logical, 1 + next_random(seed) % 2, 1 + next_random(seed) % 30,
             1 + next_random(seed) % 40, channels);
    k->shift = kind == 0 ? 30 : 2; // kind 0: any scale; else many exact halves
    k->mantissa = kind == 0 ? 1000 + next_random(seed) % 0x800000 : 1 + next_random(seed) % 8;
    io.logical.scale = ldexpf((float)k->mantissa, -k->shift);
    io.logical.zp = (int32_t)(next_random(seed) % 256) - 128;
    io.preprocess.n_channels = kind == 3 ? 0 : channels;
    const uint8_t *order = orders[channels == 1 ? 0 : channels == 4 ? 2 : channels - 2 ? 1 : 0];
    for (uint32_t c = 0; c < 4; c++) {
        k->mean[c] = kind == 3 ? 0 : next_random(seed) % 2048;
        k->std[c] = kind == 3 ? 8 : 1 + next_random(seed) % 2048;
        io.preprocess.mean[c] = (float)k->mean[c] / 8;
        io.preprocess.std[c] = (float)k->std[c] / 8;
        io.preprocess.order[c] = order[c];
    }
    return io;
}

static void check_random_input(enum tensor_type from, enum tensor_type to,
                               enum tensor_layout layout, uint32_t seed)
{
    static uint8_t src[MAX_ELEMENTS * 4 + 1], dst[MAX_ELEMENTS * 2];
    static int64_t eighths[MAX_ELEMENTS];
    struct numbers k;
    struct error e = {0};
    struct tensor_io io = random_input(to, &k, &seed);
    const struct tensor_attr *a = &io.logical;
    size_t element = tensor_type_size(from);
    for (size_t i = 0; i < a->n_elems; i++)
        eighths[i] = put_random(from, src + 1 + i * element, &seed);
    assert_int_equal(
        convert_input(&io, &FORM(from, layout), src + 1, a->n_elems * element, dst, a->size, &e),
        0);
    int64_t low = to == TENSOR_INT8 ? -128 : to == TENSOR_UINT8 ? 0 : -32768;
    int64_t high = to == TENSOR_INT8 ? 127 : to == TENSOR_UINT8 ? 255 : 32767;
    size_t channels = a->dims[3], pixels = (size_t)a->dims[1] * a->dims[2];
    for (size_t i = 0; i < a->n_elems; i++) {
        size_t c = i % channels, pixel = i / channels % pixels, image = i / channels / pixels;
        size_t given = io.preprocess.n_channels ? io.preprocess.order[c] : c;
        size_t j = layout == TENSOR_NHWC ? (image * pixels + pixel) * channels + given
                                         : (image * channels + given) * pixels + pixel;
        assert_int_equal(stored_at(to, dst, i), exactly(eighths[j], k.mean[c], k.std[c], k.mantissa,
                                                        k.shift, a->zp, low, high));
    }
}

static void inputs_are_quantized_exactly(void **state)
{
    (void)state;
    static const enum tensor_type from[] = {TENSOR_UINT8, TENSOR_INT8, TENSOR_FLOAT32,
                                            TENSOR_FLOAT16, TENSOR_INT16};
    static const enum tensor_type to[] = {TENSOR_INT8, TENSOR_UINT8, TENSOR_INT16};
    SEED_EACH (seed, 20)
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 3; j++) {
                check_random_input(from[i], to[j], TENSOR_NHWC, (uint32_t)seed * 15 + 1);
                check_random_input(from[i], to[j], TENSOR_NCHW, (uint32_t)seed * 15 + 1);
            }
}

// Mean and std 127.5 with the scale nearest 1/127.5: every value is within 1e-7 of a half.
static void inputs_near_halves_are_exact(void **state)
{
    (void)state;
    struct tensor_io io = {
        .logical = {.type = TENSOR_INT8, .qnt = TENSOR_QNT_AFFINE, .scale = 1 / 127.5f},
        .preprocess = {.n_channels = 1, .mean = {127.5f}, .std = {127.5f}}};
    uint8_t src[256];
    int8_t dst[256];
    set_dims(&io.logical, 1, 16, 16, 1);
    for (int i = 0; i < 256; i++)
        src[i] = (uint8_t)i;
    assert_int_equal(convert_input(&io, &FORM(TENSOR_UINT8, TENSOR_NHWC), src, 256, dst, 256, NULL),
                     0);
    int64_t mantissa = (int64_t)ldexp((double)io.logical.scale, 34);
    for (int i = 0; i < 256; i++)
        assert_int_equal(dst[i], exactly(8 * i, 1020, 1020, mantissa, 34, 0, -128, 127));
}

#ifdef __SIZEOF_INT128__ // what is right takes more than 64 bits
// Looks for a quotient so near to a half that double arithmetic takes it for one: N2 / (2 std
// scale) with N2 / (std scale) = 2 whole + 1 + something below 2^-54. N2 has 48 bits, 24 of them
// from x and 24 from the mean. Returns whether the quotient is above the half (1) or below (0).
static int find_false_half(uint32_t *seed, uint64_t *n2, uint64_t *std, uint64_t *scale, int *whole)
{
    for (;;) {
        *std = next_random(seed) | 1 << 23;
        *scale = next_random(seed) | 1 << 23;
        *whole = (int)(next_random(seed) % 100);
        unsigned __int128 exact = (unsigned __int128)(*std * *scale) * (2 * (unsigned)*whole + 1);
        int cut = 0;
        while (exact >> cut >= (unsigned __int128)1 << 48)
            cut++;
        unsigned __int128 near = (exact + ((unsigned __int128)1 << cut >> 1)) >> cut << cut;
        unsigned __int128 off = near > exact ? near - exact : exact - near;
        if (off != 0 && off << 54 < exact && near >> cut < (unsigned __int128)1 << 48) {
            *n2 = (uint64_t)near;
            return near > exact;
        }
    }
}

static void false_halves_are_seen(void **state)
{
    (void)state;
    uint32_t seed = 7;
    int above = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t n2, std, scale;
        int whole, up = find_false_half(&seed, &n2, &std, &scale, &whole);
        uint64_t top = (uint64_t)1 << (63 - __builtin_clzll(n2)), low = n2 % (top >> 23);
        struct tensor_io io = {
            .logical = {.type = TENSOR_INT8, .qnt = TENSOR_QNT_AFFINE, .scale = (float)scale},
            .preprocess = {.n_channels = 1, .mean = {-(float)low / 2}, .std = {(float)std}}};
        set_dims(&io.logical, 1, 1, 1, 1);
        float x = (float)(n2 - low) / 2;
        int8_t q;
        assert_int_equal(convert_input(&io, &FORM(TENSOR_FLOAT32, TENSOR_NHWC), &x, 4, &q, 1, NULL),
                         0);
        assert_int_equal(q, whole + up);
        above += up;
    }
    assert_in_range(above, 1, 199);
}
#endif

static int8_t stored_int8(float real, float scale, int32_t zp)
{
    struct tensor_io io = {
        .logical = {.type = TENSOR_INT8, .qnt = TENSOR_QNT_AFFINE, .scale = scale, .zp = zp},
        .preprocess = {.n_channels = 1, .std = {1}}};
    int8_t stored;
    set_dims(&io.logical, 1, 1, 1, 1);
    assert_int_equal(
        convert_input(&io, &FORM(TENSOR_FLOAT32, TENSOR_NHWC), &real, 4, &stored, 1, NULL), 0);
    return stored;
}

static void quantize_saturates(void **state)
{
    (void)state;
    assert_int_equal(stored_int8(2.5f, 1, 0), 2);
    assert_int_equal(stored_int8(-3.5f, 1, 0), -4);
    assert_int_equal(stored_int8(nextafterf(0.5f, 0), 1, 0), 0);
    assert_int_equal(stored_int8(-1.5f, 1, 101), 100);
    assert_int_equal(stored_int8(INFINITY, 0.1f, -128), 127);
    assert_int_equal(stored_int8(-1e30f, 1e-30f, 127), -128);
    assert_int_equal(stored_int8(NAN, 0.5f, -7), -7);
    assert_int_equal(stored_int8(1, 1, INT32_MIN), -128);
}

// 1 + 2^-11 + 2^-40 is nearer to 1 + 2^-10; rounded to float first, it would be a tie.
static void halves_are_rounded_once(void **state)
{
    (void)state;
    struct tensor_io io = {.logical = {.type = TENSOR_FLOAT16},
                           .preprocess = {.n_channels = 1, .mean = {-0x1p-40f}, .std = {1}}};
    set_dims(&io.logical, 1, 1, 1, 1);
    float src = 1 + 0x1p-11f;
    uint16_t dst;
    assert_int_equal(convert_input(&io, &FORM(TENSOR_FLOAT32, TENSOR_NHWC), &src, 4, &dst, 2, NULL),
                     0);
    assert_int_equal(dst, 0x3c01);
}

static void pictures_become_halves(void **state)
{
    (void)state;
    struct tensor_io io = {
        .logical = {.type = TENSOR_FLOAT16, .qnt = TENSOR_QNT_AFFINE, .scale = 1}};
    uint8_t src[3 * 256];
    uint16_t dst[3 * 256];
    set_dims(&io.logical, 1, 1, 256, 3);
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)(i / 3);
    assert_int_equal(convert_input(&io, &FORM(TENSOR_UINT8, TENSOR_NHWC), src, sizeof src, dst,
                                   sizeof dst, NULL),
                     0);
    for (size_t i = 0; i < sizeof src; i++)
        assert_cmp(half_value(dst[i]), ==, src[i]);
}

static void integers_only_move(void **state)
{
    (void)state;
    struct tensor_io io = {.logical = {.type = TENSOR_INT64, .qnt = TENSOR_QNT_AFFINE, .scale = 1}};
    int64_t dst[6], src[6] = {INT64_MIN, -1, 1, 2, 3, INT64_MAX};
    set_dims(&io.logical, 1, 1, 3, 2);
    assert_int_equal(convert_input(&io, &FORM(TENSOR_INT64, TENSOR_NCHW), src, 48, dst, 48, NULL),
                     0);
    assert_memory_equal(dst, ((int64_t[]){INT64_MIN, 2, -1, 3, 1, INT64_MAX}), sizeof dst);
}

static void check_refused(const struct tensor_io *io, enum tensor_type type,
                          enum tensor_layout layout, size_t size, int code, const char *words)
{
    uint8_t src[64] = {0}, dst[64];
    struct error e = {0};
    assert_int_equal(convert_input(io, &FORM(type, layout), src, size, dst, io->logical.size, &e),
                     code);
    assert_int_equal(e.code, code);
    assert_non_null(strstr(e.text, words));
}

// What is the same to all channels has one number, however many channels there are.
static void all_channels_are_treated_alike(void **state)
{
    (void)state;
    enum { CHANNELS = 6, N = 2 * CHANNELS };
    struct tensor_io io = {.logical = {.name = "image", .type = TENSOR_FLOAT32},
                           .preprocess = {.n_channels = 1, .mean = {3}, .std = {2}}};
    uint8_t bytes[N];
    float given[N], dst[N], again[N];
    set_dims(&io.logical, 1, 1, 2, CHANNELS);
    for (int i = 0; i < N; i++)
        given[i] = bytes[i] = (uint8_t)(7 * i);
    assert_int_equal(
        convert_input(&io, &FORM(TENSOR_UINT8, TENSOR_NHWC), bytes, N, dst, sizeof dst, NULL), 0);
    assert_int_equal(convert_input(&io, &FORM(TENSOR_FLOAT32, TENSOR_NHWC), given, sizeof given,
                                   again, sizeof again, NULL),
                     0);
    for (int i = 0; i < N; i++) {
        assert_float_equal(dst[i], (float)(7 * i - 3) / 2, 0);
        assert_float_equal(again[i], (float)(7 * i - 3) / 2, 0);
    }
}

static void wrong_inputs_are_refused(void **state)
{
    (void)state;
    struct tensor_io good = {
        .logical = {
            .name = "image", .type = TENSOR_INT8, .zp = 1, .scale = 2, .qnt = TENSOR_QNT_AFFINE}};
    set_dims(&good.logical, 1, 2, 2, 2);
    struct tensor_io io = good;
    const enum tensor_type u8 = TENSOR_UINT8;
    check_refused(&io, u8, TENSOR_NHWC, 7, STATUS_INPUT_INVALID, "8 elements of UINT8 take 8");
    check_refused(&io, u8, TENSOR_NC1HWC2, 8, STATUS_INPUT_INVALID, "NC1HWC2");
    check_refused(&io, u8, TENSOR_UNDEFINED, 8, STATUS_INPUT_INVALID, "NHWC or NCHW");
    check_refused(&io, TENSOR_INT64, TENSOR_NHWC, 64, STATUS_INPUT_INVALID, "set as INT64");
    io.logical.qnt = TENSOR_QNT_DFP;
    check_refused(&io, u8, TENSOR_NHWC, 8, STATUS_MODEL_INVALID, "DFP");
    io = good;
    io.logical.scale = 0;
    check_refused(&io, u8, TENSOR_NHWC, 8, STATUS_MODEL_INVALID, "scale");
    io = good;
    set_dims(&io.logical, 1, 2, 2, 3);
    io.preprocess =
        (struct tensor_preprocess){.n_channels = 2, .mean = {1, 1}, .std = {1, 1}, .order = {0, 1}};
    check_refused(&io, u8, TENSOR_NHWC, 12, STATUS_MODEL_INVALID, "mean and std for 2 channels");
    io = good;
    io.preprocess =
        (struct tensor_preprocess){.n_channels = 2, .mean = {1, 1}, .std = {1, 1}, .order = {0, 2}};
    check_refused(&io, u8, TENSOR_NHWC, 8, STATUS_MODEL_INVALID, "channel order 2");
}

// ---- outputs

static void stored_values_become_real(void **state)
{
    (void)state;
    struct tensor_attr a = {
        .type = TENSOR_INT8, .qnt = TENSOR_QNT_AFFINE, .zp = -128, .scale = 0.1f};
    int8_t stored[256];
    float real[256];
    a.n_elems = 256;
    for (int i = 0; i < 256; i++)
        stored[i] = (int8_t)(i - 128);
    assert_int_equal(convert_to_float(&a, stored, 256, real, 256, NULL), 0);
    for (int i = 0; i < 256; i++)
        assert_cmp(real[i], ==, (float)((double)i * (double)0.1f));
    assert_int_equal(convert_to_float(&a, stored, 255, real, 256, NULL), STATUS_OUTPUT_INVALID);
    a.qnt = TENSOR_QNT_DFP;
    assert_int_equal(convert_to_float(&a, stored, 256, real, 256, NULL), STATUS_OUTPUT_INVALID);
}

static void large_integers_are_rounded_once(void **state)
{
    (void)state;
    struct tensor_attr a = {
        .type = TENSOR_INT64, .qnt = TENSOR_QNT_AFFINE, .scale = 1, .n_elems = 2};
    int64_t stored[2] = {(1LL << 54) + (1LL << 30) + 1, -3};
    float real[2];
    assert_int_equal(convert_to_float(&a, stored, 16, real, 2, NULL), 0);
    assert_cmp(real[0], ==, 0x1p54f + 0x1p31f);
    assert_cmp(real[1], ==, -3);
}

static void unsigned_numbers_become_real(void **state)
{
    (void)state;
    struct tensor_attr a = {.type = TENSOR_UINT32, .scale = 1, .n_elems = 2};
    const uint32_t words[2] = {UINT32_MAX, 7};
    const uint16_t halves[2] = {UINT16_MAX, 7};
    float real[2];
    assert_int_equal(convert_to_float(&a, words, sizeof words, real, 2, NULL), 0);
    assert_cmp(real[0], ==, 0x1p32f);
    assert_cmp(real[1], ==, 7);
    a.type = TENSOR_UINT16;
    assert_int_equal(convert_to_float(&a, halves, sizeof halves, real, 2, NULL), 0);
    assert_cmp(real[0], ==, 65535);
    assert_cmp(real[1], ==, 7);
}

// ---- layouts

// Where NCHW element (n, c, h, w) lies, by the SDK guide's drawing of NC1HWC2 (5.1).
static size_t place(const struct convert_form *f, const uint32_t d[4], uint32_t n, uint32_t c,
                    uint32_t h, uint32_t w)
{
    size_t pitch = f->w_stride ? f->w_stride : d[3];
    if (f->layout == TENSOR_NHWC)
        return ((n * d[2] + h) * pitch + w) * d[1] + c;
    if (f->layout == TENSOR_NCHW)
        return ((n * d[1] + c) * d[2] + h) * pitch + w;
    size_t c1 = (d[1] + f->c2 - 1) / f->c2;
    return (((n * c1 + c / f->c2) * d[2] + h) * pitch + w) * f->c2 + c % f->c2;
}

static void check_move(const struct convert_form *from, const struct convert_form *to)
{
    const uint32_t d[4] = {2, 13, 3, 5};
    uint16_t logical[2 * 13 * 3 * 5], src[2 * 16 * 3 * 8], dst[2 * 16 * 3 * 8];
    uint16_t wanted[2 * 16 * 3 * 8];
    memset(src, 0xee, sizeof src);
    size_t channels = to->layout == TENSOR_NC1HWC2 ? 16 : 13;
    size_t total = 2 * channels * 3 * (to->w_stride ? to->w_stride : 5);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        wanted[i] = i < total ? 0xabcd : 0x5555;
    for (uint32_t i = 0; i < 2 * 13 * 3 * 5; i++) {
        uint32_t w = i % 5, h = i / 5 % 3, c = i / 15 % 13, n = i / 195;
        logical[i] = (uint16_t)(i + 1);
        src[place(from, d, n, c, h, w)] = logical[i];
        wanted[place(to, d, n, c, h, w)] = logical[i];
    }
    memset(dst, 0x55, sizeof dst);
    assert_int_equal(convert_layout(d, from, src, sizeof src, to, dst, sizeof dst, 0xabcd, NULL),
                     0);
    assert_memory_equal(dst, wanted, sizeof dst);
}

static void layouts_move_and_pad(void **state)
{
    (void)state;
    static const struct convert_form forms[] = {
        {TENSOR_FLOAT16, TENSOR_NCHW, 0, 0, 0},    {TENSOR_FLOAT16, TENSOR_NCHW, 8, 0, 0},
        {TENSOR_FLOAT16, TENSOR_NHWC, 0, 0, 0},    {TENSOR_FLOAT16, TENSOR_NHWC, 7, 0, 0},
        {TENSOR_FLOAT16, TENSOR_NC1HWC2, 0, 8, 0}, {TENSOR_FLOAT16, TENSOR_NC1HWC2, 6, 8, 0},
        {TENSOR_FLOAT16, TENSOR_NC1HWC2, 0, 4, 0}};
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++)
            check_move(&forms[i], &forms[j]);
}

static void check_impossible(const uint32_t dims[4], struct convert_form to, size_t dst_size)
{
    const struct convert_form nchw = {TENSOR_INT8, TENSOR_NCHW, 0, 0, 0};
    uint8_t src[12] = {0}, dst[64];
    assert_int_equal(convert_layout(dims, &nchw, src, 12, &to, dst, dst_size, 0, NULL),
                     STATUS_PARAM_INVALID);
}

static void impossible_layouts_are_refused(void **state)
{
    (void)state;
    const uint32_t d[4] = {1, 3, 2, 2}, huge[4] = {65536, 65536, 65536, 65536};
    check_impossible(d, (struct convert_form){TENSOR_INT8, TENSOR_NHWC, 0, 0, 0}, 11);
    check_impossible(huge, (struct convert_form){TENSOR_INT8, TENSOR_NHWC, 0, 0, 0}, 64);
    check_impossible(d, (struct convert_form){TENSOR_INT8, TENSOR_NC1HWC2, 0, 0, 0}, 64);
    check_impossible(d, (struct convert_form){TENSOR_INT8, TENSOR_NHWC, 1, 0, 0}, 64);
    check_impossible(d, (struct convert_form){TENSOR_UINT8, TENSOR_NHWC, 0, 0, 0}, 64);
}

static void undefined_layouts_are_copied(void **state)
{
    (void)state;
    const struct convert_form nchw = {TENSOR_INT8, TENSOR_NCHW, 0, 0, 0};
    const struct convert_form undefined = {TENSOR_INT8, TENSOR_UNDEFINED, 0, 0, 0};
    const uint8_t src[6] = {1, 2, 3, 4, 5, 6};
    uint8_t dst[6];
    assert_int_equal(
        convert_layout((uint32_t[]){1, 3, 2, 1}, &nchw, src, 6, &undefined, dst, 6, 0, NULL), 0);
    assert_memory_equal(src, dst, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives),
        cmocka_unit_test(floats_go_to_the_nearest_half),
        cmocka_unit_test(inputs_are_quantized_exactly),
        cmocka_unit_test(inputs_near_halves_are_exact),
#ifdef __SIZEOF_INT128__
        cmocka_unit_test(false_halves_are_seen),
#endif
        cmocka_unit_test(quantize_saturates),
        cmocka_unit_test(halves_are_rounded_once),
        cmocka_unit_test(pictures_become_halves),
        cmocka_unit_test(integers_only_move),
        cmocka_unit_test(all_channels_are_treated_alike),
        cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(stored_values_become_real),
        cmocka_unit_test(large_integers_are_rounded_once),
        cmocka_unit_test(unsigned_numbers_become_real),
        cmocka_unit_test(layouts_move_and_pad),
        cmocka_unit_test(impossible_layouts_are_refused),
        cmocka_unit_test(undefined_layouts_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
