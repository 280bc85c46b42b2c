// Tables of fp16 convolutions on chips of which no file shows how they are reached: the table alone
// has to be the activation, for some gain and factor, and no other activation.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "npu/model/rknn/lower/rknn_lower.h"

#define STEP 32

static const enum graph_post_kind kinds[] = {POST_SIGMOID, POST_TANH, POST_SWISH,     POST_GELU,
                                             POST_MISH,    POST_ELU,  POST_HARD_SWISH};
static const double gains[] = {240, 819, 1638.4, 2048, 5000, 16000};

#define N_KINDS (sizeof kinds / sizeof *kinds)
#define N_GAINS (sizeof gains / sizeof *gains)

static struct graph_post post_of(enum graph_post_kind kind)
{
    bool hard = kind == POST_HARD_SWISH;
    return (struct graph_post){.kind = kind, .alpha = hard ? 1.0f / 6 : 1, .beta = hard ? 0.5f : 0};
}

static double value_of(enum graph_post_kind kind, double x)
{
    switch (kind) {
    case POST_SIGMOID:
        return 1 / (1 + exp(-x));
    case POST_TANH:
        return tanh(x);
    case POST_SWISH:
        return x / (1 + exp(-x));
    case POST_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case POST_MISH:
        return x * tanh(log1p(exp(x)));
    case POST_ELU:
        return x < 0 ? expm1(x) : x;
    default:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    }
}

// In 16 bits with sign, whose largest is that of the points; straight on beyond its end.
static struct graph_lut table_of(enum graph_post_kind kind, double gain)
{
    struct graph_lut lut = {0};
    double most = 0;
    for (int i = -512; i <= 512; i++)
        most = fmax(most, fabs(value_of(kind, i * STEP / gain)));
    for (int i = 0; i <= 512; i++) {
        lut.below[512 - i] = (int16_t)lrint(value_of(kind, -i * STEP / gain) / most * 32767);
        lut.above[i] = (int16_t)lrint(value_of(kind, i * STEP / gain) / most * 32767);
    }
    for (int k = 0; k < 2; k++) {
        double at = (k ? 512 : -512) * STEP / gain, far = 2 * at;
        double rise = (value_of(kind, far) - value_of(kind, at)) / most * 32767 / (512 * STEP);
        lut.slope_shift[k] = 12;
        lut.slope[k] = (int16_t)lrint((k ? rise : -rise) * 4096);
    }
    return lut;
}

static void test_tables_are_their_activations(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t g = 0; g < N_GAINS; g++) {
            struct graph_post p = post_of(kinds[k]);
            struct graph_lut lut = table_of(kinds[k], gains[g]);
            if (!lower_table_is(&p, &lut, NAN) || !lower_table_is(&p, &lut, gains[g]))
                fail_msg("activation %zu, gain %g: not found", k, gains[g]);
            if (lower_table_is(&p, &lut, gains[g] * 1.1))
                fail_msg("activation %zu, gain %g: another gain is taken", k, gains[g]);
        }
}

static void test_no_table_is_another_activation(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++)
        for (size_t other = 0; other < N_KINDS; other++)
            for (size_t g = 0; g < N_GAINS - 1; g++) { // the last reaches no further than 1
                struct graph_post p = post_of(kinds[other]);
                struct graph_lut lut = table_of(kinds[k], gains[g]);
                if (other != k && lower_table_is(&p, &lut, NAN))
                    fail_msg("activation %zu, gain %g: taken for %zu", k, gains[g], other);
            }
}

// One point that is far off, none at all, and one that stays 0.
static void test_spoilt_tables_are_refused(void **state)
{
    (void)state;
    struct graph_post p = post_of(POST_SWISH);
    struct graph_lut lut = table_of(POST_SWISH, 2048), empty = {0};
    lut.above[100] = (int16_t)(lut.above[100] + 200);
    assert_false(lower_table_is(&p, &lut, NAN));
    assert_false(lower_table_is(&p, &empty, NAN));
    lut = table_of(POST_SWISH, 2048);
    memset(lut.above, 0, sizeof lut.above);
    assert_false(lower_table_is(&p, &lut, NAN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_their_activations),
        cmocka_unit_test(test_no_table_is_another_activation),
        cmocka_unit_test(test_spoilt_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
