// Load options: what the text may be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "npu/model/load_options.h"

static int parse(struct load_options *o, struct pool *pool, const char *text)
{
    struct error e;
    int r = load_options_parse(o, pool, text, &e);
    if (r < 0)
        assert_cmp(strlen(e.text), >, 10);
    return r;
}

static void check_row(const struct load_shape *s, uint32_t set, uint32_t n, const uint32_t *dims)
{
    assert_int_equal(s->n_dims, n);
    assert_memory_equal(load_shape_at(s, set), dims, n * sizeof *dims);
}

static void reads_shapes(void **state)
{
    struct pool pool = {0};
    struct load_options o;
    (void)state;
    assert_int_equal(
        parse(&o, &pool, "shape x=1x3x224x224,1x3x112x64\nshape a = b=10\n\nshape scalar="), 0);
    assert_int_equal(o.n_shape_sets, 2);
    assert_int_equal(o.n_shapes, 3);
    const struct load_shape *x = load_options_shape(&o, "x"), *b = load_options_shape(&o, "a = b");
    check_row(x, 0, 4, (uint32_t[]){1, 3, 224, 224});
    check_row(x, 1, 4, (uint32_t[]){1, 3, 112, 64});
    check_row(b, 0, 1, (uint32_t[]){10});
    check_row(b, 1, 1, (uint32_t[]){10});
    assert_int_equal(load_options_shape(&o, "scalar")->n_dims, 0);
    assert_null(load_options_shape(&o, "y"));
    pool_done(&pool);
}

static void nothing_is_no_option(void **state)
{
    static const char *const texts[] = {NULL, "", "\n\n"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pool pool = {0};
        struct load_options o;
        assert_int_equal(parse(&o, &pool, texts[i]), 0);
        assert_int_equal(o.n_shapes, 0);
        assert_int_equal(o.n_shape_sets, 1);
        pool_done(&pool);
    }
}

static void refuses(void **state)
{
    static const char *const texts[] = {
        "size x=1",
        "shape",
        "shape x",
        "shape =1",
        "shape x=1x",
        "shape x=x1",
        "shape x=0",
        "shape x=-1",
        "shape x=1x2x",
        "shape x=1 x2",
        "shape x=99999999999",
        "shape x=99999999999999999999999999",
        "shape x=1x1x1x1x1x1x1x1x1",
        "shape x=1,2x3",
        "shape x=1,",
        "shape x=1\nshape x=1",
        "shape x=1,2\nshape y=1,2,3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pool pool = {0};
        struct load_options o;
        if (parse(&o, &pool, texts[i]) != STATUS_PARAM_INVALID)
            fail_msg("\"%s\" is taken", texts[i]);
        pool_done(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_shapes),
        cmocka_unit_test(nothing_is_no_option),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
