// Bytes of known length, read without trusting them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

static inline uint16_t read_le16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t read_le32(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t read_le64(const void *p)
{
    const uint8_t *b = p;
    return read_le32(b) | (uint64_t)read_le32(b + 4) << 32;
}

static inline void write_le16(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void write_le32(void *p, uint32_t v)
{
    uint8_t *b = p;
    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

static inline void write_le64(void *p, uint64_t v)
{
    uint8_t *b = p;
    for (int i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

/// The 32 bits of a float, and back.
static inline uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline uint64_t double_bits(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/// The smallest multiple of `unit`, which is not 0, that is not less than n. The caller knows that
/// it does not overflow.
static inline uint64_t align_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/// The part [offset, offset+size) of `all`; false, and *ret untouched, if it is not all there.
static inline bool bytes_slice(struct bytes all, uint64_t offset, uint64_t size, struct bytes *ret)
{
    if (offset > all.size || size > all.size - offset)
        return false;
    *ret = (struct bytes){offset > 0 ? all.data + offset : all.data, (size_t)size};
    return true;
}

static inline bool bytes_start_with(struct bytes b, const char *text)
{
    size_t n = strlen(text);
    return b.size >= n && memcmp(b.data, text, n) == 0;
}
