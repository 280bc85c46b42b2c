// Transposed matrices: every element is where it belongs, nothing else is touched or read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/transpose.h"

#define GAP 3 // elements between rows

static uint8_t byte_of(size_t at, size_t salt)
{
    return (uint8_t)((at + salt) * 167 + (at >> 8) * 59);
}

// Memory that ends with its last element, so that a sanitizer sees what is read behind it.
static uint8_t *matrix_new(size_t rows, size_t pitch, size_t columns, size_t element, size_t salt)
{
    size_t size = ((rows - 1) * pitch + columns) * element;
    uint8_t *m = malloc(size);
    assert_non_null(m);
    for (size_t i = 0; i < size; i++)
        m[i] = byte_of(i, salt);
    return m;
}

static void check(size_t rows, size_t columns, size_t gap, size_t element)
{
    size_t src_pitch = columns + gap, dst_pitch = rows + gap;
    uint8_t *src = matrix_new(rows, src_pitch, columns, element, 1);
    uint8_t *dst = matrix_new(columns, dst_pitch, rows, element, 7);
    uint8_t *wanted = matrix_new(columns, dst_pitch, rows, element, 7);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(wanted + (c * dst_pitch + r) * element, src + (r * src_pitch + c) * element,
                   element);
    transpose_matrix(src, (ptrdiff_t)(src_pitch * element), dst, (ptrdiff_t)(dst_pitch * element),
                     rows, columns, element);
    assert_memory_equal(dst, wanted, ((columns - 1) * dst_pitch + rows) * element);
    free(src);
    free(dst);
    free(wanted);
}

static void every_size(void **state)
{
    (void)state;
    static const size_t elements[] = {1, 2, 4, 8};
    for (size_t e = 0; e < 4; e++)
        for (size_t rows = 1; rows < 40; rows++)
            for (size_t columns = 1; columns < 40; columns++) {
                check(rows, columns, 0, elements[e]);
                check(rows, columns, GAP, elements[e]);
            }
}

static void many_rows_of_bytes(void **state)
{
    (void)state;
    for (size_t rows = 60; rows < 200; rows += 3)
        for (size_t columns = 15; columns < 50; columns++) {
            check(rows, columns, 0, 1);
            check(rows, columns, GAP, 1);
        }
}

static void rows_from_the_end(void **state)
{
    (void)state;
    uint8_t src[20 * 4], dst[20 * 4];
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)i;
    transpose_matrix(src + 19 * 4, -4, dst, 20, 20, 4, 1);
    for (size_t r = 0; r < 20; r++)
        for (size_t c = 0; c < 4; c++)
            assert_int_equal(dst[c * 20 + r], src[(19 - r) * 4 + c]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(many_rows_of_bytes),
        cmocka_unit_test(rows_from_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
