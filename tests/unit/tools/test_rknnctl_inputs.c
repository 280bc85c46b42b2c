// Which file is which input, and which shapes fit: rknnctl's rules for -i, --layout, --type, --fit
// and --pad.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/options/option_table.h"
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
    struct error e;
    check_map(MAP(p, &e, "a", "b", "c"), p, "a", "b", "c");
    check_map(MAP(p, &e, "2=c", "1=b", "left=a"), p, "a", "b", "c");
    check_map(MAP(p, &e, "a", "input.1=b", "c"), p, "a", "b", "c");
    check_map(MAP(p, &e, "b", "c", "left=a"), p, "a", "b", "c");
    check_map(MAP(p, &e, "a", "b", "2=x=y"), p, "a", "b", "x=y");
}

static void a_name_that_is_a_number_wins(void **state)
{
    (void)state;
    const char *p[3];
    struct error e;
    check_map(MAP(p, &e, "0=c", "a", "b"), p, "a", "b", "c");
}

static void check_refused(int result, const struct error *e, const char *words)
{
    assert_int_equal(result, STATUS_PARAM_INVALID);
    if (!strstr(e->text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, e->text);
}

static void wrong_mappings_are_refused(void **state)
{
    (void)state;
    const char *p[3];
    struct error e;
    check_refused(MAP(p, &e, "a", "b"), &e, "no file for input 2 \"0\"");
    check_refused(MAP(p, &e, "1=b"), &e, "no file for input 0 \"left\"");
    check_refused(MAP(p, &e, "a", "b", "c", "d"), &e, "-i d: more files than the model's 3");
    check_refused(MAP(p, &e, "3=a"), &e, "no input \"3\"");
    check_refused(MAP(p, &e, "=a"), &e, "no input \"\"");
    check_refused(MAP(p, &e, "lef=a"), &e, "1 \"input.1\" 1x7x8x1");
    check_refused(MAP(p, &e, "4294967296=a"), &e, "no input");
    check_refused(MAP(p, &e, "left=a", "left=b"), &e, "input 0 \"left\" is given twice, also as a");
}

static int check_shape(uint32_t input, rknn_tensor_format layout, size_t n, const uint64_t *shape,
                       struct error *e)
{
    *e = (struct error){0};
    return inputs_check_shape(&three[input], layout, shape, n, e);
}

static void shapes_fit_in_their_layout(void **state)
{
    (void)state;
    struct error e;
    const uint64_t nhwc[] = {1, 4, 5, 3}, nchw[] = {1, 3, 4, 5}, other[] = {1, 4, 5, 4};
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, nhwc, &e), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 3, nhwc + 1, &e), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NCHW, 4, nchw, &e), 0);
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, nchw, &e), STATUS_INPUT_INVALID);
    assert_non_null(strstr(e.text, "1x3x4x5"));
    assert_non_null(strstr(e.text, "1x4x5x3 (NHWC)"));
    assert_non_null(strstr(e.text, "--layout nchw"));
    assert_int_equal(check_shape(0, RKNN_TENSOR_NCHW, 4, nhwc, &e), STATUS_INPUT_INVALID);
    assert_non_null(strstr(e.text, "--layout nhwc"));
    assert_int_equal(check_shape(0, RKNN_TENSOR_NHWC, 4, other, &e), STATUS_INPUT_INVALID);
    assert_null(strstr(e.text, "--layout"));
}

static void dims_of_one_do_not_matter(void **state)
{
    (void)state;
    struct error e;
    const uint64_t plane[] = {7, 8}, turned[] = {8, 7}, flat[] = {56}, vector[] = {10, 1, 1};
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 2, plane, &e), 0);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NCHW, 2, plane, &e), 0);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 2, turned, &e), STATUS_INPUT_INVALID);
    assert_int_equal(check_shape(1, RKNN_TENSOR_NHWC, 1, flat, &e), STATUS_INPUT_INVALID);
    assert_int_equal(check_shape(2, RKNN_TENSOR_NCHW, 3, vector, &e), 0);
    assert_int_equal(check_shape(2, RKNN_TENSOR_NHWC, 0, NULL, &e), STATUS_INPUT_INVALID);
    assert_non_null(strstr(e.text, "shape scalar, but the input is 1x10"));
}

static void pictures_are_for_inputs_of_pictures(void **state)
{
    (void)state;
    struct error e;
    uint32_t w, h, c;
    rknn_tensor_attr nchw = {.n_dims = 4, .dims = {1, 4, 20, 30}, .fmt = RKNN_TENSOR_NCHW};
    rknn_tensor_attr batch = {.n_dims = 4, .dims = {2, 20, 30, 3}, .fmt = RKNN_TENSOR_NHWC};
    rknn_tensor_attr deep = {.n_dims = 4, .dims = {1, 20, 30, 16}, .fmt = RKNN_TENSOR_NHWC};
    assert_int_equal(inputs_picture_size(&three[0], &w, &h, &c, &e), 0);
    assert_int_equal(w, 5);
    assert_int_equal(h, 4);
    assert_int_equal(c, 3);
    assert_int_equal(inputs_picture_size(&nchw, &w, &h, &c, &e), 0);
    assert_int_equal(w, 30);
    assert_int_equal(h, 20);
    assert_int_equal(c, 4);
    assert_int_equal(inputs_picture_size(&three[2], &w, &h, &c, &e), STATUS_INPUT_INVALID);
    assert_int_equal(inputs_picture_size(&batch, &w, &h, &c, &e), STATUS_INPUT_INVALID);
    assert_int_equal(inputs_picture_size(&deep, &w, &h, &c, &e), STATUS_INPUT_INVALID);
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
    struct error e;
    struct input_form forms[3];
    const struct input_options o = {.layouts = TEXTS("input.1=native", "nchw", "2=NHWC"),
                                    .types = TEXTS("0=float16"),
                                    .fits = TEXTS("left=stretch", "crop", "left=letterbox"),
                                    .pads = TEXTS("7", "left=1,2,3")};
    assert_int_equal(input_forms_make(&o, three, 3, forms, &e), 0);
    assert_int_equal(forms[0].layout, RKNN_TENSOR_NCHW);
    assert_true(forms[1].native);
    assert_false(forms[0].native);
    assert_false(forms[2].native);
    assert_int_equal(forms[2].layout, RKNN_TENSOR_NHWC);
    assert_false(forms[0].raw);
    assert_true(forms[2].raw); // "0" is the name of the last one
    assert_int_equal(forms[2].type, RKNN_TENSOR_FLOAT16);
    assert_int_equal(forms[0].fit, IMAGE_LETTERBOX);
    assert_true(forms[0].fit_named);
    assert_int_equal(forms[1].fit, IMAGE_CROP);
    assert_false(forms[1].fit_named);
    assert_memory_equal(forms[0].colour, "\1\2\3", 3);
    assert_memory_equal(forms[1].colour, "\7\7\7", 3);
}

static void without_options_nothing_is_changed(void **state)
{
    (void)state;
    struct error e;
    struct input_form forms[3];
    assert_int_equal(input_forms_make(&(struct input_options){0}, three, 3, forms, &e), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(forms[i].layout, RKNN_TENSOR_NHWC);
        assert_int_equal(forms[i].fit, IMAGE_FIT_EXACT);
        assert_false(forms[i].native);
        assert_false(forms[i].raw);
        assert_memory_equal(forms[i].colour, "rrr", 3); // 114
    }
    assert_int_equal(
        input_forms_make(&(struct input_options){.pass_through = true}, three, 3, forms, &e), 0);
    assert_true(forms[0].native);
    assert_true(forms[1].native);
    assert_true(forms[2].native);
}

static void wrong_forms_are_refused(void **state)
{
    (void)state;
    struct error e;
    struct input_form forms[3];
    const struct input_options unknown = {.fits = TEXTS("middle=crop")};
    check_refused(input_forms_make(&unknown, three, 3, forms, &e), &e, "no input \"middle\"");
    static const struct {
        option_call *option;
        const char *text, *words;
    } wrong[] = {
        {input_layout_option, "left=nwhc", "\"nwhc\" is not nhwc, nchw or native"},
        {input_layout_option, "", "\"\" is not"},
        {input_fit_option, "pad", "\"pad\" is not letterbox, stretch, crop or exact"},
        {input_type_option, "float64", "\"float64\" is not float32"},
        {input_pad_option, "256", "not a gray"},
        {input_pad_option, "1,2", "not a gray"},
        {input_pad_option, "1,2,3,4", "not a gray"},
        {input_pad_option, "1,2,", "not a gray"},
        {input_pad_option, "114,", "not a gray"},
        {input_pad_option, "1,2,3,", "not a gray"},
        {input_pad_option, "1,,3", "not a gray"},
        {input_pad_option, "-1", "not a gray"},
        {input_pad_option, "00000000001", "not a gray"},
        {input_pad_option, "", "not a gray"},
    };
    struct text_list list = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_refused(wrong[i].option(&list, wrong[i].text, &e), &e, wrong[i].words);
    assert_int_equal(input_pad_option(&list, "images=0,128,255", &e), 0);
    assert_int_equal(input_type_option(&list, "bool", &e), 0);
    assert_int_equal(list.n, 2); // no refused one
    text_list_done(&list);
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
