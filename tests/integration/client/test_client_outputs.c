// Large outputs, which the library leaves in the stream until it is known where they are wanted:
// every way of getting them, or not getting them, gives the right bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rknnd.h"

#define IN_SIZE  1000
#define OUT_SIZE 3000000 // null repeats its input

static char model[] = "any bytes will do";
static rknn_context context;

static void check(int r, const char *call)
{
    if (r != RKNN_SUCC)
        fail_msg("%s: %d: %s", call, r, rknnd_last_error());
}
#define CHECK(call) check((call), #call)

static int open_context(void **state)
{
    (void)state;
    CHECK(rknn_init(&context, model, sizeof model, 0, NULL));
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    CHECK(rknn_destroy(context));
    return 0;
}

static uint8_t byte_of(uint8_t mark, size_t i)
{
    return (uint8_t)(mark + i % IN_SIZE % 251);
}

static void set(uint8_t mark)
{
    uint8_t bytes[IN_SIZE];
    for (size_t i = 0; i < IN_SIZE; i++)
        bytes[i] = byte_of(mark, i);
    rknn_input in = {.buf = bytes, .size = IN_SIZE, .type = RKNN_TENSOR_UINT8};
    CHECK(rknn_inputs_set(context, 1, &in));
}

static void run(uint8_t mark)
{
    set(mark);
    CHECK(rknn_run(context, NULL));
}

static void expect_bytes(const uint8_t *bytes, uint8_t mark)
{
    for (size_t i = 0; i < OUT_SIZE; i++)
        if (bytes[i] != byte_of(mark, i))
            fail_msg("byte %zu is %u, not %u", i, bytes[i], byte_of(mark, i));
}

static void get_raw(uint8_t mark)
{
    rknn_output out = {.index = 0};
    CHECK(rknn_outputs_get(context, 1, &out, NULL));
    assert_int_equal(out.size, OUT_SIZE);
    expect_bytes(out.buf, mark);
    CHECK(rknn_outputs_release(context, 1, &out));
    assert_null(out.buf);
}

static void get_floats(uint8_t mark)
{
    rknn_output out = {.want_float = 1};
    CHECK(rknn_outputs_get(context, 1, &out, NULL));
    assert_int_equal(out.size, OUT_SIZE * sizeof(float));
    for (size_t i = 0; i < OUT_SIZE; i++)
        if (((float *)out.buf)[i] != (float)byte_of(mark, i))
            fail_msg("float %zu is %f", i, (double)((float *)out.buf)[i]);
    CHECK(rknn_outputs_release(context, 1, &out));
}

static void given_buffer(void **state)
{
    (void)state;
    uint8_t *buffer = malloc(OUT_SIZE + 1);
    rknn_output out = {.is_prealloc = 1, .buf = buffer, .size = OUT_SIZE + 1};
    for (uint8_t mark = 1; mark < 4; mark++) {
        buffer[OUT_SIZE] = 77;
        run(mark);
        CHECK(rknn_outputs_get(context, 1, &out, NULL));
        expect_bytes(buffer, mark);
        assert_int_equal(buffer[OUT_SIZE], 77);
    }
    free(buffer);
}

static void made_buffer_and_floats(void **state)
{
    (void)state;
    run(5);
    get_raw(5);
    run(6);
    get_floats(6);
}

static void same_outputs_again(void **state)
{
    (void)state;
    run(7);
    get_floats(7);
    get_raw(7);
    get_raw(7);
    get_floats(7);
}

static void outputs_given_away_and_inputs_changed(void **state)
{
    (void)state;
    rknn_output out = {.index = 0};
    run(8);
    get_raw(8);
    set(9);
    assert_int_equal(rknn_outputs_get(context, 1, &out, NULL), RKNN_ERR_OUTPUT_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "handed over"));
    CHECK(rknn_run(context, NULL));
    get_raw(9);
}

static void floats_survive_new_inputs(void **state)
{
    (void)state;
    run(10);
    get_floats(10);
    set(11);
    get_floats(10);
}

static void runs_whose_outputs_nobody_gets(void **state)
{
    (void)state;
    for (uint8_t mark = 20; mark < 30; mark++)
        run(mark);
    get_raw(29);
}

static void other_calls_between(void **state)
{
    (void)state;
    rknn_context copy;
    rknnd_run_info info = {.struct_size = sizeof info};
    run(31);
    CHECK(rknn_dup_context(&context, &copy));
    CHECK(rknnd_get_run_info(context, &info));
    get_raw(31);
    CHECK(rknn_destroy(copy));
}

static void pipeline(void **state)
{
    (void)state;
    rknn_run_extend start = {.non_block = 1}, wait = {0};
    set(41);
    CHECK(rknn_run(context, &start));
    wait.frame_id = start.frame_id;
    set(42);
    CHECK(rknn_run(context, &start));
    CHECK(rknn_wait(context, &wait));
    get_raw(41);
    CHECK(rknn_wait(context, NULL));
    get_raw(42);
}

// The server's heartbeats go on behind the payload; the keep-alive thread takes it out of the way.
static void outputs_left_for_longer_than_the_peer_timeout(void **state)
{
    (void)state;
    rknnd_server_info info = {.struct_size = sizeof info};
    CHECK(rknnd_get_server_info(NULL, &info));
    run(51);
    usleep((info.peer_timeout_ms + info.peer_timeout_ms / 2) * 1000); // the silence is the test
    get_raw(51);
    run(52);
    get_raw(52);
}

static void context_destroyed_with_outputs_waiting(void **state)
{
    run(61);
    CHECK(rknn_destroy(context));
    open_context(state);
    run(62);
    get_raw(62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_buffer),
        cmocka_unit_test(made_buffer_and_floats),
        cmocka_unit_test(same_outputs_again),
        cmocka_unit_test(outputs_given_away_and_inputs_changed),
        cmocka_unit_test(floats_survive_new_inputs),
        cmocka_unit_test(runs_whose_outputs_nobody_gets),
        cmocka_unit_test(other_calls_between),
        cmocka_unit_test(pipeline),
        cmocka_unit_test(outputs_left_for_longer_than_the_peer_timeout),
        cmocka_unit_test(context_destroyed_with_outputs_waiting),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
