// The table of chips: names, variants, and what every row must say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/arithmetic.h"
#include "tensor/chip.h"

static void test_finds_by_name(void **state)
{
    (void)state;
    assert_string_equal(chip_find("RK3576")->name, "rk3576");
    assert_string_equal(chip_find("rk3588s")->name, "rk3588");
    assert_null(chip_find("rv1103b"));
    assert_null(chip_find(""));
}

// Letters may follow, digits would be another chip.
static void test_finds_variants(void **state)
{
    (void)state;
    assert_string_equal(chip_find_variant("rk3588")->name, "rk3588");
    assert_string_equal(chip_find_variant("rk3588s")->name, "rk3588");
    assert_string_equal(chip_find_variant("rv1103b")->name, "rv1103");
    assert_null(chip_find_variant("rk35881"));
    assert_null(chip_find_variant("rk358"));
    assert_null(chip_find_variant("any"));
}

// A row that lacks a number would divide by zero somewhere else.
static void test_rows_are_whole(void **state)
{
    (void)state;
    char names[CHIP_NAMES_MAX], *rest = NULL;
    unsigned n = 0;
    assert_cmp(strlen(chip_names(names)), <, CHIP_NAMES_MAX - 1);
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest), n++) {
        const struct chip *c = chip_find(name);
        assert_non_null(c);
        assert_non_null(chip_find(c->target));
        assert_true(c->n_cores);
        assert_true(c->mhz);
        assert_true(c->buffer_banks);
        assert_true(c->ddr_mb_per_s);
        assert_true(c->bias_group);
        assert_true(c->c2_int8);
        assert_true(c->c2_fp16);
        assert_true(c->macs_int8);
        assert_true(c->macs_fp16);
        assert_true(c->depthwise_int8);
        assert_cmp(c->generation, <, CHIP_N_GENERATIONS);
        if (c->matmul.types) {
            assert_true(c->matmul.a_unit);
            assert_true(c->matmul.int8_n);
            assert_true(c->matmul.fp16_n);
            assert_true(c->matmul.fp16_k);
            assert_true(c->matmul.n_unit);
        }
    }
    assert_cmp(n, >, 1);
    assert_string_equal(chip_default()->name, "rk3588");
}

static void test_switches_have_names_and_answers(void **state)
{
    (void)state;
    static const char *const names[] = {"rk3588", "rk3576", "rk3562", "rv1106", "rk3566"};
    for (unsigned i = 0; i < CHIP_N_SWITCHES; i++) {
        enum chip_switch s = (enum chip_switch)i;
        assert_non_null(chip_switch_name(s));
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(chip_switch_name(s), chip_switch_name((enum chip_switch)k));
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            assert_non_null(chip_switch_choice(s, chip_switch_taken(chip_find(names[k]), s)));
        assert_null(chip_switch_choice(s, CHIP_SWITCH_CHOICES));
    }
}

static void test_a_chip_may_have_answers_of_its_own(void **state)
{
    (void)state;
    const uint8_t other[CHIP_N_SWITCHES] = {[CHIP_LUT_LINE] = CHIP_LINE_TOWARDS_ZERO};
    struct chip chip = *chip_find("rk3588");
    chip.arithmetic = other;
    assert_int_equal(chip_switch_taken(&chip, CHIP_LUT_LINE), CHIP_LINE_TOWARDS_ZERO);
    assert_int_equal(chip_switch_taken(&chip, CHIP_OUT_ZP), CHIP_OUT_ZP_BEFORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switches_have_names_and_answers),
        cmocka_unit_test(test_a_chip_may_have_answers_of_its_own),
        cmocka_unit_test(test_finds_by_name),
        cmocka_unit_test(test_finds_variants),
        cmocka_unit_test(test_rows_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
