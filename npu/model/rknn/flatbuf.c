// A bounded flatbuffer reader. The parts of the format that matter here, all little-endian:
//
//      table      i32 offset back to its vtable (negative: the vtable is behind), then the fields
//      vtable     u16 its bytes, u16 the table's bytes, then u16 per slot: offset of the field in
//                 the table, 0: absent
//      reference  u32 offset, from where it stands, to a table, vector or string
//      vector     u32 count, then the elements
//
// Positions are computed in 64 bits and checked by look() before each read. The vtable is checked
// whole when its table is entered, so that field() may read slots without a check.
#include "npu/model/rknn/flatbuf.h"

// The n bytes at offset `at`. NULL: they are outside the buffer, or something was wrong before; the
// first problem (`what`) stays in the reader.
static const uint8_t *look(struct fb *fb, uint64_t at, uint64_t n, const char *what)
{
    struct bytes b;
    if (fb->broken)
        return NULL;
    if (!bytes_slice(fb->all, at, n, &b)) {
        fb->broken = what;
        return NULL;
    }
    return b.data;
}

// Enters the table at offset `at`: finds its vtable and checks that all of it is inside. An absent
// table on failure.
static struct fb_table table_at(struct fb *fb, uint64_t at)
{
    struct fb_table absent = {.fb = fb};
    const uint8_t *p = look(fb, at, 4, "a table lies outside the buffer");
    if (!p)
        return absent;
    // The vtable may lie before or after its table: the offset is signed.
    int64_t vtable = (int64_t)at - (int32_t)read_le32(p);
    p = vtable < 0 ? NULL : look(fb, (uint64_t)vtable, 4, "a vtable lies outside the buffer");
    if (!p) {
        fb->broken = "a vtable lies outside the buffer";
        return absent;
    }
    uint16_t size = read_le16(p);
    if (size < 4 || size % 2 || !look(fb, (uint64_t)vtable, size, "a vtable is cut off")) {
        fb->broken = "a vtable is malformed";
        return absent;
    }
    return (struct fb_table){fb, (uint32_t)at, (uint32_t)vtable, (uint16_t)((size - 4) / 2)};
}

// Limits the buffer to 2 GB, as flatbuffers do, which also makes every offset fit fb_table's 32
// bits.
struct fb_table fb_root(struct fb *fb, const char *identifier)
{
    const uint8_t *p = look(fb, 0, 8, "too short for a flatbuffer");
    if (fb->all.size > INT32_MAX)
        fb->broken = "a flatbuffer cannot have 2 GB or more";
    else if (p && memcmp(p + 4, identifier, 4) != 0)
        fb->broken = "the flatbuffer's identifier is missing";
    return !p || fb->broken ? (struct fb_table){.fb = fb} : table_at(fb, read_le32(p));
}

// The n bytes of the field in a slot, and their offset in the buffer; NULL: absent (or broken).
static const uint8_t *field(const struct fb_table *t, unsigned slot, size_t n, uint64_t *ret_at)
{
    if (slot >= t->n_slots || t->fb->broken)
        return NULL;
    uint16_t offset = read_le16(t->fb->all.data + t->vtable + 4 + 2 * slot);
    if (!offset)
        return NULL;
    *ret_at = (uint64_t)t->at + offset;
    return look(t->fb, *ret_at, n, "a field lies outside the buffer");
}

// The offset of the table or vector that a field refers to; 0: absent (or broken).
static uint64_t target(const struct fb_table *t, unsigned slot)
{
    uint64_t at;
    const uint8_t *p = field(t, slot, 4, &at);
    return p ? at + read_le32(p) : 0;
}

bool fb_has(const struct fb_table *t, unsigned slot)
{
    uint64_t at;
    return field(t, slot, 1, &at) != NULL;
}

// How many bytes the field that begins at `offset` may have: up to the next one or the table's end.
static uint16_t room_of_field(const struct fb_table *t, uint16_t offset)
{
    uint16_t end = read_le16(t->fb->all.data + t->vtable + 2);
    for (unsigned slot = 0; slot < t->n_slots; slot++) {
        uint16_t other = read_le16(t->fb->all.data + t->vtable + 4 + 2 * slot);
        if (other > offset && other < end)
            end = other;
    }
    return end > offset ? (uint16_t)(end - offset) : 1;
}

// Whether the number at `at`, in a table of that size, refers to a vector without elements. It
// would lie outside the table, at a multiple of four.
static bool refers_to_nothing(const struct fb_table *t, uint64_t at, uint32_t number)
{
    struct bytes count;
    uint64_t to = at + number, end = t->at + (uint64_t)read_le16(t->fb->all.data + t->vtable + 2);
    return to >= end && to % 4 == 0 && bytes_slice(t->fb->all, to, 4, &count) &&
           read_le32(count.data) == 0;
}

bool fb_says(const struct fb_table *t, unsigned slot, uint32_t *ret_value)
{
    uint64_t at;
    const uint8_t *p = field(t, slot, 1, &at);
    *ret_value = 0;
    if (!p)
        return false;
    bool zero = true;
    uint16_t size = room_of_field(t, (uint16_t)(at - t->at));
    p = look(t->fb, at, size, "a field lies outside the buffer");
    for (uint16_t i = 0; p && i < size; i++)
        zero = zero && p[i] == 0;
    if (!p || zero)
        return false;
    for (uint16_t i = 0; i < size && i < 4; i++)
        *ret_value |= (uint32_t)p[i] << 8 * i;
    return size < 4 || !refers_to_nothing(t, at, *ret_value);
}

uint8_t fb_u8(const struct fb_table *t, unsigned slot, uint8_t absent)
{
    uint64_t at;
    const uint8_t *p = field(t, slot, 1, &at);
    return p ? *p : absent;
}

uint32_t fb_u32(const struct fb_table *t, unsigned slot, uint32_t absent)
{
    uint64_t at;
    const uint8_t *p = field(t, slot, 4, &at);
    return p ? read_le32(p) : absent;
}

int32_t fb_i32(const struct fb_table *t, unsigned slot, int32_t absent)
{
    return (int32_t)fb_u32(t, slot, (uint32_t)absent);
}

uint64_t fb_u64(const struct fb_table *t, unsigned slot, uint64_t absent)
{
    uint64_t at;
    const uint8_t *p = field(t, slot, 8, &at);
    return p ? read_le64(p) : absent;
}

// The product of count and element size is computed in 64 bits: it cannot overflow, as elements are
// small. Empty vectors point at a byte of our own, so that callers may pass them to memcpy().
struct bytes fb_vector(const struct fb_table *t, unsigned slot, size_t element)
{
    static const uint8_t nothing[1];
    struct bytes empty = {nothing, 0};
    uint64_t at = target(t, slot);
    const uint8_t *p = at ? look(t->fb, at, 4, "a vector lies outside the buffer") : NULL;
    if (!p)
        return empty;
    uint64_t size = (uint64_t)read_le32(p) * element;
    p = look(t->fb, at + 4, size, "a vector is longer than the buffer");
    return p ? (struct bytes){p, (size_t)size} : empty;
}

struct fb_table fb_sub(const struct fb_table *t, unsigned slot)
{
    uint64_t at = target(t, slot);
    return at ? table_at(t->fb, at) : (struct fb_table){.fb = t->fb};
}

struct fb_list fb_tables(const struct fb_table *t, unsigned slot)
{
    struct bytes b = fb_vector(t, slot, 4);
    if (!b.size)
        return (struct fb_list){.fb = t->fb};
    return (struct fb_list){t->fb, (uint32_t)(b.data - t->fb->all.data), (uint32_t)(b.size / 4)};
}

struct fb_table fb_list_get(const struct fb_list *l, uint32_t i)
{
    uint64_t at = l->at + 4 * (uint64_t)i;
    const uint8_t *p = i < l->n ? look(l->fb, at, 4, "an element lies outside the buffer") : NULL;
    return p ? table_at(l->fb, at + read_le32(p)) : (struct fb_table){.fb = l->fb};
}
