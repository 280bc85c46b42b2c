// The RKNN API against a well-behaved server: what is asked, what is sent, what comes back, and
// what is said to a program that uses it wrongly.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_server.h"
#include "rknn_custom_op.h"
#include "rknn_matmul_api.h"
#include "rknnd.h"

static struct fake_server server;
static char model[] = "any bytes are a model to the fake server";

static int set_up(void **state)
{
    (void)state;
    return rknnd_set_server(fake_server_begin(&server));
}

static int tear_down(void **state)
{
    (void)state;
    fake_server_stop(&server);
    return 0;
}

static rknn_context open_context(uint32_t flags)
{
    rknn_context c = 0;
    int r = rknn_init(&c, model, sizeof model, flags, NULL);
    if (r != RKNN_SUCC)
        fail_msg("rknn_init: %d: %s", r, rknnd_last_error());
    return c;
}

static const float image[12] = {0,   0.5f, 1,     -5,    -4.74f, -4.76f,
                                100, -100, 58.4f, 58.6f, NAN,    2.26f};
static const uint16_t vector[4] = {0x3c00, 0xc000, 0x7bff, 0x0001}; // 1, -2, 65504, 2^-24

static rknn_input float_image(void)
{
    return (rknn_input){.index = 0,
                        .buf = (void *)image,
                        .size = sizeof image,
                        .type = RKNN_TENSOR_FLOAT32,
                        .fmt = RKNN_TENSOR_NHWC};
}

static rknn_input half_vector(void)
{
    return (rknn_input){
        .index = 1, .buf = (void *)vector, .size = sizeof vector, .type = RKNN_TENSOR_FLOAT16};
}

static void set_inputs(rknn_context c)
{
    rknn_input inputs[] = {float_image(), half_vector()};
    assert_int_equal(rknn_inputs_set(c, 2, inputs), RKNN_SUCC);
}

// ---- a program as the SDK guide shows it -------------------------------------------------------

static void run_as_the_guide_shows_it(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_output out[2] = {{.index = 0}, {.index = 1, .want_float = 1}};
    // 10 + real / 0.5, half away from zero, saturated; NaN is the zero point.
    static const int8_t quantized[12] = {10, 11, 12, 0, 1, 0, 127, -128, 127, 127, 10, 15};
    static const float halves[4] = {1, -2, 65504, 5.9604645e-8f};

    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_outputs_get(c, 2, out, NULL), RKNN_SUCC);
    assert_int_equal(out[0].size, sizeof quantized);
    assert_memory_equal(out[0].buf, quantized, sizeof quantized);
    assert_int_equal(out[1].size, sizeof halves);
    assert_memory_equal(out[1].buf, halves, sizeof halves);
    assert_int_equal(rknn_outputs_release(c, 2, out), RKNN_SUCC);
    assert_null(out[0].buf);

    float real[12];
    rknn_output again = {
        .index = 0, .want_float = 1, .is_prealloc = 1, .buf = real, .size = sizeof real};
    assert_int_equal(rknn_outputs_get(c, 1, &again, NULL), RKNN_SUCC);
    assert_cmp(real[0], ==, 0);
    assert_cmp(real[1], ==, 0.5f);
    assert_cmp(real[6], ==, 58.5f);
    assert_cmp(real[7], ==, -69);
    assert_ptr_equal(again.buf, real);
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    assert_int_equal(server.n_contexts, 0);
}

// Float32 for INT8 shrinks and is converted here; 8-bit data for FP16 would grow and is not.
static void fewer_bytes_travel(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint8_t bytes[4] = {1, 2, 3, 4}, pixels[12] = {0};
    rknn_input in[] = {{.index = 1, .buf = bytes, .size = 4, .type = RKNN_TENSOR_UINT8},
                       {.index = 0,
                        .buf = pixels,
                        .size = 12,
                        .type = RKNN_TENSOR_UINT8,
                        .fmt = RKNN_TENSOR_NHWC}};
    assert_int_equal(rknn_inputs_set(c, 2, in), RKNN_SUCC);
    rknn_run(c, NULL); // refused by the fake server, which wants 8 bytes for the vector
    assert_int_equal(server.last_infer.inputs_count, 2);
    const rknnd_InferInput *i = server.last_infer.inputs;
    assert_true(i[0].converted);
    assert_int_equal(i[0].size, 12);
    assert_false(i[1].converted);
    assert_int_equal(i[1].size, 4);
    assert_int_equal(i[1].type, RKNN_TENSOR_UINT8);
    rknn_destroy(c);
}

static void pass_through_inputs_and_outputs(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint8_t strided[48];
    for (int i = 0; i < 48; i++)
        strided[i] = (uint8_t)i;
    rknn_input in[] = {{.index = 0, .buf = strided, .size = 48, .pass_through = 1}, half_vector()};
    rknn_output out = {.index = 0};
    assert_int_equal(rknn_inputs_set(c, 2, in), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_true(server.last_infer.inputs[0].pass_through);
    assert_false(server.last_infer.inputs[0].converted);
    assert_int_equal(rknn_outputs_get(c, 1, &out, NULL), RKNN_SUCC);
    assert_memory_equal(out.buf, strided, 12);
    rknn_outputs_release(c, 1, &out);
    rknn_destroy(c);
}

// An input that is not set again keeps its value.
static void inputs_stay(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    int8_t other[12];
    memset(other, 20, sizeof other);
    rknn_input in = {
        .index = 0, .buf = other, .size = 12, .type = RKNN_TENSOR_INT8, .fmt = RKNN_TENSOR_NCHW};
    rknn_output out[2] = {{.index = 0}, {.index = 1}};
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_inputs_set(c, 1, &in), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_outputs_get(c, 2, out, NULL), RKNN_SUCC);
    assert_int_equal(((int8_t *)out[0].buf)[0], 50); // 20 / 0.5 + 10
    assert_memory_equal(out[1].buf, vector, sizeof vector);
    rknn_outputs_release(c, 2, out);
    rknn_destroy(c);
}

// ---- questions ---------------------------------------------------------------------------------

static void query_attributes(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_input_output_num n;
    rknn_tensor_attr a = {.index = 1}, current = {.index = 1};
    assert_int_equal(rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n), RKNN_SUCC);
    assert_int_equal(n.n_input, 2);
    assert_int_equal(n.n_output, 2);
    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a), RKNN_SUCC);
    assert_string_equal(a.name, "vector");
    assert_int_equal(a.n_dims, 1);
    assert_int_equal(a.dims[0], 4);
    assert_int_equal(a.n_elems, 4);
    assert_int_equal(a.size, 8);
    assert_int_equal(a.fmt, RKNN_TENSOR_UNDEFINED);
    assert_int_equal(a.type, RKNN_TENSOR_FLOAT16);
    assert_int_equal(rknn_query(c, RKNN_QUERY_CURRENT_INPUT_ATTR, &current, sizeof current), 0);
    assert_memory_equal(&a, &current, sizeof a);

    rknn_tensor_attr native = {.index = 0}, out = {.index = 0};
    assert_int_equal(rknn_query(c, RKNN_QUERY_NATIVE_INPUT_ATTR, &native, sizeof native), 0);
    assert_int_equal(native.w_stride, 8);
    assert_int_equal(native.size, 12);
    assert_int_equal(native.size_with_stride, 48);
    assert_int_equal(rknn_query(c, RKNN_QUERY_OUTPUT_ATTR, &out, sizeof out), RKNN_SUCC);
    assert_int_equal(out.fmt, RKNN_TENSOR_NCHW);
    assert_int_equal(out.zp, 10);
    assert_cmp(out.scale, ==, 0.5f);
    assert_int_equal(out.qnt_type, RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC);
    rknn_destroy(c);
}

// Programs built against older headers get the prefix that they know, and not a byte more.
static void query_older_structs(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    struct {
        rknn_tensor_attr attr;
        char guard[16];
    } old;
    memset(&old, 0x55, sizeof old);
    old.attr.index = 0;
    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &old.attr, 372), RKNN_SUCC);
    assert_string_equal(old.attr.name, "image");
    assert_int_equal(old.attr.h_stride, 0x55555555);

    uint32_t sizes[4] = {0, 0, 7, 7};
    assert_int_equal(rknn_query(c, RKNN_QUERY_MEM_SIZE, sizes, 8), RKNN_SUCC);
    assert_int_equal(sizes[0], 1111);
    assert_int_equal(sizes[1], 2222);
    assert_int_equal(sizes[2], 7);
    rknn_mem_size whole;
    assert_int_equal(rknn_query(c, RKNN_QUERY_MEM_SIZE, &whole, sizeof whole), RKNN_SUCC);
    assert_int_equal(whole.total_dma_allocated_size, 3333);
    assert_int_equal(whole.total_sram_size, 4444);
    assert_int_equal(whole.free_sram_size, 555);

    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &old.attr, 371), RKNN_ERR_PARAM_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "371"));
    assert_non_null(strstr(rknnd_last_error(), "376"));
    rknn_destroy(c);
}

static void query_texts(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_sdk_version version;
    rknn_custom_string text;
    assert_int_equal(rknn_query(c, RKNN_QUERY_SDK_VERSION, &version, sizeof version), RKNN_SUCC);
    assert_non_null(strstr(version.api_version, "9.8.7"));
    assert_string_equal(version.drv_version, "6.5.4");
    assert_int_equal(rknn_query(c, RKNN_QUERY_CUSTOM_STRING, &text, sizeof text), RKNN_SUCC);
    assert_string_equal(text.string, "made by hand");
    rknn_destroy(c);
}

static void layers_of_a_profiled_run(void **state)
{
    (void)state;
    rknn_context c = open_context(RKNN_FLAG_COLLECT_PERF_MASK);
    rknn_perf_detail detail;
    rknn_perf_run run;
    rknnd_list *layers;
    set_inputs(c);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail),
                     RKNN_ERR_FAIL); // nothing has run yet
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_true(server.last_infer.collect_perf);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_RUN, &run, sizeof run), RKNN_SUCC);
    assert_int_equal(run.run_duration, 123);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail), RKNN_SUCC);
    assert_int_equal(detail.data_len, strlen(detail.perf_data));
    assert_non_null(strstr(detail.perf_data, "Conv:first"));
    assert_non_null(strstr(detail.perf_data, "Time(us): 400\n"));
    assert_non_null(strstr(detail.perf_data, "Size(KB): 3\n"));
    assert_non_null(strstr(detail.perf_data, "75.00%"));
    assert_non_null(strstr(detail.perf_data, "15.00 "));
    assert_non_null(strstr(detail.perf_data, "75.0%/25.0%/0.0%"));
    assert_null(strchr(detail.perf_data, '\033'));      // a model's names do not steer the terminal
    assert_null(strstr(detail.perf_data, "Times are")); // a board has one

    assert_int_equal(rknnd_get_layers(c, &layers), RKNN_SUCC);
    assert_int_equal(layers->n, 2);
    assert_string_equal(rknnd_layer_at(layers, 0)->op, "ConvRelu");
    assert_int_equal(rknnd_layer_at(layers, 0)->core_work[1], 100);
    assert_string_equal(rknnd_layer_at(layers, 1)->target, "CPU");
    assert_int_equal(rknnd_layer_at(layers, 1)->time_us, 100);
    assert_null(rknnd_layer_at(layers, 2));
    rknnd_free(layers);
    rknn_destroy(c);
}

// Of a software NPU the table has the chip's times, each rounded so that they add up, and says so.
static void profile_of_software(void **state)
{
    (void)state;
    rknn_perf_detail detail;
    rknn_perf_run run;
    rknnd_run_info info = {.struct_size = sizeof info};
    rknnd_server_info server_info = {.struct_size = sizeof server_info};
    server.software = true;
    rknn_context c = open_context(RKNN_FLAG_COLLECT_PERF_MASK);
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail), RKNN_SUCC);
    assert_non_null(strstr(detail.perf_data, "400          1500     15.00 "));
    assert_non_null(strstr(detail.perf_data, "0            1        \\"));
    assert_non_null(strstr(detail.perf_data, "Time(us): 1501\n"));
    assert_non_null(
        strstr(detail.perf_data,
               "\nTimes are estimated for rk?[1m3588 (no chip is chosen), without 1 layer "
               "on its CPU; the software NPU took 123 us on its machine\n"));
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_RUN, &run, sizeof run), RKNN_SUCC);
    assert_int_equal(run.run_duration, 123);
    assert_int_equal(rknnd_get_run_info(c, &info), RKNN_SUCC);
    assert_int_equal(info.timing, RKNND_TIMING_MACHINE);
    assert_int_equal(info.estimate_ns, 1500700);
    assert_string_equal(info.estimate_chip, "rk?[1m3588");
    assert_int_equal(info.estimate_assumed, 1);
    assert_int_equal(info.n_unestimated, 1);
    assert_int_equal(rknnd_get_server_info(NULL, &server_info), RKNN_SUCC);
    assert_int_equal(server_info.timing, RKNND_TIMING_MACHINE);
    rknn_destroy(c);
    c = open_context(0); // the whole alone
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail), RKNN_SUCC);
    assert_non_null(strstr(detail.perf_data, "Time(us): 1501\n"));
    rknn_destroy(c);
}

static void expect_columns(uint32_t n_cores, const char *titles, const char *layer)
{
    rknn_perf_detail detail;
    server.n_cores = n_cores;
    rknn_context c = open_context(RKNN_FLAG_COLLECT_PERF_MASK);
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail), RKNN_SUCC);
    assert_non_null(strstr(detail.perf_data, titles));
    assert_non_null(strstr(detail.perf_data, layer));
    rknn_destroy(c);
}

// Loads of cores where there are several (SDK guide, table 3-2).
static void profile_of_chips(void **state)
{
    (void)state;
    expect_columns(1, "MacUsage(%) TaskNumber RW(KB)    FullName\n",
                   "15.00       7          2         Conv:first\n");
    expect_columns(2, "MacUsage(%) WorkLoad(0/1)         TaskNumber RW(KB)    FullName\n",
                   "15.00       75.0%/25.0%           7          2         Conv:first\n");
    expect_columns(3, "MacUsage(%) WorkLoad(0/1/2)       TaskNumber RW(KB)    FullName\n",
                   "15.00       75.0%/25.0%/0.0%      7          2         Conv:first\n");
}

// Without the flag PERF_DETAIL succeeds with what is known.
static void profile_without_flag(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_perf_detail detail;
    rknnd_list *layers;
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail), RKNN_SUCC);
    assert_non_null(strstr(detail.perf_data, "Time(us): 123\n"));
    assert_int_equal(rknnd_get_layers(c, &layers), RKNN_ERR_FAIL);
    rknn_destroy(c);
}

static void rknnd_questions(void **state)
{
    (void)state;
    rknnd_server_info info = {.struct_size = sizeof info};
    rknnd_server_status status = {.struct_size = sizeof status};
    uint64_t ns[3] = {0};
    char *json;
    assert_int_equal(rknnd_get_server_info(NULL, &info), RKNN_SUCC);
    assert_string_equal(info.chip, "rk3588");
    assert_string_equal(info.uri, server.uri);
    assert_int_equal(info.n_cores, 3);
    assert_int_equal(rknnd_get_server_status(server.uri, &status), RKNN_SUCC);
    assert_string_equal(status.isolation, "process");
    assert_int_equal(rknnd_ping(NULL, 3, ns), RKNN_SUCC);
    assert_cmp(ns[0], >, 0);
    assert_cmp(ns[1], >, 0);
    assert_cmp(ns[2], >, 0);
    assert_int_equal(rknnd_describe_model(NULL, "/proc/filesystems", &json),
                     RKNN_ERR_MODEL_INVALID); // has no size
    assert_int_equal(rknnd_describe_model(NULL, "/etc/passwd", &json), RKNN_SUCC);
    assert_string_equal(json, "{\"fake\": true}");
    rknnd_free(json);
    assert_string_equal(rknnd_version(), RKNND_VERSION);
}

static void run_info(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknnd_run_info info = {.struct_size = sizeof info};
    assert_int_equal(rknnd_get_run_info(c, &info), RKNN_ERR_FAIL);
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(rknnd_get_run_info(c, &info), RKNN_SUCC);
    assert_int_equal(info.attempts, 1);
    assert_int_equal(info.run_us, 123);
    assert_int_equal(info.queue_us, 45);
    rknn_destroy(c);
}

// ---- misuse ------------------------------------------------------------------------------------

static void wrong_inputs(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    static const struct {
        rknn_input in;
        int code;
        const char *words;
    } table[] = {
        {{.index = 2, .buf = model, .size = 12}, RKNN_ERR_INPUT_INVALID, "the model has 2"},
        {{.index = 0, .buf = NULL, .size = 12, .type = RKNN_TENSOR_INT8},
         RKNN_ERR_INPUT_INVALID,
         "NULL"},
        {{.buf = model, .size = 11, .type = RKNN_TENSOR_INT8},
         RKNN_ERR_PARAM_INVALID,
         "param input size(11) < model input size(12)"},
        {{.buf = model, .size = 12, .type = RKNN_TENSOR_FLOAT32},
         RKNN_ERR_PARAM_INVALID,
         "param input size(12) < model input size(48)"},
        {{.buf = model, .size = 12, .type = RKNN_TENSOR_INT8, .fmt = RKNN_TENSOR_NC1HWC2},
         RKNN_ERR_INPUT_INVALID,
         "NC1HWC2"},
        {{.buf = model, .size = 12, .type = RKNN_TENSOR_INT8, .fmt = 77},
         RKNN_ERR_INPUT_INVALID,
         "77"},
        {{.buf = model, .size = 6, .type = RKNN_TENSOR_INT4}, RKNN_ERR_INPUT_INVALID, "INT4"},
        {{.buf = model, .size = 12, .type = 99}, RKNN_ERR_INPUT_INVALID, "99"},
        {{.buf = model, .size = 11, .pass_through = 1},
         RKNN_ERR_PARAM_INVALID,
         "param input size(11) < model input size(12): 12 elements of the native form"},
        {{.index = 1, .buf = model, .size = 32, .type = RKNN_TENSOR_INT64},
         RKNN_ERR_INPUT_INVALID,
         "vector"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rknn_input in = table[i].in;
        int r = rknn_inputs_set(c, 1, &in);
        if (r != table[i].code || !strstr(rknnd_last_error(), table[i].words))
            fail_msg("row %zu: %d, %s", i, r, rknnd_last_error());
    }
    rknn_input three[3] = {float_image(), half_vector(), half_vector()};
    assert_int_equal(rknn_inputs_set(c, 3, three), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_inputs_set(c, 0, three), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_inputs_set(c, 1, NULL), RKNN_ERR_PARAM_INVALID);
    // An input that was refused is not set.
    assert_int_equal(rknn_inputs_set(c, 1, &three[1]), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_INPUT_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "input 0 (image)"));
    rknn_destroy(c);
}

static void wrong_outputs(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    char room[100];
    rknn_output none = {.index = 0};
    static const struct {
        rknn_output out;
        const char *words;
    } table[] = {
        {{.index = 2}, "the model has 2"},
        {{.index = 0, .is_prealloc = 1, .size = 12}, "NULL"},
        {{.index = 0, .is_prealloc = 1, .buf = model, .size = 11}, "12 are needed"},
        {{.index = 0, .is_prealloc = 1, .want_float = 1, .buf = model, .size = 12}, "float32"},
    };
    assert_int_equal(rknn_outputs_get(c, 1, &none, NULL), RKNN_ERR_OUTPUT_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "before the first rknn_run"));
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rknn_output out = table[i].out;
        int r = rknn_outputs_get(c, 1, &out, NULL);
        if (r != RKNN_ERR_OUTPUT_INVALID || !strstr(rknnd_last_error(), table[i].words))
            fail_msg("row %zu: %d, %s", i, r, rknnd_last_error());
    }
    rknn_output three[3] = {{0}};
    assert_int_equal(rknn_outputs_get(c, 3, three, NULL), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_outputs_get(c, 1, NULL, NULL), RKNN_ERR_PARAM_INVALID);
    rknn_output larger = {.index = 0, .is_prealloc = 1, .buf = room, .size = sizeof room};
    assert_int_equal(rknn_outputs_get(c, 1, &larger, NULL), RKNN_SUCC);
    rknn_destroy(c);
}

static void wrong_contexts(void **state)
{
    (void)state;
    rknn_context c = open_context(0), dup;
    rknn_input_output_num n;
    rknn_context numbers[] = {0, 1, c + 1, c ^ 0x10000, (rknn_context)-1, (uintptr_t)&c};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        rknn_context bad = numbers[i];
        assert_int_equal(rknn_run(bad, NULL), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_wait(bad, NULL), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_query(bad, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n),
                         RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_inputs_set(bad, 0, NULL), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_outputs_get(bad, 0, NULL, NULL), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_outputs_release(bad, 0, NULL), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_set_core_mask(bad, RKNN_NPU_CORE_0), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_dup_context(&bad, &dup), RKNN_ERR_CTX_INVALID);
        assert_int_equal(rknn_destroy(bad), RKNN_ERR_CTX_INVALID);
    }
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    assert_int_equal(rknn_destroy(c), RKNN_ERR_CTX_INVALID);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_CTX_INVALID);
    rknn_context next = open_context(0); // perhaps in the old one's place
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_CTX_INVALID);
    rknn_destroy(next);
}

static void wrong_init(void **state)
{
    (void)state;
    rknn_context c;
    rknn_init_extend beyond = {.real_model_offset = 30, .real_model_size = 30};
    rknn_init_extend negative = {.real_model_offset = -1, .real_model_size = 1};
    assert_int_equal(rknn_init(NULL, model, 4, 0, NULL), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, NULL, 4, 0, NULL), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, model, 4, 3, NULL), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, model, 4, 1u << 31, NULL), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, model, 4, RKNN_FLAG_FENCE_OUT_OUTSIDE, NULL),
                     RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, &beyond), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, &negative), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_init(&c, (char[]){"/no/such/file"}, 0, 0, NULL), RKNN_ERR_MODEL_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "/no/such/file"));
    assert_int_equal(rknn_init(&c, (char[]){"/tmp"}, 0, 0, NULL), RKNN_ERR_MODEL_INVALID);
    assert_int_equal(rknn_init(&c, (char[]){"/dev/null"}, 0, 0, NULL), RKNN_ERR_MODEL_INVALID);
    // The reason is the end of the words, behind the function and what it was about.
    static const char before[] = "rknn_init: model null: ";
    const char *words = rknnd_last_error();
    assert_memory_equal(words, before, sizeof before - 1);
    assert_string_equal(rknnd_last_reason(), words + sizeof before - 1);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_CTX_INVALID);
    assert_ptr_equal(rknnd_last_reason(), rknnd_last_error() + sizeof "rknn_run: " - 1);
    assert_int_equal(server.n_contexts, 0);
}

static void wrong_queries(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_tensor_attr a = {.index = 2};
    rknn_input_range range;
    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_ATTR, NULL, sizeof a), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_query(c, RKNN_QUERY_CMD_MAX, &a, sizeof a), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_query(c, (rknn_query_cmd)-1, &a, sizeof a), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range),
                     RKNN_ERR_FAIL);
    assert_int_equal(rknn_query(c, RKNN_QUERY_MEM_SIZE, &a, 0), RKNN_ERR_PARAM_INVALID);
    rknn_destroy(c);
}

static void core_masks_reach_the_server(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    set_inputs(c);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_0_1), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(server.last_infer.core_mask, 3);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_ALL), RKNN_SUCC);
    assert_int_equal(rknn_set_core_mask(c, (rknn_core_mask)5), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_core_mask(c, (rknn_core_mask)15), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_UNDEFINED), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_batch_core_num(c, 2), RKNN_ERR_PARAM_INVALID); // batch is 1
    rknn_destroy(c);
}

// What was said last counts; a mask that is given up leaves the number.
static void cores_of_batch(void **state)
{
    (void)state;
    server.batch = 4;
    rknn_context c = open_context(0);
    set_inputs(c);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_0), RKNN_SUCC);
    assert_int_equal(rknn_set_batch_core_num(c, 2), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(server.last_infer.core_mask, 0);
    assert_int_equal(server.last_infer.batch_cores, 2);
    assert_int_equal(rknn_set_batch_core_num(c, 0), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_batch_core_num(c, 4), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_batch_core_num(c, -1), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_1), RKNN_SUCC);
    assert_int_equal(rknn_set_core_mask(c, RKNN_NPU_CORE_AUTO), RKNN_SUCC);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(server.last_infer.batch_cores, 2);
    rknn_destroy(c);
}

// What later versions bring answers in an orderly way.
static void not_yet(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    rknn_matmul_ctx m;
    rknn_matmul_info info = {0};
    rknn_matmul_io_attr io;
    assert_cmp(rknn_matmul_create(&m, &info, &io), <, 0);
    assert_cmp(rknn_register_custom_ops(c, NULL, 0), <, 0);
    assert_cmp(rknn_set_input_shapes(c, 0, NULL), <, 0);
    rknn_destroy(c);
}

// ---- sessions, servers -------------------------------------------------------------------------

static void one_session(void **state)
{
    (void)state;
    rknn_context a = open_context(0), b = open_context(0), c;
    assert_int_equal(rknn_dup_context(&a, &c), RKNN_SUCC);
    assert_int_equal(server.n_connections, 3);
    assert_int_equal(server.n_sessions, 1);
    assert_int_equal(server.n_contexts, 3);
    rknn_destroy(a);
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC); // outlives what it was made from
    rknn_destroy(b);
    rknn_destroy(c);
    assert_int_equal(server.n_contexts, 0);
}

static void selection_of_server(void **state)
{
    (void)state;
    rknn_context c;
    assert_int_equal(rknnd_set_server("gopher:x"), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(rknnd_set_server(NULL), RKNN_SUCC);
    setenv("RKNND_SERVER", server.uri, 1);
    c = open_context(0);
    rknn_destroy(c);
    setenv("RKNND_SERVER", "tcp:127.0.0.1:1", 1);
    assert_int_equal(rknn_init(&c, model, 4, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(rknnd_last_error(), "tcp:127.0.0.1:1"));
    setenv("RKNND_SERVER", "nonsense", 1);
    assert_int_equal(rknn_init(&c, model, 4, 0, NULL), RKNN_ERR_PARAM_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "RKNND_SERVER"));
    unsetenv("RKNND_SERVER");
    setenv("XDG_RUNTIME_DIR", "/no/runtime", 1);
    if (access("/run/rknnd/rknnd.sock", F_OK) != 0) {
        assert_int_equal(rknn_init(&c, model, 4, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
        assert_non_null(strstr(rknnd_last_error(), "unix:/run/rknnd/rknnd.sock"));
        assert_non_null(strstr(rknnd_last_error(), "unix:/no/runtime/rknnd.sock"));
        assert_non_null(strstr(rknnd_last_error(), "RKNND_SERVER"));
    }
}

static void *server_of_thread(void *arg)
{
    (void)arg;
    bool none = !*rknnd_get_thread_server() && !*rknnd_get_load_options();
    return none ? arg : NULL;
}

// Before the process's choice and the environment's, and for one thread.
static void selection_of_thread(void **state)
{
    (void)state;
    rknnd_server_info info = {.struct_size = sizeof info};
    rknn_context c;
    pthread_t t;
    void *result;
    assert_int_equal(rknnd_set_server("tcp:127.0.0.1:1"), RKNN_SUCC);
    assert_int_equal(rknnd_set_thread_server(server.uri), RKNN_SUCC);
    assert_string_equal(rknnd_get_thread_server(), server.uri);
    c = open_context(0);
    assert_int_equal(rknnd_get_server_info(NULL, &info), RKNN_SUCC);
    assert_string_equal(info.uri, server.uri);
    assert_int_equal(rknnd_get_server_info("tcp:127.0.0.1:2", &info), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(rknnd_set_thread_server("gopher:x"), RKNN_ERR_PARAM_INVALID);
    assert_string_equal(rknnd_get_thread_server(), server.uri);
    assert_int_equal(rknnd_set_load_options("shape x=1x3"), RKNN_SUCC);
    assert_string_equal(rknnd_get_load_options(), "shape x=1x3");
    pthread_create(&t, NULL, server_of_thread, &server);
    pthread_join(t, &result);
    assert_ptr_equal(result, &server);
    assert_int_equal(rknnd_set_load_options(NULL), RKNN_SUCC);
    assert_string_equal(rknnd_get_load_options(), "");
    assert_int_equal(rknnd_set_thread_server(NULL), RKNN_SUCC);
    assert_string_equal(rknnd_get_thread_server(), "");
    assert_int_equal(rknnd_get_server_info(NULL, &info), RKNN_ERR_DEVICE_UNAVAILABLE);
    set_inputs(c);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC); // an open context stays where it is
    rknn_destroy(c);
}

static void *last_error_of_thread(void *arg)
{
    (void)arg;
    return strcmp(rknnd_last_error(), "") == 0 ? arg : NULL;
}

static void last_error_is_per_thread(void **state)
{
    (void)state;
    pthread_t t;
    void *result;
    assert_int_equal(rknn_destroy(7), RKNN_ERR_CTX_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "rknn_destroy: 0x7"));
    pthread_create(&t, NULL, last_error_of_thread, &server);
    pthread_join(t, &result);
    assert_ptr_equal(result, &server);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(run_as_the_guide_shows_it),
        TEST(fewer_bytes_travel),
        TEST(pass_through_inputs_and_outputs),
        TEST(inputs_stay),
        TEST(query_attributes),
        TEST(query_older_structs),
        TEST(query_texts),
        TEST(layers_of_a_profiled_run),
        TEST(profile_of_software),
        TEST(profile_of_chips),
        TEST(profile_without_flag),
        TEST(rknnd_questions),
        TEST(run_info),
        TEST(wrong_inputs),
        TEST(wrong_outputs),
        TEST(wrong_contexts),
        TEST(wrong_init),
        TEST(wrong_queries),
        TEST(core_masks_reach_the_server),
        TEST(cores_of_batch),
        TEST(not_yet),
        TEST(one_session),
        TEST(selection_of_server),
        TEST(selection_of_thread),
        TEST(last_error_is_per_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
