// Copies between tensors: which loop fits.
//
//   same stored form (move_all)                 another one (convert_all)
//     both inner strides 1   memcpy of pieces     int8 to int8   a table or a line, where fast
//     a matrix to transpose  tensor/transpose.h   short pieces   many at a time
//     … with a short side    interleave.h         else           by floats, in chunks
//     inner stride 2 or 4    int8_take()
//     else                   element by element
//
// Conversion goes by floats and rounds as elements_store() does, except between int32 and int64,
// which floats could not hold. Measured by bench_sim (copy_times.c); tested by
// test_sim_cases_moves, test_sim_fp16 and test_onnx_nodes.
#include "npu/sim/exec/copy.h"

#include "npu/sim/simd/int8.h"
#include "npu/sim/simd/interleave/interleave.h"
#include "tensor/transpose.h"

static bool same_form(const struct element_form *a, const struct element_form *b)
{
    if (a->type != b->type || a->quantized != b->quantized)
        return false;
    return !a->quantized || (a->scale == b->scale && a->zp == b->zp);
}

// Where a look-up takes longer than a multiplication.
static void copy_find_line(struct copy *c)
{
    c->in_line = c->mapped && !int8_map_is_fast() && int8_line_find(c->table, &c->line);
}

void copy_init(struct copy *c, const struct graph_tensor *to, const struct graph_tensor *from)
{
    *c = (struct copy){.to = element_form(to),
                       .from = element_form(from),
                       .to_size = tensor_type_size(to->type),
                       .from_size = tensor_type_size(from->type)};
    c->same = same_form(&c->to, &c->from);
    c->mapped = !c->same && (int8_map_is_fast() || kernel_has_avx2()) && to->type == TENSOR_INT8 &&
                from->type == TENSOR_INT8;
    if (c->mapped)
        elements_table(&c->from, NULL, 0, &c->to, c->table);
    copy_find_line(c);
}

void copy_set_table(struct copy *c, const int8_t table[256])
{
    c->same = true;
    for (int i = 0; i < 256; i++)
        c->same = c->same && table[i] == (int8_t)i;
    c->mapped = !c->same;
    memcpy(c->table, table, sizeof c->table);
    copy_find_line(c);
}

void copy_init_whole(struct copy *c, const struct graph_tensor *to, const struct graph_tensor *from)
{
    copy_init(c, to, from);
    nd_init(&c->nd, to);
    nd_broadcast(&c->nd, from);
    nd_simplify(&c->nd);
}

#define PLANE_MIN     4         // lines that are worth to be transposed together
#define BLOCK         (1 << 14) // elements that are transposed in two passes
#define BLOCK_COLUMNS 8

typedef uint16_t element_2 __attribute__((aligned(1), may_alias));
typedef uint32_t element_4 __attribute__((aligned(1), may_alias));
typedef uint64_t element_8 __attribute__((aligned(1), may_alias));

// A loop of n elements, with a stride on both sides.
struct line {
    size_t n;
    int64_t to, from;
};

#define MOVE(type)                                                                                 \
    for (size_t i = 0; i < lines; i++) {                                                           \
        type *restrict a = (type *)to + (int64_t)i * outer.to;                                     \
        const type *restrict b = (const type *)from + (int64_t)i * outer.from;                     \
        for (size_t k = 0; k < n; k++)                                                             \
            a[(int64_t)k * inner.to] = b[(int64_t)k * inner.from];                                 \
    }                                                                                              \
    break

static inline __attribute__((always_inline)) void
move_each(size_t element, uint8_t *to, const uint8_t *from, struct line outer, struct line inner)
{
    size_t lines = outer.n, n = inner.n;
    switch (element) {
    case 1:
        MOVE(uint8_t);
    case 2:
        MOVE(element_2);
    case 4:
        MOVE(element_4);
    default:
        MOVE(element_8);
    }
}

// Every second or fourth byte.
static void take_bytes(uint8_t *to, const uint8_t *from, struct line outer, struct line inner)
{
    for (size_t i = 0; i < outer.n; i++, to += outer.to, from += outer.from)
        int8_take((const int8_t *)from, (size_t)inner.from, inner.n, (int8_t *)to);
}

// Some strides other than 1 are usual, and fast when the compiler knows them.
KERNEL(void, move_lines,
       (size_t element, uint8_t *to, const uint8_t *from, struct line outer, struct line inner),
       (element, to, from, outer, inner))
{
    if (inner.to == 1 && element == 1 && (inner.from == 2 || inner.from == 4))
        take_bytes(to, from, outer, inner);
    else if (inner.to == 1 && inner.from == 2)
        move_each(element, to, from, outer, (struct line){inner.n, 1, 2});
    else if (inner.to == 1 && inner.from == 0)
        move_each(element, to, from, outer, (struct line){inner.n, 1, 0});
    else
        move_each(element, to, from, outer, inner);
}

#define MOVE_ROWS(bytes)                                                                           \
    for (size_t i = 0; i < n; i++)                                                                 \
        memcpy(to + (int64_t)i * to_step, from + (int64_t)i * from_step, bytes);                   \
    break

#define LINE    64   // bytes that are moved at once
#define CALLING 2048 // bytes that are worth a call

// Its last LINE bytes are moved back so that they end with it.
static inline __attribute__((always_inline)) void move_row(uint8_t *to, const uint8_t *from,
                                                           size_t size)
{
    for (size_t i = 0; i + LINE <= size; i += LINE)
        memcpy(to + i, from + i, LINE);
    memcpy(to + size - LINE, from + size - LINE, LINE);
}

// n rows of `size` bytes. For the usual short ones a call would take longer than they do.
KERNEL(void, move_rows,
       (uint8_t * to, int64_t to_step, const uint8_t *from, int64_t from_step, size_t size,
        size_t n),
       (to, to_step, from, from_step, size, n))
{
    if (size > LINE && size < CALLING) {
        for (size_t i = 0; i < n; i++)
            move_row(to + (int64_t)i * to_step, from + (int64_t)i * from_step, size);
        return;
    }
    switch (size) {
    case 4:
        MOVE_ROWS(4);
    case 8:
        MOVE_ROWS(8);
    case 16:
        MOVE_ROWS(16);
    case 32:
        MOVE_ROWS(32);
    case 64:
        MOVE_ROWS(64);
    default:
        MOVE_ROWS(size);
    }
}

// Transposes a matrix: `rows` is contiguous in `from`, `row` in `to`.
static void copy_transpose(size_t element, uint8_t *to, const uint8_t *from, struct line rows,
                           struct line row)
{
    int64_t size = (int64_t)element;
    if (rows.to == (int64_t)row.n && interleave_fits(row.n, element))
        interleave_rows(from, row.from, row.n, rows.n, to, element);
    else if (row.from == (int64_t)rows.n && interleave_fits(rows.n, element))
        deinterleave_rows(from, row.n, rows.n, to, rows.to, element);
    else
        transpose_matrix(from, row.from * size, to, rows.to * size, row.n, rows.n, element);
}

// The two innermost dimensions, the longer of which is the inner loop.
static void move_plane(size_t element, uint8_t *to, const uint8_t *from, struct line rows,
                       struct line row)
{
    int64_t size = (int64_t)element;
    if (row.to == 1 && row.from == 1)
        move_rows(to, rows.to * size, from, rows.from * size, row.n * element, rows.n);
    else if (row.to == 1 && rows.from == 1)
        copy_transpose(element, to, from, rows, row);
    else if (row.n < rows.n)
        move_lines(element, to, from, row, rows);
    else
        move_lines(element, to, from, rows, row);
}

static struct line line_of(const struct nd *nd, uint32_t dim)
{
    return (struct line){(size_t)nd->dims[dim], nd->strides[0][dim], nd->strides[1][dim]};
}

// Moves the dimension that is contiguous in `from` next to the innermost one, if that is contiguous
// in `to` only: then the two are a matrix to be transposed.
static void find_plane(struct nd *nd)
{
    uint32_t last = nd->n_dims - 1;
    if (nd_stride(nd, 0) != 1 || nd_stride(nd, 1) == 1)
        return;
    for (uint32_t i = 0; i + 1 < last; i++)
        if (nd->strides[1][i] == 1 && nd->dims[i] >= PLANE_MIN)
            nd_swap(nd, i, last - 1);
}

// Three dimensions that are one piece of `to`, whose innermost one is short, and in the opposite
// order in `from`: the innermost one of that is the outermost one here.
struct block {
    struct line outer, middle, inner;
};

static bool is_block(const struct nd *nd, size_t element, struct block *b)
{
    if (nd->n_dims < 3 || element != 2)
        return false;
    *b = (struct block){line_of(nd, nd->n_dims - 3), line_of(nd, nd->n_dims - 2),
                        line_of(nd, nd->n_dims - 1)};
    size_t column = b->middle.n * b->inner.n;
    return interleave_fits(b->inner.n, element) && b->inner.to == 1 &&
           b->middle.to == (int64_t)b->inner.n && b->outer.to == (int64_t)column &&
           b->outer.from == 1 && b->outer.n >= BLOCK_COLUMNS && column * BLOCK_COLUMNS <= BLOCK;
}

// Planes are transposed, and then interleaved.
static void transpose_block(uint16_t *to, const uint16_t *from, const struct block *b)
{
    uint16_t planes[BLOCK];
    size_t column = b->middle.n * b->inner.n, max_columns = BLOCK / column;
    max_columns -= max_columns % BLOCK_COLUMNS;
    for (size_t first = 0; first < b->outer.n; first += max_columns) {
        size_t n = b->outer.n - first < max_columns ? b->outer.n - first : max_columns,
               plane = n * b->middle.n;
        for (size_t i = 0; i < b->inner.n; i++)
            transpose_matrix(from + first + (int64_t)i * b->inner.from, 2 * b->middle.from,
                             planes + i * plane, 2 * (ptrdiff_t)b->middle.n, b->middle.n, n, 2);
        interleave_rows(planes, (ptrdiff_t)plane, b->inner.n, plane, to + first * column, 2);
    }
}

static void move_all(const struct copy *c, uint8_t *to, const uint8_t *from)
{
    struct nd outer = c->nd;
    struct nd_position at;
    struct block block;
    int64_t size = (int64_t)c->to_size;
    if (is_block(&outer, c->to_size, &block)) {
        outer.n_dims -= 2;
        for (nd_start(&outer, &at); !at.end; nd_next(&outer, &at))
            transpose_block((uint16_t *)to + at.offset[0], (const uint16_t *)from + at.offset[1],
                            &block);
        return;
    }
    nd_split_inner(&outer);
    find_plane(&outer);
    struct line row = line_of(&outer, outer.n_dims - 1);
    struct line rows = line_of(&outer, --outer.n_dims - 1);
    for (nd_start(&outer, &at); !at.end; nd_next(&outer, &at))
        move_plane(c->to_size, to + at.offset[0] * size, from + at.offset[1] * size, rows, row);
}

// At most ELEMENTS_CHUNK contiguous elements.
static void convert_chunk(const struct copy *c, uint8_t *to, const uint8_t *from, size_t n)
{
    float values[ELEMENTS_CHUNK];
    if (c->in_line && n >= INT8_LINE_MIN) {
        int8_line_rows(&c->line, (const int8_t *)from, 0, n, 1, (int8_t *)to, 0);
        return;
    }
    if (c->mapped) {
        int8_map(c->table, (const int8_t *)from, n, (int8_t *)to);
        return;
    }
    elements_load(&c->from, from, n, values);
    elements_store(&c->to, to, n, values);
}

static void convert_row(const struct copy *c, uint8_t *to, int64_t to_step, const uint8_t *from,
                        int64_t from_step, size_t n)
{
    float values[ELEMENTS_CHUNK];
    for (size_t done = 0; done < n; done += ELEMENTS_CHUNK) {
        size_t part = n - done < ELEMENTS_CHUNK ? n - done : ELEMENTS_CHUNK;
        uint8_t *a = to + (int64_t)done * to_step * (int64_t)c->to_size;
        const uint8_t *b = from + (int64_t)done * from_step * (int64_t)c->from_size;
        if (to_step == 1 && from_step == 1) {
            convert_chunk(c, a, b, part);
            continue;
        }
        if (c->mapped) {
            for (size_t i = 0; i < part; i++)
                a[(int64_t)i * to_step] = (uint8_t)c->table[b[(int64_t)i * from_step]];
            continue;
        }
        elements_load_strided(&c->from, b, from_step, part, values);
        elements_store_strided(&c->to, a, to_step, part, values);
    }
}

// Short rows are gathered, converted many at a time, and scattered.
static bool rows_are_short(const struct copy *c)
{
    const struct nd *nd = &c->nd;
    return nd->n_dims == 2 && nd->dims[1] > 0 && nd_stride(nd, 0) == 1 && nd_stride(nd, 1) == 1 &&
           nd->dims[1] <= ELEMENTS_CHUNK / 2;
}

static void convert_rows(const struct copy *c, uint8_t *to, const uint8_t *from)
{
    uint8_t read[ELEMENTS_CHUNK * sizeof(int64_t)], stored[ELEMENTS_CHUNK * sizeof(int64_t)];
    size_t rows = (size_t)c->nd.dims[0], row = nd_inner(&c->nd), together = ELEMENTS_CHUNK / row;
    int64_t size = (int64_t)(row * c->to_size), step = c->nd.strides[0][0] * (int64_t)c->to_size;
    int64_t from_size = (int64_t)(row * c->from_size),
            from_step = c->nd.strides[1][0] * (int64_t)c->from_size;
    if (c->in_line && row >= INT8_LINE_MIN) {
        int8_line_rows(&c->line, (const int8_t *)from, from_step, row, rows, (int8_t *)to, step);
        return;
    }
    if (c->mapped && int8_maps_rows(row)) {
        int8_map_rows(c->table, (const int8_t *)from, from_step, row, rows, (int8_t *)to, step);
        return;
    }
    for (size_t done = 0; done < rows; done += together) {
        size_t n = rows - done < together ? rows - done : together;
        const uint8_t *x = from + (int64_t)done * from_step;
        uint8_t *y = to + (int64_t)done * step;
        if (from_step != from_size)
            move_rows(read, from_size, x, from_step, (size_t)from_size, n);
        convert_chunk(c, step == size ? y : stored, from_step == from_size ? x : read, n * row);
        if (step != size)
            move_rows(y, step, stored, size, (size_t)size, n);
    }
}

// Integers without a scale are copied as integers: floats would not hold large ones.
static void convert_integers(const struct copy *c, uint8_t *to, int64_t to_step,
                             const uint8_t *from, int64_t from_step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *a = from + (int64_t)i * from_step * 4;
        uint8_t *b = to + (int64_t)i * to_step * (int64_t)c->to_size;
        if (c->from.type == TENSOR_INT64)
            write_le32(b, (uint32_t)read_le64(from + (int64_t)i * from_step * 8));
        else
            write_le64(b, (uint64_t)(int64_t)(int32_t)read_le32(a));
    }
}

static void convert_all(const struct copy *c, uint8_t *to, const uint8_t *from)
{
    struct nd_position at;
    struct nd nd = c->nd;
    if (nd.n_dims > 1 && nd.dims[nd.n_dims - 1] < PLANE_MIN &&
        nd.dims[nd.n_dims - 2] > nd.dims[nd.n_dims - 1])
        nd_swap(&nd, nd.n_dims - 2, nd.n_dims - 1); // the longer loop inside
    size_t n = nd_inner(&nd);
    int64_t to_step = nd_stride(&nd, 0), from_step = nd_stride(&nd, 1);
    bool integers = (c->to.type == TENSOR_INT64 && c->from.type == TENSOR_INT32) ||
                    (c->to.type == TENSOR_INT32 && c->from.type == TENSOR_INT64);
    integers = integers && !c->to.quantized && !c->from.quantized;
    if (!integers && rows_are_short(c)) {
        convert_rows(c, to, from);
        return;
    }
    for (nd_start(&nd, &at); !at.end; nd_next(&nd, &at)) {
        uint8_t *a = to + at.offset[0] * (int64_t)c->to_size;
        const uint8_t *b = from + at.offset[1] * (int64_t)c->from_size;
        (integers ? convert_integers : convert_row)(c, a, to_step, b, from_step, n);
    }
}

void copy_run(const struct copy *c, void *to, const void *from)
{
    uint8_t *a = (uint8_t *)to + c->to_at * (int64_t)c->to_size;
    const uint8_t *b = (const uint8_t *)from + c->from_at * (int64_t)c->from_size;
    (c->same ? move_all : convert_all)(c, a, b);
}
