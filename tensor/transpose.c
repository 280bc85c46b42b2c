// Matrices transposed by squares of N x N elements, N being the elements of a vector; what is left,
// element by element.
//
// A square is N vectors. In log2 N rounds each row of the upper half is interleaved with its row of
// the lower half; each round moves one bit of the row number into the column number. For N = 4:
//
//   a0 a1 a2 a3        a0 c0 a1 c1        a0 b0 c0 d0
//   b0 b1 b2 b3  --->  a2 c2 a3 c3  --->  a1 b1 c1 d1
//   c0 c1 c2 c3        b0 d0 b1 d1        a2 b2 c2 d2
//   d0 d1 d2 d3        b2 d2 b3 d3        a3 b3 c3 d3
//
//   element    1 byte                2 bytes                  4 bytes              8 bytes
//   square     16 x 16               8 x 8                    4 x 4                one by one
//   AVX2       2 of them, 32 x 16    2, 16 x 8                2, 8 x 4
//   AVX512     4, 64 x 16            8, 32 x 16; 4, 32 x 8    16, 16 x 16; 4, 16 x 4
//
// Why it is fast: loads and stores are whole vectors, a square stays in registers, and there are
// log2 N shuffles for each vector. Of AVX512 stores are aligned where the columns are. The last
// squares are moved back so that they end where the matrix ends: some elements are written twice.
// Values are never changed.
//
// Tests: test_tensor_transpose (every_size, many_rows_of_bytes, rows_from_the_end).
#include "tensor/transpose.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

struct matrix {
    const uint8_t *src;
    uint8_t *dst;
    ptrdiff_t src_pitch, dst_pitch;
    size_t rows, columns; // of src
};

// ---- squares ----

#define VECTOR_BYTES 16
#define WIDE_BYTES   32

typedef uint8_t vector_1 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vector_2 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vector_4 __attribute__((vector_size(VECTOR_BYTES)));

// The lower and the upper halves of two vectors, interleaved.
#define LOW_1(a, b)                                                                                \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_1(a, b)                                                                               \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_2(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_4(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

// A vector of `size` bytes, or more than half of it.
static inline __attribute__((always_inline)) void transpose_store(uint8_t *dst, const uint8_t *v,
                                                                  size_t size, size_t bytes)
{
    size_t half = size / 2, rest = bytes - half;
    if (rest == half) {
        memcpy(dst, v, size);
        return;
    }
    memcpy(dst, v, half);
    memcpy(dst + rest, v + rest, half);
}

// A square: of its rows the first n_in are read (the first one again in place of the others), and
// the first n_out of the transposed ones are written. Constant numbers keep whole squares in
// registers.
#define SQUARE(type, size, bytes, target)                                                          \
    target static inline __attribute__((always_inline)) void square_##type(                        \
        const uint8_t *src, ptrdiff_t src_pitch, size_t n_in, uint8_t *dst, ptrdiff_t dst_pitch,   \
        size_t n_out)                                                                              \
    {                                                                                              \
        enum { N = bytes / size };                                                                 \
        vector_##type a[N], b[N];                                                                  \
        for (size_t i = 0; i < N; i++)                                                             \
            memcpy(&a[i], src + (ptrdiff_t)(i < n_in ? i : 0) * src_pitch, bytes);                 \
        for (int done = 1; done < N; done *= 2) {                                                  \
            for (int i = 0; i < N / 2; i++) {                                                      \
                b[2 * i] = LOW_##type(a[i], a[i + N / 2]);                                         \
                b[2 * i + 1] = HIGH_##type(a[i], a[i + N / 2]);                                    \
            }                                                                                      \
            memcpy(a, b, sizeof a);                                                                \
        }                                                                                          \
        for (size_t i = 0; i < n_out; i++)                                                         \
            transpose_store(dst + (ptrdiff_t)i * dst_pitch, (const uint8_t *)&a[i], bytes,         \
                            n_in * size);                                                          \
    }                                                                                              \
    target static void transpose_square_##type(const struct matrix *m, size_t row, size_t n_in,    \
                                               size_t column, size_t n_out)                        \
    {                                                                                              \
        enum { N = bytes / size };                                                                 \
        const uint8_t *src = m->src + (ptrdiff_t)row * m->src_pitch + column * size;               \
        uint8_t *dst = m->dst + (ptrdiff_t)column * m->dst_pitch + row * size;                     \
        if (n_in == N && n_out == N)                                                               \
            square_##type(src, m->src_pitch, N, dst, m->dst_pitch, N);                             \
        else                                                                                       \
            square_##type(src, m->src_pitch, n_in, dst, m->dst_pitch, n_out);                      \
    }

SQUARE(1, 1, VECTOR_BYTES, )
SQUARE(2, 2, VECTOR_BYTES, )
SQUARE(4, 4, VECTOR_BYTES, )

typedef void transpose_square(const struct matrix *m, size_t row, size_t n_in, size_t column,
                              size_t n_out);

static transpose_square *const transpose_square_of[] = {
    [1] = transpose_square_1, [2] = transpose_square_2, [4] = transpose_square_4};

// Squares of a matrix that is wide enough for them.
static void transpose_squares(const struct matrix *m, size_t n, size_t first,
                              transpose_square *turn)
{
    size_t n_in = m->rows < n ? m->rows : n;
    for (size_t row = 0; row < m->rows; row += row ? n : first)
        for (size_t column = 0; column < m->columns; column += n)
            turn(m, row + n_in > m->rows ? m->rows - n_in : row, n_in,
                 column + n > m->columns ? m->columns - n : column, n);
}

#ifdef __x86_64__
// How many rows the first ones of n are, for what is written behind them to begin with a line of
// the cache: a vector of a whole line that lies in two takes twice as long.
static size_t transpose_first_rows(const struct matrix *m, size_t n, size_t element)
{
    size_t before = (uintptr_t)m->dst % (n * element) / element;
    return n - before;
}

// Squares below each other, one in each 128-bit lane of a vector, whose unpacking does not leave
// lanes.
#define SQUARES(count, TARGET, vector, store, size, low, high)                                     \
    TARGET static void transpose_##count##_##size(const struct matrix *m, size_t row,              \
                                                  size_t column)                                   \
    {                                                                                              \
        enum { N = VECTOR_BYTES / size };                                                          \
        const uint8_t *src = m->src + (ptrdiff_t)row * m->src_pitch + column * size;               \
        uint8_t *dst = m->dst + (ptrdiff_t)column * m->dst_pitch + row * size;                     \
        vector a[N], b[N];                                                                         \
        for (int i = 0; i < N; i++, src += m->src_pitch)                                           \
            a[i] = transpose_load_##count(src, N * m->src_pitch);                                  \
        for (int done = 1; done < N; done *= 2) {                                                  \
            for (int i = 0; i < N / 2; i++) {                                                      \
                b[2 * i] = low(a[i], a[i + N / 2]);                                                \
                b[2 * i + 1] = high(a[i], a[i + N / 2]);                                           \
            }                                                                                      \
            memcpy(a, b, sizeof a);                                                                \
        }                                                                                          \
        for (int i = 0; i < N; i++, dst += m->dst_pitch)                                           \
            store((void *)dst, a[i]);                                                              \
    }

// Two, with AVX2.
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i transpose_load_two(const uint8_t *src, ptrdiff_t step)
{
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const void *)src));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const void *)(src + step)), 1);
}

#define TWO(size, low, high) SQUARES(two, AVX2, __m256i, _mm256_storeu_si256, size, low, high)
TWO(1, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8)
TWO(2, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16)
TWO(4, _mm256_unpacklo_epi32, _mm256_unpackhi_epi32)

// False: the matrix is too small.
static bool transpose_twos(const struct matrix *m, size_t element)
{
    static void (*const two[])(const struct matrix *m, size_t row, size_t column) = {
        [1] = transpose_two_1, [2] = transpose_two_2, [4] = transpose_two_4};
    size_t rows = WIDE_BYTES / element, columns = VECTOR_BYTES / element;
    if (element > 4 || m->rows < rows || m->columns < columns || !__builtin_cpu_supports("avx2"))
        return false;
    size_t last_row = m->rows - rows, last_column = m->columns - columns;
    for (size_t row = 0; row < m->rows; row += rows)
        for (size_t column = 0; column < m->columns; column += columns)
            two[element](m, row < last_row ? row : last_row,
                         column < last_column ? column : last_column);
    return true;
}

// Four squares below each other, one in each 128-bit lane of the vectors: the columns come out as
// 64 contiguous bytes, a line of the cache.
#define TALL_BYTES   64
#define WIDE_COLUMNS 16 // of all elements
#define AVX512BW     __attribute__((target("avx512bw")))

AVX512BW static inline __m512i transpose_load_four(const uint8_t *src, ptrdiff_t step)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)src));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(src + step)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(src + 2 * step)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(src + 3 * step)), 3);
}

// `chunks` such columns of squares beside each other are read together: rows that are a power of
// two apart share few lines of the first cache, which would be gone when the next columns need
// them.
#define FOUR(name, size, chunks, low, high)                                                        \
    AVX512BW static void transpose_four_##name(const struct matrix *m, size_t row, size_t column)  \
    {                                                                                              \
        enum { N = VECTOR_BYTES / size };                                                          \
        const uint8_t *src = m->src + (ptrdiff_t)row * m->src_pitch + column * size;               \
        uint8_t *dst = m->dst + (ptrdiff_t)column * m->dst_pitch + row * size;                     \
        __m512i all[chunks][N], b[N];                                                              \
        for (int i = 0; i < N; i++, src += m->src_pitch)                                           \
            for (int c = 0; c < chunks; c++)                                                       \
                all[c][i] =                                                                        \
                    transpose_load_four(src + (ptrdiff_t)c * VECTOR_BYTES, N * m->src_pitch);      \
        for (int c = 0; c < chunks; c++) {                                                         \
            __m512i *a = all[c];                                                                   \
            for (int done = 1; done < N; done *= 2) {                                              \
                for (int i = 0; i < N / 2; i++) {                                                  \
                    b[2 * i] = low(a[i], a[i + N / 2]);                                            \
                    b[2 * i + 1] = high(a[i], a[i + N / 2]);                                       \
                }                                                                                  \
                memcpy(a, b, sizeof b);                                                            \
            }                                                                                      \
            for (int i = 0; i < N; i++, dst += m->dst_pitch)                                       \
                _mm512_storeu_si512(dst, a[i]);                                                    \
        }                                                                                          \
    }

FOUR(1, 1, 1, _mm512_unpacklo_epi8, _mm512_unpackhi_epi8)
FOUR(2, 2, 1, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16)
FOUR(4, 4, 1, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32)
FOUR(4_wide, 4, 4, _mm512_unpacklo_epi32, _mm512_unpackhi_epi32)

// Of 2 bytes where there are 16 columns: 32 x 16, whose rows are read by one load. A vector has the
// rows i and i + 16, so each lane becomes 8 rows of a column, and a column is four lanes of two
// vectors.
AVX512BW static inline __attribute__((always_inline)) void
transpose_eight_rows(const uint8_t *src, ptrdiff_t pitch, __m512i a[8])
{
    __m512i b[8];
    for (int i = 0; i < 8; i++, src += pitch)
        a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)src)),
                                  _mm256_loadu_si256((const void *)(src + 16 * pitch)), 1);
    for (int done = 1; done < 8; done *= 2) {
        for (int i = 0; i < 4; i++) {
            b[2 * i] = _mm512_unpacklo_epi16(a[i], a[i + 4]);
            b[2 * i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 4]);
        }
        memcpy(a, b, sizeof b);
    }
}

AVX512BW static void transpose_four_2_wide(const struct matrix *m, size_t row, size_t column)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const uint8_t *src = m->src + (ptrdiff_t)row * m->src_pitch + column * 2;
    uint8_t *dst = m->dst + (ptrdiff_t)column * m->dst_pitch + row * 2;
    __m512i a[8], b[8];
    transpose_eight_rows(src, m->src_pitch, a);
    transpose_eight_rows(src + 8 * m->src_pitch, m->src_pitch, b);
    for (int i = 0; i < 8; i++, dst += m->dst_pitch) {
        _mm512_storeu_si512(dst, _mm512_permutex2var_epi64(a[i], first, b[i]));
        _mm512_storeu_si512(dst + 8 * m->dst_pitch, _mm512_permutex2var_epi64(a[i], second, b[i]));
    }
}

typedef void transpose_block(const struct matrix *m, size_t row, size_t column);

// Blocks of `rows` by `columns`; where so many more columns are left, `wide` takes them at once.
static void transpose_blocks(const struct matrix *m, size_t rows, size_t columns, size_t first,
                             transpose_block *narrow, transpose_block *wide)
{
    size_t last_row = m->rows - rows, last_column = m->columns - columns;
    for (size_t row = 0; row < m->rows; row += row ? rows : first) {
        size_t at = row < last_row ? row : last_row, column = 0;
        for (; column + WIDE_COLUMNS <= m->columns; column += WIDE_COLUMNS)
            wide(m, at, column);
        for (; column < m->columns; column += columns)
            narrow(m, at, column < last_column ? column : last_column);
    }
}

// False: the matrix is too small.
static bool transpose_tall(const struct matrix *m, size_t element)
{
    static transpose_block *const four[] = {
        [1] = transpose_four_1, [2] = transpose_four_2, [4] = transpose_four_4};
    size_t rows = TALL_BYTES / element, columns = VECTOR_BYTES / element;
    if (element > 4 || m->rows < rows || m->columns < columns ||
        !__builtin_cpu_supports("avx512bw"))
        return false;
    transpose_blocks(m, rows, columns, transpose_first_rows(m, rows, element), four[element],
                     element == 4   ? transpose_four_4_wide
                     : element == 2 ? transpose_four_2_wide
                                    : transpose_four_1);
    return true;
}
#else
static bool transpose_twos(const struct matrix *m, size_t element)
{
    (void)m, (void)element;
    return false;
}

static bool transpose_tall(const struct matrix *m, size_t element)
{
    (void)m, (void)element;
    return false;
}
#endif

// ---- one by one ----

#define MOVE(size)                                                                                 \
    for (size_t r = row; r < m->rows; r++)                                                         \
        for (size_t c = 0; c < m->columns; c++)                                                    \
            memcpy(m->dst + (ptrdiff_t)c * m->dst_pitch + r * size,                                \
                   m->src + (ptrdiff_t)r * m->src_pitch + c * size, size);                         \
    break

static void transpose_rest(const struct matrix *m, size_t row, size_t element)
{
    switch (element) {
    case 1:
        MOVE(1);
    case 2:
        MOVE(2);
    case 4:
        MOVE(4);
    default:
        MOVE(8);
    }
}

// A matrix with rows shorter than a square: vectors are read beyond the end of its rows, as long as
// that is still inside the matrix.
static void transpose_short_rows(const struct matrix *m, size_t n, size_t element)
{
    size_t row = 0, width = m->columns * element, pitch = (size_t)m->src_pitch;
    for (; row + n <= m->rows && (m->rows - row - n) * pitch + width >= VECTOR_BYTES; row += n)
        transpose_square_of[element](m, row, n, 0, m->columns);
    transpose_rest(m, row, element);
}

void transpose_matrix(const void *src, ptrdiff_t src_pitch, void *dst, ptrdiff_t dst_pitch,
                      size_t rows, size_t columns, size_t element)
{
    const struct matrix m = {src, dst, src_pitch, dst_pitch, rows, columns};
    size_t n = VECTOR_BYTES / element;
    if (transpose_tall(&m, element) || transpose_twos(&m, element))
        return;
    if (element <= 4 && rows > n / 2 && columns >= n)
        transpose_squares(&m, n, n, transpose_square_of[element]);
    else if (element <= 4 && rows >= n && src_pitch > 0)
        transpose_short_rows(&m, n, element);
    else
        transpose_rest(&m, 0, element);
}
