// Dumps whose tensors the client gives back, spoken by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define IN_BYTES  100
#define OUT_BYTES 250

static struct in_process server;
static uint8_t input[IN_BYTES], data[OUT_BYTES + 1];

IN_PROCESS_START(start, server, "backend", "null:100:250,delay_us=1000")
IN_PROCESS_STOP(stop, server)

static uint32_t send_dump(struct peer *p, uint64_t context)
{
    rknnd_Dump m = {
        .has_run = true, .run = {.context = context, .inputs_count = 1}, .replace = true};
    m.run.inputs[0] = (rknnd_InferInput){.size = IN_BYTES, .converted = true};
    return peer_send(p, MESSAGE_DUMP, &m, input, IN_BYTES);
}

// Up to the part that is wanted; the id of the dump.
static uint32_t begin_on(struct peer *p, uint64_t *ret_context)
{
    uint8_t hash[SHA256_SIZE];
    struct peer_frame f;
    *ret_context = in_process_open(&server, p, "model", hash).context;
    uint32_t id = send_dump(p, *ret_context);
    assert_true(peer_receive(p, &f));
    assert_int_equal(f.header.id, id);
    assert_int_equal(f.header.payload_size, OUT_BYTES);
    assert_false(f.m.DUMP_reply.wanted);
    peer_frame_done(&f);
    peer_send(p, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = id}, NULL, 0);
    assert_true(peer_receive(p, &f));
    assert_int_equal(f.header.payload_size, 0);
    assert_true(f.m.DUMP_reply.wanted);
    assert_int_equal(f.m.DUMP_reply.size, OUT_BYTES);
    peer_frame_done(&f);
    return id;
}

static uint32_t begin(struct peer *p)
{
    uint64_t context;
    return begin_on(p, &context);
}

static void send_next(struct peer *p, uint32_t id, size_t size)
{
    peer_send(p, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = id}, data, size);
}

static void expect_end(struct peer *p, uint32_t id, int code)
{
    struct peer_frame f;
    struct error e;
    assert_int_equal(peer_wait(p, id, &f, &e), code);
    peer_frame_done(&f);
}

static bool is_idle(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->jobs_running == 0;
}

static void takes_a_tensor_back(void **state)
{
    (void)state;
    struct peer p;
    struct peer_frame f;
    struct error e;
    uint32_t id = begin(&p);
    peer_send(&p, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = id}, data, OUT_BYTES);
    assert_int_equal(peer_wait(&p, id, &f, &e), 0);
    assert_int_equal(f.m.DUMP_reply.n_tensors, 1);
    peer_frame_done(&f);
    peer_close(&p);
}

static void refuses_other_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, OUT_BYTES - 1, OUT_BYTES + 1};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct peer p;
        struct peer_frame f;
        struct error e;
        uint32_t id = begin(&p);
        peer_send(&p, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = id}, data, sizes[i]);
        assert_int_equal(peer_wait(&p, id, &f, &e), STATUS_OUTPUT_INVALID);
        assert_non_null(strstr(e.text, "for a part of a tensor, it has 250"));
        in_process_wait_status(&p, is_idle, NULL);
        peer_close(&p);
    }
}

static void ends_with_a_client_that_goes_in_the_middle(void **state)
{
    (void)state;
    struct peer p, other;
    struct frame_header h = {.type = MESSAGE_DUMP_NEXT, .id = 77, .payload_size = OUT_BYTES};
    uint32_t id = begin(&p);
    peer_send_frame(&p, h, rknnd_DumpNext_fields, &(rknnd_DumpNext){.request = id}, data, 10);
    peer_close(&p);
    in_process_connect(&server, &other);
    in_process_wait_status(&other, is_idle, NULL);
    peer_close(&other);
}

static void is_cancelled_in_the_middle(void **state)
{
    (void)state;
    struct peer p;
    struct peer_frame f;
    struct error e;
    uint32_t id = begin(&p);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = id}, NULL, 0);
    peer_send(&p, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){.request = id}, data, OUT_BYTES);
    assert_int_equal(peer_wait(&p, id, &f, &e), STATUS_FAIL);
    in_process_wait_status(&p, is_idle, NULL);
    peer_close(&p);
}

// The one that waits for the other has no part out, and nothing on the device yet.
static void ignores_what_is_early_or_late(void **state)
{
    (void)state;
    struct peer p;
    struct peer_frame f;
    uint64_t context;
    uint32_t first = begin_on(&p, &context), second = send_dump(&p, context);
    send_next(&p, second, 0);
    send_next(&p, second, OUT_BYTES);
    send_next(&p, 4711, 1);
    send_next(&p, first, OUT_BYTES);
    send_next(&p, first, OUT_BYTES); // of the part that has been answered
    expect_end(&p, first, 0);
    send_next(&p, first, 0);
    assert_true(peer_receive(&p, &f)); // so what came early has answered nothing
    assert_int_equal(f.header.id, second);
    assert_false(f.m.DUMP_reply.wanted);
    peer_frame_done(&f);
    send_next(&p, second, 0);
    assert_true(peer_receive(&p, &f));
    assert_true(f.m.DUMP_reply.wanted);
    send_next(&p, second, OUT_BYTES);
    expect_end(&p, second, 0);
    peer_close(&p);
}

static void ends_before_it_begins(void **state)
{
    (void)state;
    struct peer p;
    uint64_t context;
    uint32_t first = begin_on(&p, &context), second = send_dump(&p, context);
    uint32_t third = send_dump(&p, context);
    send_next(&p, second, 0);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = second}, NULL, 0);
    expect_end(&p, second, STATUS_FAIL);
    send_next(&p, second, 0);
    uint32_t close =
        peer_send(&p, MESSAGE_CONTEXT_CLOSE, &(rknnd_ContextClose){.context = context}, NULL, 0);
    send_next(&p, third, 0);
    send_next(&p, first, OUT_BYTES);
    expect_end(&p, first, STATUS_CTX_INVALID);
    expect_end(&p, third, STATUS_CTX_INVALID);
    expect_end(&p, close, 0);
    in_process_wait_status(&p, is_idle, NULL);
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(takes_a_tensor_back, start, stop),
        cmocka_unit_test_setup_teardown(refuses_other_sizes, start, stop),
        cmocka_unit_test_setup_teardown(ends_with_a_client_that_goes_in_the_middle, start, stop),
        cmocka_unit_test_setup_teardown(is_cancelled_in_the_middle, start, stop),
        cmocka_unit_test_setup_teardown(ignores_what_is_early_or_late, start, stop),
        cmocka_unit_test_setup_teardown(ends_before_it_begins, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
