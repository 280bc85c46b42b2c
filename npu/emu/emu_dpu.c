// The DPU: from the core's sums, or from a cube in memory, to a cube of whole numbers of 8, 16 or
// 32 bits (n).
//
//     v   = sat32((in + A + B * S) * C >> shift)       BS, which has A, B and C of each channel
//     v   = sat32((v + add) * factor >> shift)         BN; of RK3588 and RK3568 (v * factor + add);
//                                                      or the factor for negative numbers alone
//     v   = v op ((e + offset) * factor >> shift)      EW; or by its two tables
//     out = satn((v * scale >> shift) + zero)          output conversion
//
// Each >> rounds to the nearest, ties to even, and BS and BN shift negative numbers by a number of
// their own; bit 30 of the last shift lets ties go away from zero. The zero point joins before that
// shift, which matters for exact ties alone. What of this is not proven has a switch
// (tensor/arithmetic.h).
//
// Tests: test_emulator, by measurements on boards and by files' nodes.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "npu/emu/emu_unit.h"

static int64_t round_away(int64_t v, uint32_t shift)
{
    if (!shift)
        return v;
    int64_t half = (int64_t)1 << (shift - 1);
    return v < 0 ? -((-v + half) >> shift) : (v + half) >> shift;
}

static int64_t within_bounds(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

static int64_t saturate32(int64_t v)
{
    return within_bounds(v, INT32_MIN, INT32_MAX);
}

static int64_t of_channel(const struct emu_operand *o, uint32_t c)
{
    return o->kind == EMU_EACH ? o->each[c] : o->all;
}

static int64_t multiply_stage(const struct emu_multiply *m, uint32_t c, int64_t v)
{
    if (m->add.kind && !m->adds_last)
        v += of_channel(&m->add, c);
    if (m->factor.kind && (!m->prelu || v < 0))
        v *= of_channel(&m->factor, c);
    if (m->add.kind && m->adds_last)
        v += of_channel(&m->add, c);
    if (m->factor.kind)
        v = emu_round_chosen(m->rounding, v, v >= 0 ? m->shift : m->negative_shift);
    return within_bounds(saturate32(v), m->low, m->high);
}

// The table's value at v.
static int64_t look_up(const struct emu_dpu *d, int64_t v)
{
    return emu_lut_at(&d->lut[v >= 0], v, v < 0);
}

static int64_t second_operand(const struct emu_dpu *d, int64_t v, size_t at, uint32_t c)
{
    const struct emu_second *s = &d->ew;
    if (s->op == EMU_EW_NONE)
        return v;
    if (s->op == EMU_EW_LUT)
        return look_up(d, v);
    int64_t e = s->values[s->one_per_channel ? c : at];
    e = emu_round_chosen(s->rounding, (e + s->offset) * s->factor, s->shift);
    int64_t product;
    switch (s->op) {
    case EMU_EW_ADD:
        return saturate32(v + e);
    case EMU_EW_SUB:
        return saturate32(v - e);
    case EMU_EW_MUL:
        return __builtin_mul_overflow(v, e, &product) ? (v < 0) != (e < 0) ? INT32_MIN : INT32_MAX
                                                      : saturate32(product);
    case EMU_EW_MAX:
        return v > e ? v : e;
    default:
        return v < e ? v : e;
    }
}

static int32_t convert_output(const struct emu_dpu *d, int64_t v)
{
    bool small = d->out == EMU_INT8 || d->out == EMU_INT16;
    int64_t highest = small ? ((int64_t)1 << (8 * emu_precision_bytes(d->out) - 1)) - 1 : INT32_MAX;
    v = within_bounds(v, d->ew_low, d->ew_high) * d->scale;
    int64_t zero = d->offset_behind ? 0 : (int64_t)d->offset * ((int64_t)1 << d->shift);
    v = d->away ? round_away(v + zero, d->shift) : emu_round_even(v + zero, d->shift);
    v += d->offset_behind ? d->offset : 0;
    return (int32_t)within_bounds(v, -highest - 1, highest);
}

static size_t count_elements(const uint32_t shape[3])
{
    return (size_t)shape[0] * shape[1] * shape[2];
}

// What of a sum reaches the DPU, with the part that its inputs' sum has in it. CLIP_TRUNCATE takes
// bits away, to the nearest, ties to even: how is not known, but of all ways this one brings
// lprnet_us of RK3576 nearest to its twins of RK3588 and RK3562.
static int64_t whole_sum(const struct emu_dpu *d, uint32_t c, int64_t v, int64_t window,
                         uint32_t clip)
{
    if (d->bs.window.kind)
        v += of_channel(&d->bs.window, c) * window;
    return emu_round_chosen(d->sum_rounding, v, clip);
}

// One channel: v is its plane, in and out; window: of its inputs' sums, or NULL.
static void run_channel(const struct emu_dpu *d, uint32_t c, const int32_t *window, uint32_t clip,
                        int32_t *v)
{
    size_t plane = (size_t)d->shape[1] * d->shape[2];
    for (size_t i = 0; i < plane; i++) {
        int64_t x = multiply_stage(&d->bs, c, whole_sum(d, c, v[i], window ? window[i] : 0, clip));
        x = multiply_stage(&d->bn, c, x);
        v[i] = convert_output(d, second_operand(d, x, c * plane + i, c));
    }
}

static void run_channels(const struct emu_dpu *d, const struct emu_sums *s, int32_t *v)
{
    size_t plane = (size_t)d->shape[1] * d->shape[2];
    for (uint32_t c = 0; c < d->shape[0]; c++) {
        const int32_t *window = NULL;
        if (d->from_core && c < s->shape[0])
            window = s->window_channels == 1 ? s->window : s->window + c * plane;
        run_channel(d, c, window, d->from_core ? s->clip : 0, v + c * plane);
    }
}

static int write_integers(const struct emu_dpu *d, const struct emu_memory *m, const int32_t *v,
                          struct error *e)
{
    uint32_t bytes = emu_precision_bytes(d->out);
    uint32_t written[3];
    emu_written_shape(d, written);
    size_t n = count_elements(written), there = count_elements(d->shape);
    uint8_t *raw = malloc(n * bytes);
    if (!raw)
        return error_no_memory(e, "a cube", n * bytes);
    n = n < there ? n : there;
    for (size_t i = 0; i < n; i++)
        if (d->out == EMU_FP16)
            write_le16(raw + 2 * i, emu_float_half(ldexpf((float)v[i], -(int)d->minus_exp)));
        else if (d->out == EMU_FP32)
            write_le32(raw + 4 * i, float_bits((float)v[i]));
        else if (bytes == 1)
            raw[i] = (uint8_t)v[i];
        else if (bytes == 2)
            write_le16(raw + 2 * i, (uint16_t)v[i]);
        else
            write_le32(raw + 4 * i, (uint32_t)v[i]);
    emu_fill_channels(raw, written, bytes, d->real_channels, d->behind);
    int r = emu_write(m, &d->target, written, raw, e);
    free(raw);
    return r;
}

int emu_dpu_run(const struct emu_dpu *d, const struct emu_memory *m, const struct emu_sums *sums,
                struct error *e)
{
    if (d->from_core && (sums->shape[1] != d->shape[1] || sums->shape[2] != d->shape[2]))
        return error_set(e, STATUS_PARAM_INVALID, "a core of %u x %u for a DPU of %u x %u",
                         sums->shape[1], sums->shape[2], d->shape[1], d->shape[2]);
    // The DPU works on whole groups of channels: behind the core's come zeros.
    size_t n = count_elements(d->shape);
    int32_t *v = calloc(n, sizeof *v);
    if (!v)
        return error_no_memory(e, "a cube", n * sizeof *v);
    size_t known = d->from_core ? count_elements(sums->shape) : 0;
    int r = 0;
    if (d->from_core)
        memcpy(v, sums->sums, (known < n ? known : n) * sizeof *v);
    else
        r = emu_cube_read_integers(m, &d->source, d->shape, v, e);
    if (r == 0) {
        run_channels(d, sums, v);
        r = write_integers(d, m, v, e);
    }
    free(v);
    return r;
}

static void multiply_done(struct emu_multiply *m)
{
    free(m->add.each);
    free(m->window.each);
    free(m->factor.each);
}

void emu_dpu_done(struct emu_dpu *d)
{
    multiply_done(&d->bs);
    multiply_done(&d->bn);
    free(d->main);
    free(d->ew.values);
    free(d->ew.real);
    *d = (struct emu_dpu){0};
}
