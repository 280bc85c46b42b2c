// The table of chips: names, variants, and what every row must say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/chip.h"

static void test_finds_by_name(void **state)
{
    (void)state;
    assert_string_equal(chip_find("RK3576")->name, "rk3576");
    assert_null(chip_find("rk3588s"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_by_name),
        cmocka_unit_test(test_finds_variants),
        cmocka_unit_test(test_rows_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
