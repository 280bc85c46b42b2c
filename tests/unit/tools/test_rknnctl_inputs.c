// Which file is which input, and which shapes fit: rknnctl's rules for -i, --layout, --type, --fit
// and --pad.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/input/input_check.h"
#include "tools/input/input_form.h"

static const rknn_tensor_attr three[] = {
    {.index = 0, .n_dims = 4, .dims = {1, 4, 5, 3}, .name = "left", .fmt = RKNN_TENSOR_NHWC},
    {.index = 1, .n_dims = 4, .dims = {1, 7, 8, 1}, .name = "input.1", .fmt = RKNN_TENSOR_NHWC},
    {.index = 2, .n_dims = 2, .dims = {1, 10}, .name = "0", .fmt = RKNN_TENSOR_UNDEFINED},
};

#define MAP(paths, f, ...)                                                                         \
    inputs_map((const char *const[]){__VA_ARGS__},                                                 \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), three, 3, paths, f)

static void check_map(int result, const char *const *paths, const char *a, const char *b,
                      const char *c)
{
    assert_int_equal(result, 0);
    assert_string_equal(paths[0], a);
    assert_string_equal(paths[1], b);
    assert_string_equal(paths[2], c);
}

static void files_go_to_inputs_in_order_or_by_key(void **state)
{
    (void)state;
    const char *p[3];
    struct failure f;
    check_map(MAP(p, &f, "a", "b", "c"), p, "a", "b", "c");
    check_map(MAP(p, &f, "2=c", "1=b", "left=a"), p, "a", "b", "c");
    check_map(MAP(p, &f, "a", "input.1=b", "c"), p, "a", "b", "c");
    check_map(MAP(p, &f, "b", "c", "left=a"), p, "a", "b", "c");
    check_map(MAP(p, &f, "a", "b", "2=x=y"), p, "a", "b", "x=y");
}

static void a_name_that_is_a_number_wins(void **state)
{
    (void)state;
    const char *p[3];
    struct failure f;
    check_map(MAP(p, &f, "0=c", "a", "b"), p, "a", "b", "c");
}

static void check_refused(int result, const struct failure *f, const char *words)
{
    assert_int_equal(result, EXIT_USAGE);
    if (!strstr(f->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, f->text);
}

static void wrong_mappings_are_refused(void **state)
{
    (void)state;
    const char *p[3];
    struct failure f;
    check_refused(MAP(p, &f, "a", "b"), &f, "no file for input 2 \"0\"");
    check_refused(MAP(p, &f, "1=b"), &f, "no file for input 0 \"left\"");
    check_refused(MAP(p, &f, "a", "b", "c", "d"), &f, "-i d: more files than the model's 3");
    check_refused(MAP(p, &f, "3=a"), &f, "no input \"3\"");
    check_refused(MAP(p, &f, "=a"), &f, "no input \"\"");
    check_refused(MAP(p, &f, "lef=a"), &f, "1 \"input.1\" 1x7x8x1");
    check_refused(MAP(p, &f, "4294967296=a"), &f, "no input");
    check_refused(MAP(p, &f, "left=a", "left=b"), &f, "input 0 \"left\" is given twice, also as a");
}

static int check_shape(uint32_t input, rknn_tensor_format layout, size_t n, const uint64_t *shape,
                       struct failure *f)
{
    *f = (struct failure){0};
    return inputs_check_shape(&three[input], layout, shape, n, f);
}

static void shapes_fit_in_their_layout(void **state)
{
    (void)state;
    struct failure f;
    const uint64_t nhwc[] = {1, 4, 5, 3}, nchw[] = {1, 3, 4, 5}, other[] = {1, 4, 5, 4};
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, nhwc, &f), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 3, nhwc + 1, &f), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NCHW, 4, nchw, &f), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, nchw, &f), EXIT_INPUT);
    assert_non_null(strstr(f.text, "1x3x4x5"));
    assert_non_null(strstr(f.text, "1x4x5x3 (NHWC)"));
    assert_non_null(strstr(f.text, "--layout nchw"));
    assert_int_equal(check_shape(0, RKNN_TENSOR_NCHW, 4, nhwc, &f), EXIT_INPUT);
    assert_non_null(strstr(f.text, "--layout nhwc"));
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, other, &f), EXIT_INPUT);
    assert_null(strstr(f.text, "--layout"));
}

static void dims_of_one_do_not_matter(void **state)
{
    (void)state;
    struct failure f;
    const uint64_t plane[] = {7, 8}, turned[] = {8, 7}, flat[] = {56}, vector[] = {10, 1, 1};
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 2, plane, &f), 0);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NCHW, 2, plane, &f), 0);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 2, turned, &f), EXIT_INPUT);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 1, flat, &f), EXIT_INPUT);
    assert_int_equal(check_shape(2, RKNN_TENSOR_NCHW, 3, vector, &f), 0);
    assert_int_equal(check_shape(2, RKNN_TENSOR_NHWC, 0, NULL, &f), EXIT_INPUT);
    assert_non_null(strstr(f.text, "shape scalar, but the input is 1x10"));
}

static void pictures_are_for_inputs_of_pictures(void **state)
{
    (void)state;
    struct failure f;
    uint32_t w, h, c;
    rknn_tensor_attr nchw = {.n_dims = 4, .dims = {1, 4, 20, 30}, .fmt = RKNN_TENSOR_NCHW};
    rknn_tensor_attr batch = {.n_dims = 4, .dims = {2, 20, 30, 3}, .fmt = RKNN_TENSOR_NHWC};
    rknn_tensor_attr deep = {.n_dims = 4, .dims = {1, 20, 30, 16}, .fmt = RKNN_TENSOR_NHWC};
    assert_int_equal(inputs_picture_size(&three[0], &w, &h, &c, &f), 0);
    assert_true(w == 5 && h == 4 && c == 3);
    assert_int_equal(inputs_picture_size(&nchw, &w, &h, &c, &f), 0);
    assert_true(w == 30 && h == 20 && c == 4);
    assert_int_equal(inputs_picture_size(&three[2], &w, &h, &c, &f), EXIT_INPUT);
    assert_int_equal(inputs_picture_size(&batch, &w, &h, &c, &f), EXIT_INPUT);
    assert_int_equal(inputs_picture_size(&deep, &w, &h, &c, &f), EXIT_INPUT);
}

// ---- how the files are to be read
// ----------------------------------------------------------------

#define TEXTS(...)                                                                                 \
    {                                                                                              \
        (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)      \
    }

static void what_is_said_of_one_input_counts_more(void **state)
{
    (void)state;
    struct failure f;
    struct input_form forms[3];
    const struct input_options o = {.layouts = TEXTS("input.1=native", "nchw", "2=NHWC"),
                                    .types = TEXTS("0=float16"),
                                    .fits = TEXTS("left=stretch", "crop", "left=letterbox"),
                                    .pads = TEXTS("7", "left=1,2,3")};
    assert_int_equal(input_forms_make(&o, three, 3, forms, &f), 0);
    assert_int_equal(forms[0].layout, RKNN_TENSOR_NCHW);
    assert_true(forms[1].native && !forms[0].native && !forms[2].native);
    assert_int_equal(forms[2].layout, RKNN_TENSOR_NHWC);
    assert_true(!forms[0].raw && forms[2].raw); // "0" is the name of the last one
    assert_int_equal(forms[2].type, RKNN_TENSOR_FLOAT16);
    assert_true(forms[0].fit == IMAGE_LETTERBOX && forms[0].fit_named);
    assert_true(forms[1].fit == IMAGE_CROP && !forms[1].fit_named);
    assert_memory_equal(forms[0].colour, "\1\2\3", 3);
    assert_memory_equal(forms[1].colour, "\7\7\7", 3);
}

static void without_options_nothing_is_changed(void **state)
{
    (void)state;
    struct failure f;
    struct input_form forms[3];
    assert_int_equal(input_forms_make(&(struct input_options){0}, three, 3, forms, &f), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(forms[i].layout == RKNN_TENSOR_NHWC && forms[i].fit == IMAGE_FIT_EXACT);
        assert_true(!forms[i].native && !forms[i].raw);
        assert_memory_equal(forms[i].colour, "rrr", 3); // 114
    }
    assert_int_equal(
        input_forms_make(&(struct input_options){.pass_through = true}, three, 3, forms, &f), 0);
    assert_true(forms[0].native && forms[1].native && forms[2].native);
}

static void wrong_forms_are_refused(void **state)
{
    (void)state;
    struct failure f;
    struct input_form forms[3];
    const struct input_options unknown = {.fits = TEXTS("middle=crop")};
    check_refused(input_forms_make(&unknown, three, 3, forms, &f), &f, "no input \"middle\"");
    static const struct {
        enum input_option option;
        const char *text, *words;
    } wrong[] = {
        {INPUT_LAYOUT, "left=nwhc", "\"nwhc\" is not nhwc, nchw or native"},
        {INPUT_LAYOUT, "", "\"\" is not"},
        {INPUT_FIT, "pad", "\"pad\" is not letterbox, stretch, crop or exact"},
        {INPUT_TYPE, "float64", "\"float64\" is not float32"},
        {INPUT_PAD, "256", "not a gray"},
        {INPUT_PAD, "1,2", "not a gray"},
        {INPUT_PAD, "1,2,3,4", "not a gray"},
        {INPUT_PAD, "1,2,", "not a gray"},
        {INPUT_PAD, "114,", "not a gray"},
        {INPUT_PAD, "1,2,3,", "not a gray"},
        {INPUT_PAD, "1,,3", "not a gray"},
        {INPUT_PAD, "-1", "not a gray"},
        {INPUT_PAD, "00000000001", "not a gray"},
        {INPUT_PAD, "", "not a gray"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(input_option_check(wrong[i].option, wrong[i].text, &f), &f, wrong[i].words);
    assert_int_equal(input_option_check(INPUT_PAD, "images=0,128,255", &f), 0);
    assert_int_equal(input_option_check(INPUT_TYPE, "bool", &f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_go_to_inputs_in_order_or_by_key),
        cmocka_unit_test(a_name_that_is_a_number_wins),
        cmocka_unit_test(wrong_mappings_are_refused),
        cmocka_unit_test(shapes_fit_in_their_layout),
        cmocka_unit_test(dims_of_one_do_not_matter),
        cmocka_unit_test(pictures_are_for_inputs_of_pictures),
        cmocka_unit_test(what_is_said_of_one_input_counts_more),
        cmocka_unit_test(without_options_nothing_is_changed),
        cmocka_unit_test(wrong_forms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
