// What the DPU writes: elements of [channels][height][width], to memory. Beside plain cubes there
// are three more ways; of each, files' own programs show what it does: what one task writes, the
// next one reads.
//
//     EMU_TRANSPOSED  channels become lines: pixels of one channel come to lie side by side
//     EMU_MOVED       atoms stay whole, but pixels become surfaces and surfaces lines
//     EMU_STREAM      atoms one behind the other, all of a surface before the next one's, or of as
//                     many surfaces together as the writer takes at once (so fp32 of one surface of
//                     int8 stay in order); of the last one of each line only `tail` bytes
//
// Elements are written as they are. Tests: test_emulator.
#include <stdlib.h>
#include <string.h>

#include "npu/emu/emu_unit.h"

#define ATOM 16

static size_t count_pixels(const uint32_t shape[3])
{
    return (size_t)shape[1] * shape[2];
}

// ---- transposed ----

// Where the atom lies that has pixels from per * group on of a channel; a channel here is as many
// bytes of an element as stay together.
static uint64_t row_at(const struct emu_target *t, uint32_t channel, uint32_t group)
{
    int64_t at = channel % t->rows * t->row + channel / t->rows % t->blocks * t->block +
                 channel / t->rows / t->blocks * t->outer;
    return t->cube.base +
           (uint64_t)(at + group / t->columns * t->line + (int64_t)(group % t->columns) * ATOM);
}

static int write_transposed(const struct emu_memory *m, const struct emu_target *t,
                            const uint32_t shape[3], const uint8_t *src, struct error *e)
{
    size_t pixels = count_pixels(shape);
    uint32_t per = ATOM / t->unit, parts = t->cube.bytes / t->unit;
    for (uint32_t c = 0; c < shape[0] * parts; c++)
        for (size_t p = 0; p < pixels; p += per) {
            uint32_t n = pixels - p < per ? (uint32_t)(pixels - p) : per;
            uint8_t *to = emu_memory_to(m, row_at(t, c, (uint32_t)(p / per)), n * t->unit, e);
            if (!to)
                return error_prefix(e, "writing");
            const uint8_t *from =
                src + (c / parts * pixels + p) * t->cube.bytes + c % parts * t->unit;
            for (uint32_t i = 0; i < n; i++, from += t->cube.bytes)
                memcpy(to + i * t->unit, from, t->unit);
        }
    return 0;
}

// ---- whole atoms ----

static uint32_t atom_of(const struct emu_target *t)
{
    return t->atom ? t->atom : ATOM;
}

// The atom of a surface's pixel; behind the last channel stand zeros.
static void gather_atom(const struct emu_target *t, const uint32_t shape[3], const uint8_t *src,
                        uint32_t surface, size_t pixel, uint8_t ret[ATOM])
{
    uint32_t lanes = atom_of(t) / t->cube.bytes;
    memset(ret, 0, ATOM);
    for (uint32_t i = 0; i < lanes && surface * lanes + i < shape[0]; i++)
        memcpy(ret + i * t->cube.bytes,
               src + ((surface * lanes + i) * count_pixels(shape) + pixel) * t->cube.bytes,
               t->cube.bytes);
}

static int put_bytes(const struct emu_memory *m, uint64_t at, const uint8_t *bytes, size_t n,
                     struct error *e)
{
    uint8_t *to = emu_memory_to(m, at, n, e);
    if (!to)
        return error_prefix(e, "writing");
    memcpy(to, bytes, n);
    return 0;
}

// The next n bytes of a stream, of which `*at` have been written.
static int put_stream(const struct emu_memory *m, const struct emu_target *t, uint64_t *at,
                      const uint8_t *bytes, size_t n, struct error *e)
{
    uint32_t piece = t->piece ? t->piece : ATOM, step = (piece + ATOM - 1) / ATOM * ATOM;
    if (!t->piece) {
        int r = put_bytes(m, t->cube.base + *at, bytes, n, e);
        *at += n;
        return r;
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++, ++*at)
        r = put_bytes(m, t->cube.base + *at / piece * step + *at % piece, bytes + i, 1, e);
    return r;
}

// What there is of a pixel in the surfaces [first, end).
static int write_pixel(const struct emu_memory *m, const struct emu_target *t,
                       const uint32_t shape[3], const uint8_t *src, const uint32_t surfaces[2],
                       size_t p, uint64_t *stream, struct error *e)
{
    uint32_t size = atom_of(t);
    int r = 0;
    for (uint32_t s = surfaces[0]; r == 0 && s < surfaces[1]; s++) {
        uint8_t atom[ATOM];
        gather_atom(t, shape, src, s, p, atom);
        bool last = p % shape[2] == shape[2] - 1;
        int64_t moved =
            (int64_t)(p % shape[2]) * t->row + (int64_t)(p / shape[2]) * size + s * t->line;
        r = t->kind == EMU_STREAM
                ? put_stream(m, t, stream, atom, last && t->tail ? t->tail : ATOM, e)
                : put_bytes(m, t->cube.base + (uint64_t)moved, atom, size, e);
    }
    return r;
}

static int write_atoms(const struct emu_memory *m, const struct emu_target *t,
                       const uint32_t shape[3], const uint8_t *src, struct error *e)
{
    uint32_t lanes = atom_of(t) / t->cube.bytes, surfaces = (shape[0] + lanes - 1) / lanes;
    uint32_t together = t->together ? t->together : 1;
    uint64_t stream = 0;
    int r = 0;
    for (uint32_t s = 0; s < surfaces; s += together) {
        uint32_t part[2] = {s, surfaces - s < together ? surfaces : s + together};
        for (size_t p = 0; r == 0 && p < count_pixels(shape); p++)
            r = write_pixel(m, t, shape, src, part, p, &stream, e);
    }
    return r;
}

// Each line and each pixel as often as it is to be repeated.
static int write_cube(const struct emu_memory *m, const struct emu_target *t,
                      const uint32_t shape[3], const void *src, struct error *e)
{
    if (!t->repeat[0])
        return emu_cube_write(m, &t->cube, shape, src, e);
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < t->repeat[0] * t->repeat[1]; i++) {
        struct emu_cube cube = t->cube;
        cube.base += (uint64_t)(i / t->repeat[1] * t->cube.surface) +
                     (uint64_t)(i % t->repeat[1]) * t->cube.pixel;
        cube.pixel *= t->repeat[1];
        r = emu_cube_write(m, &cube, shape, src, e);
    }
    return r;
}

void emu_written_shape(const struct emu_dpu *d, uint32_t ret[3])
{
    bool fewer = d->channels < d->shape[0] || d->real_channels;
    ret[0] = fewer ? d->channels : d->shape[0];
    ret[1] = d->lines[0] ? d->lines[0] : d->shape[1];
    ret[2] = d->lines[0] ? d->lines[1] : d->shape[2];
}

void emu_fill_channels(uint8_t *raw, const uint32_t shape[3], uint32_t bytes, uint32_t first,
                       uint16_t value)
{
    size_t n = first ? shape[0] * count_pixels(shape) : 0;
    for (size_t i = first * count_pixels(shape); i < n; i++)
        for (uint32_t j = 0; j < bytes; j++)
            raw[i * bytes + j] = (uint8_t)(value >> 8 * j);
}

int emu_write(const struct emu_memory *m, const struct emu_target *t, const uint32_t shape[3],
              const void *src, struct error *e)
{
    switch (t->kind) {
    case EMU_CUBE:
        return write_cube(m, t, shape, src, e);
    case EMU_TRANSPOSED:
        return write_transposed(m, t, shape, src, e);
    default:
        return write_atoms(m, t, shape, src, e);
    }
}
