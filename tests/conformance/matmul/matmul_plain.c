// Products of matrices, written down plainly.
#include "matmul_plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int type;
    const char *name;
    enum plain_number a, b, c;
} types[] = {
    {1, "fp16 x fp16 -> fp32", PLAIN_F16, PLAIN_F16, PLAIN_F32},
    {2, "int8 x int8 -> int32", PLAIN_I8, PLAIN_I8, PLAIN_I32},
    {3, "int8 x int8 -> int8", PLAIN_I8, PLAIN_I8, PLAIN_I8},
    {4, "fp16 x fp16 -> fp16", PLAIN_F16, PLAIN_F16, PLAIN_F16},
    {5, "fp16 x int8 -> fp32", PLAIN_F16, PLAIN_I8, PLAIN_F32},
    {7, "fp16 x int4 -> fp32", PLAIN_F16, PLAIN_I4, PLAIN_F32},
    {8, "fp16 x int4 -> fp16", PLAIN_F16, PLAIN_I4, PLAIN_F16},
    {9, "int8 x int8 -> fp32", PLAIN_I8, PLAIN_I8, PLAIN_F32},
    {10, "int4 x int4 -> int16", PLAIN_I4, PLAIN_I4, PLAIN_I16},
    {11, "int8 x int4 -> int32", PLAIN_I8, PLAIN_I4, PLAIN_I32},
};
#define N_TYPES (sizeof types / sizeof *types)

static const struct {
    const char *chip;
    int types[8]; // 0: end
    bool transposed;
    int a_i8, a_f16;       // elements of a row in a block of A
    int b_i8[2], b_f16[2]; // rows (of N) and columns (of K) in a block of B
    uint32_t segment;      // of K; 0: none
} chips[] = {
    {"rk3562", {2, 1}, true, 16, 8, {16, 32}, {8, 32}, 0},
    {"rk3566", {2, 1}, false, 8, 4, {16, 32}, {8, 16}, 0},
    {"rk3568", {2, 1}, false, 8, 4, {16, 32}, {8, 16}, 0},
    {"rk3576", {4, 1, 2, 5, 8, 7, 11}, true, 16, 8, {32, 32}, {16, 32}, 4096},
    {"rk3588", {4, 1, 2, 9, 3, 10}, true, 16, 8, {32, 32}, {16, 32}, 8192},
};
#define N_CHIPS (sizeof chips / sizeof *chips)

static size_t find_chip(const char *name)
{
    size_t i = 0;
    while (strcmp(chips[i].chip, name) != 0)
        i++;
    return i;
}

static size_t find_type(int type)
{
    size_t i = 0;
    while (types[i].type != type)
        i++;
    return i;
}

bool plain_offered(const char *chip, int type, int b_layout)
{
    size_t c = find_chip(chip);
    bool has = false;
    for (int i = 0; i < 8; i++)
        has |= chips[c].types[i] == type;
    return has && (b_layout != 2 || chips[c].transposed);
}

enum plain_number plain_number(int type, char matrix)
{
    size_t t = find_type(type);
    return matrix == 'A' ? types[t].a : matrix == 'B' ? types[t].b : types[t].c;
}

const char *plain_type_name(int type)
{
    return types[find_type(type)].name;
}

// ---- places ----

static uint32_t column_block(const struct plain_case *p, char matrix)
{
    size_t c = find_chip(p->chip);
    switch (plain_number(p->type, matrix)) {
    case PLAIN_I4:
        return 32;
    case PLAIN_I8:
        return matrix == 'A' ? (uint32_t)chips[c].a_i8 : 16;
    case PLAIN_F16:
        return matrix == 'A' ? (uint32_t)chips[c].a_f16 : 8;
    case PLAIN_I16:
        return 8;
    default:
        return 4;
    }
}

// Of B, by A's type.
static void b_block(const struct plain_case *p, uint32_t *n, uint32_t *k)
{
    size_t c = find_chip(p->chip);
    enum plain_number a = plain_number(p->type, 'A');
    const int *block = a == PLAIN_F16 ? chips[c].b_f16 : chips[c].b_i8;
    *n = a == PLAIN_I4 ? 64 : (uint32_t)block[0];
    *k = a == PLAIN_I4 ? 32 : (uint32_t)block[1];
}

static uint64_t at_b_native(const struct plain_case *p, uint32_t k, uint32_t n)
{
    uint32_t sub_n, sub_k, segment = chips[find_chip(p->chip)].segment;
    uint64_t before = 0;
    uint32_t length = p->k;
    b_block(p, &sub_n, &sub_k);
    for (; segment && length > segment && k >= segment; k -= segment, length -= segment)
        before += (uint64_t)segment * p->n;
    if (segment && length > segment)
        length = segment;
    // [N / sub_n, K / sub_k, sub_n, sub_k]
    return before +
           (((uint64_t)(n / sub_n) * (length / sub_k) + k / sub_k) * sub_n + n % sub_n) * sub_k +
           k % sub_k;
}

uint64_t plain_at(const struct plain_case *p, char matrix, uint32_t row, uint32_t column)
{
    uint32_t columns = matrix == 'A' ? p->k : p->n;
    if (matrix == 'B' && p->b_layout == 1)
        return at_b_native(p, row, column);
    if (matrix == 'B' && p->b_layout == 2)
        return (uint64_t)column * p->k + row;
    if (matrix != 'B' && p->ac_layout == 1) {
        uint32_t sub = column_block(p, matrix); // [columns / sub, M, sub]
        return ((uint64_t)(column / sub) * p->m + row) * sub + column % sub;
    }
    return (uint64_t)row * columns + column;
}

uint32_t plain_dims(const struct plain_case *p, char matrix, uint32_t ret[4])
{
    uint32_t columns = matrix == 'A' ? p->k : p->n, rows = matrix == 'B' ? p->k : p->m;
    if (matrix == 'B' && p->b_layout == 1) {
        uint32_t sub_n, sub_k;
        b_block(p, &sub_n, &sub_k);
        memcpy(ret, (uint32_t[]){p->n / sub_n, p->k / sub_k, sub_n, sub_k}, 4 * sizeof *ret);
        return 4;
    }
    if (matrix != 'B' && p->ac_layout == 1) {
        uint32_t sub = column_block(p, matrix);
        memcpy(ret, (uint32_t[]){columns / sub, rows, sub}, 3 * sizeof *ret);
        return 3;
    }
    bool swapped = matrix == 'B' && p->b_layout == 2;
    ret[0] = swapped ? columns : rows;
    ret[1] = swapped ? rows : columns;
    return 2;
}

static size_t bytes_of(enum plain_number number, size_t n)
{
    static const size_t halves[] = {
        [PLAIN_F32] = 8, [PLAIN_F16] = 4, [PLAIN_I8] = 2,
        [PLAIN_I4] = 1,  [PLAIN_I16] = 4, [PLAIN_I32] = 8,
    };
    return n * halves[number] / 2;
}

size_t plain_bytes(const struct plain_case *p, char matrix)
{
    size_t n = (size_t)(matrix == 'B' ? p->k : p->m) * (matrix == 'A' ? p->k : p->n);
    return bytes_of(plain_number(p->type, matrix), n);
}

// ---- elements ----

static double half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                : ldexp(fraction + 1024, exponent - 25);
    return h >> 15 ? -v : v;
}

// Of a number that is a half, and not a subnormal one.
static uint16_t to_half(double v)
{
    int exponent;
    double fraction = frexp(fabs(v), &exponent);
    if (v == 0)
        return 0;
    return (uint16_t)((v < 0 ? 0x8000 : 0) + ((exponent + 14) << 10) + (int)(fraction * 2048) -
                      1024);
}

double plain_get(enum plain_number number, const void *data, uint64_t i)
{
    const uint8_t *bytes = data;
    int nibble;
    switch (number) {
    case PLAIN_F32:
        return (double)((const float *)data)[i];
    case PLAIN_F16:
        return half(((const uint16_t *)data)[i]);
    case PLAIN_I8:
        return ((const int8_t *)data)[i];
    case PLAIN_I16:
        return ((const int16_t *)data)[i];
    case PLAIN_I32:
        return ((const int32_t *)data)[i];
    default: // the low half of a byte comes first
        nibble = i % 2 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15;
        return nibble < 8 ? nibble : nibble - 16;
    }
}

void plain_set(enum plain_number number, void *data, uint64_t i, double value)
{
    uint8_t *bytes = data;
    if (number == PLAIN_F16)
        ((uint16_t *)data)[i] = to_half(value);
    else if (number == PLAIN_I8)
        ((int8_t *)data)[i] = (int8_t)value;
    else if (i % 2) // 4 bits
        bytes[i / 2] = (uint8_t)((bytes[i / 2] & 15) | ((int)value & 15) << 4);
    else
        bytes[i / 2] = (uint8_t)((bytes[i / 2] & 240) | ((int)value & 15));
}

// ---- problems ----

uint32_t plain_n_scales(const struct plain_case *p)
{
    return p->b_quant >= 4 ? p->n * (p->k / p->group_size) : p->b_quant >= 2 ? p->n : 1;
}

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

static double draw_value(enum plain_number number)
{
    if (number == PLAIN_I8)
        return (int)draw(256) - 128;
    if (number == PLAIN_I4)
        return (int)draw(16) - 8;
    return ((int)draw(2048) - 1024) / 512.0;
}

static float draw_scale(void)
{
    return (float)(1 + draw(1000)) / 1000;
}

static void make_quant(struct plain_problem *x, bool quantized)
{
    const struct plain_case *p = &x->which;
    struct plain_quant *q = &x->quant;
    bool a_is_int = plain_number(p->type, 'A') != PLAIN_F16;
    bool b_is_int = plain_number(p->type, 'B') != PLAIN_F16;
    bool c_is_int = a_is_int && plain_number(p->type, 'C') != PLAIN_F32;
    *q = (struct plain_quant){.a_scale = 1, .c_scale = 1, .n_scales = plain_n_scales(p)};
    q->scales = calloc(q->n_scales, sizeof *q->scales);
    q->zps = calloc(q->n_scales, sizeof *q->zps);
    for (uint32_t i = 0; i < q->n_scales; i++) {
        q->scales[i] = quantized && b_is_int ? draw_scale() : 1;
        if (quantized && b_is_int && p->b_quant % 2)
            q->zps[i] = (int)draw(10) - 5;
    }
    if (quantized && a_is_int) {
        q->a_scale = draw_scale();
        q->a_zp = p->ac_quant ? (int)draw(20) - 10 : 0;
    }
    if (quantized && c_is_int && draw(2)) {
        q->c_set = true;
        q->c_scale = plain_number(p->type, 'C') == PLAIN_I8 ? 400 * draw_scale() : draw_scale();
        q->c_zp = p->ac_quant ? (int)draw(20) - 10 : 0;
    }
}

static uint8_t *make_matrix(const struct plain_case *p, char matrix)
{
    uint8_t *data = calloc(plain_bytes(p, matrix), 1);
    enum plain_number number = plain_number(p->type, matrix);
    uint32_t rows = matrix == 'A' ? p->m : p->k, columns = matrix == 'A' ? p->k : p->n;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++)
            plain_set(number, data, plain_at(p, matrix, r, c), draw_value(number));
    return data;
}

void plain_problem_make(struct plain_problem *x, const struct plain_case *which, bool quantized)
{
    x->which = *which;
    make_quant(x, quantized);
    x->a = make_matrix(which, 'A');
    x->b = make_matrix(which, 'B');
}

void plain_problem_done(struct plain_problem *x)
{
    free(x->quant.scales);
    free(x->quant.zps);
    free(x->a);
    free(x->b);
}

// ---- what comes out ----

// The real value of an element of C; *ret_size is the sum of its terms' sizes.
static double real_value(const struct plain_problem *x, uint32_t m, uint32_t n, double *ret_size)
{
    const struct plain_case *p = &x->which;
    const struct plain_quant *q = &x->quant;
    uint32_t groups = p->b_quant >= 4 ? p->k / p->group_size : 1;
    double sum = 0;
    *ret_size = 0;
    for (uint32_t k = 0; k < p->k; k++) {
        uint32_t at = q->n_scales == 1 ? 0 : n * groups + (groups > 1 ? k / p->group_size : 0);
        double a = plain_get(plain_number(p->type, 'A'), x->a, plain_at(p, 'A', m, k));
        double b = plain_get(plain_number(p->type, 'B'), x->b, plain_at(p, 'B', k, n));
        double term = (a - q->a_zp) * (double)q->a_scale * (b - q->zps[at]) * (double)q->scales[at];
        sum += term;
        *ret_size += fabs(term);
    }
    return sum;
}

// A step of C where the program has not said it.
static double c_step(const struct plain_problem *x)
{
    const struct plain_quant *q = &x->quant;
    float largest = 0;
    if (q->c_set || plain_number(x->which.type, 'C') == PLAIN_I8)
        return (double)q->c_scale;
    for (uint32_t i = 0; i < q->n_scales; i++)
        largest = q->scales[i] > largest ? q->scales[i] : largest;
    return (double)q->a_scale * (double)largest;
}

static bool integer_is_right(enum plain_number number, double exact, double got)
{
    double most = number == PLAIN_I8 ? 127 : number == PLAIN_I16 ? 32767 : 2147483647;
    double low = floor(exact), part = exact - low;
    if (exact <= -most - 1 || exact >= most)
        return got == (exact < 0 ? -most - 1 : most);
    if (fabs(part - 0.5) < 1e-6)
        return got == low || got == low + 1;
    return got == (part < 0.5 ? low : low + 1);
}

static bool element_is_right(const struct plain_problem *x, uint32_t m, uint32_t n, double got)
{
    enum plain_number number = plain_number(x->which.type, 'C');
    double size, exact = real_value(x, m, n, &size);
    if (number == PLAIN_F32)
        return fabs(got - exact) <= 1e-6 * size;
    if (number == PLAIN_F16)
        return fabs(got - exact) <= 1e-6 * size + fabs(exact) / 2000;
    return integer_is_right(number, exact / c_step(x) + x->quant.c_zp, got);
}

static void print_case(const struct plain_case *p)
{
    printf("%s %s, B layout %d, AC layout %d, B quant %d, AC quant %d, group %u, %u x %u x %u: ",
           p->chip, plain_type_name(p->type), p->b_layout, p->ac_layout, p->b_quant, p->ac_quant,
           p->group_size, p->m, p->k, p->n);
}

static bool row_is_right(const struct plain_problem *x, uint32_t m, const void *c)
{
    const struct plain_case *p = &x->which;
    enum plain_number number = plain_number(p->type, 'C');
    double size;
    for (uint32_t n = 0; n < p->n; n++) {
        double got = plain_get(number, c, plain_at(p, 'C', m, n));
        if (element_is_right(x, m, n, got))
            continue;
        print_case(p);
        printf("C(%u, %u) is %.9g, not %.9g\n", m, n, got,
               real_value(x, m, n, &size) / c_step(x) + x->quant.c_zp);
        return false;
    }
    return true;
}

bool plain_check_some(const struct plain_problem *x, const void *c, uint32_t step)
{
    bool right = row_is_right(x, x->which.m - 1, c);
    for (uint32_t m = 0; m < x->which.m && right; m += step)
        right = row_is_right(x, m, c);
    return right;
}

bool plain_check(const struct plain_problem *x, const void *c)
{
    return plain_check_some(x, c, 1);
}

// ---- all there are ----

void plain_for_each(void (*each)(const struct plain_case *p, void *owner), void *owner)
{
    for (size_t c = 0; c < N_CHIPS; c++)
        for (size_t t = 0; t < N_TYPES; t++)
            for (int layout = 0; layout < 6; layout++)
                for (int quant = 0; quant < 12; quant++) {
                    struct plain_case p = {.chip = chips[c].chip,
                                           .type = types[t].type,
                                           .b_layout = layout / 2,
                                           .ac_layout = layout % 2,
                                           .b_quant = quant / 2,
                                           .ac_quant = quant % 2,
                                           .group_size = 32,
                                           .m = 5,
                                           .k = 96,
                                           .n = 64};
                    if (plain_offered(p.chip, p.type, p.b_layout) &&
                        (p.b_quant < 2 || types[t].b != PLAIN_F16))
                        each(&p, owner);
                }
}
