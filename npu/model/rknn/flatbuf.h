// A reader of flatbuffers by slot number, for untrusted bytes.
//
// Every access is checked. The first thing found wrong is remembered in the reader and everything
// after it reads as absent, so a caller reads a whole object and then asks fb_error() once. Nothing
// is copied; nothing recurses, so depth is the caller's.
#pragma once

#include "base/bytes.h"

struct fb {
    struct bytes all;
    const char *broken; // words for the first thing found wrong; NULL: nothing yet
};

// An absent table has no slots: everything in it reads as absent.
struct fb_table {
    struct fb *fb;
    uint32_t at, vtable;
    uint16_t n_slots;
};

// A vector of tables.
struct fb_list {
    struct fb *fb;
    uint32_t at, n;
};

static inline const char *fb_error(const struct fb *fb)
{
    return fb->broken;
}

/// The root table. `identifier` is four letters that must follow the root offset.
struct fb_table fb_root(struct fb *fb, const char *identifier);

bool fb_has(const struct fb_table *t, unsigned slot);

/// Whether a slot of unknown type says anything: it is there, and neither 0 nor what looks like a
/// reference to nothing (a vector or text without elements). *ret_value: its first bytes as a
/// number.
bool fb_says(const struct fb_table *t, unsigned slot, uint32_t *ret_value);
uint8_t fb_u8(const struct fb_table *t, unsigned slot, uint8_t absent);
int32_t fb_i32(const struct fb_table *t, unsigned slot, int32_t absent);
uint32_t fb_u32(const struct fb_table *t, unsigned slot, uint32_t absent);
uint64_t fb_u64(const struct fb_table *t, unsigned slot, uint64_t absent);

/// The elements of a vector of scalars (or of a string, element 1), as little-endian bytes that
/// need not be aligned; a whole number of elements. Empty when absent.
struct bytes fb_vector(const struct fb_table *t, unsigned slot, size_t element);

struct fb_table fb_sub(const struct fb_table *t, unsigned slot);
struct fb_list fb_tables(const struct fb_table *t, unsigned slot);
struct fb_table fb_list_get(const struct fb_list *l, uint32_t i);
