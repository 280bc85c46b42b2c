// Contexts and inferences: contents, sizes, masks, order, limits, cancelling.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/tensor_message.h"
#include "tests/integration/server/in_process.h"

#define IN  100u
#define OUT 250u

static struct in_process server;
static uint8_t hash[SHA256_SIZE];

IN_PROCESS_START(start_plain, server, "backend", "null:100:250", "max-contexts", "8")
IN_PROCESS_START(start_slow, server, "backend", "null:100:250,delay_us=1000000")
IN_PROCESS_START(start_delayed, server, "backend", "null:100:250,delay_us=10")
IN_PROCESS_START(start_some_ms, server, "backend", "null:100:250,delay_us=15000")
IN_PROCESS_START(start_one_core, server, "backend", "null:100:250,cores=1")
IN_PROCESS_START(start_large, server, "backend", "null:100:1000000", "max-inflight-bytes", "8M",
                 "max-inflight", "16")
IN_PROCESS_STOP(stop, server)

static rknnd_ContextInfo connect_and_open(struct peer *p)
{
    return in_process_open(&server, p, "model", hash);
}

static void fill(uint8_t *input, unsigned seed)
{
    for (unsigned i = 0; i < IN; i++)
        input[i] = (uint8_t)(i * 7 + seed);
}

// Backend null gives its input over and over.
static void check_output(const struct peer_frame *f, unsigned seed, size_t size)
{
    uint8_t input[IN];
    fill(input, seed);
    assert_int_equal(f->header.payload_size, size);
    for (size_t i = 0; i < size; i++)
        if (f->payload[i] != input[i % IN])
            fail_msg("byte %zu of output %u is %u", i, seed, f->payload[i]);
}

static uint32_t send_infer(struct peer *p, uint64_t context, unsigned seed)
{
    uint8_t input[IN];
    fill(input, seed);
    return peer_send_infer(p, context, input, IN);
}

static void expect_output(struct peer *p, uint32_t id, unsigned seed, size_t size)
{
    struct peer_frame f;
    struct error e;
    if (peer_wait(p, id, &f, &e) < 0)
        fail_msg("%s", e.text);
    check_output(&f, seed, size);
    assert_int_equal(f.m.INFER_reply.attempts, 1);
    peer_frame_done(&f);
}

static void describes_the_model(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    struct tensor_io *tensors;
    (void)state;
    in_process_connect(&server, &p);
    peer_upload(&p, "model", 5, 5, hash);
    rknnd_ContextOpen m = {0};
    memcpy(m.sha256, hash, sizeof hash);
    assert_int_equal(peer_call(&p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e), 0);
    assert_int_equal(f.m.CONTEXT_OPEN_reply.n_inputs, 1);
    assert_int_equal(f.m.CONTEXT_OPEN_reply.n_outputs, 1);
    struct bytes list = {f.payload, f.header.payload_size};
    assert_int_equal(tensor_list_decode(list, 2, &tensors, &e), 0);
    assert_int_equal(tensors[0].logical.size, IN);
    assert_int_equal(tensors[1].logical.size, OUT);
    free(tensors);
    peer_frame_done(&f);
    rknnd_ModelDescribe d = {0};
    memcpy(d.sha256, hash, sizeof hash);
    assert_int_equal(peer_call(&p, MESSAGE_MODEL_DESCRIBE, &d, NULL, 0, &f, &e), 0);
    assert_int_equal(f.payload[0], '{');
    peer_frame_done(&f);
    peer_close(&p);
}

static void gives_each_its_own_answer(void **state)
{
    struct peer a, b;
    uint32_t ids[2][20];
    (void)state;
    uint64_t x = connect_and_open(&a).context;
    uint64_t y = connect_and_open(&b).context;
    for (unsigned i = 0; i < 20; i++) {
        ids[0][i] = send_infer(&a, x, i);
        ids[1][i] = send_infer(&b, y, 100 + i);
    }
    for (unsigned i = 0; i < 20; i++) {
        expect_output(&b, ids[1][i], 100 + i, OUT);
        expect_output(&a, ids[0][i], i, OUT);
    }
    assert_int_equal(peer_status(&a).models, 1); // shared
    peer_close(&a);
    peer_close(&b);
}

static void leaves_outputs_out_when_asked(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    uint8_t input[IN] = {0};
    (void)state;
    rknnd_Infer m = {
        .context = connect_and_open(&p).context, .inputs_count = 1, .no_outputs = true};
    m.inputs[0] = (rknnd_InferInput){.size = IN, .pass_through = true};
    assert_int_equal(peer_call(&p, MESSAGE_INFER, &m, input, IN, &f, &e), 0);
    assert_int_equal(f.header.payload_size, 0);
    peer_close(&p);
}

static void expect_refused(struct peer *p, const rknnd_Infer *m, size_t payload_size, int code)
{
    static const uint8_t zeros[1000];
    struct peer_frame f;
    struct error e;
    assert_int_equal(peer_call(p, MESSAGE_INFER, m, zeros, payload_size, &f, &e), code);
    assert_cmp(strlen(e.text), >, 10);
    peer_frame_done(&f);
}

static void refuses_wrong_requests(void **state)
{
    struct peer p;
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    const rknnd_Infer good = {
        .context = x,
        .inputs_count = 1,
        .inputs = {{.size = IN, .type = TENSOR_UINT8, .layout = TENSOR_NHWC}}};
    rknnd_Infer m = good;
    m.inputs[0].size = IN - 1;
    expect_refused(&p, &m, IN - 1, STATUS_INPUT_INVALID);
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m.inputs[0].converted = true;
    expect_refused(&p, &m, IN - 1, STATUS_INPUT_INVALID);
    m = good;
    expect_refused(&p, &m, IN - 1, STATUS_INPUT_INVALID); // fewer bytes than announced
    expect_refused(&p, &m, 0, STATUS_INPUT_INVALID);
    m.inputs[0].type = TENSOR_FLOAT32;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m.inputs[0].type = TENSOR_TYPE_COUNT;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m = good;
    m.inputs[0].layout = 77;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m = good;
    m.inputs[0].converted = m.inputs[0].pass_through = true;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m = good;
    m.inputs_count = 2;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    m.inputs_count = 0;
    expect_refused(&p, &m, 0, STATUS_INPUT_INVALID);
    m = good;
    m.inputs[0].size = UINT64_MAX;
    expect_refused(&p, &m, IN, STATUS_INPUT_INVALID);
    const uint64_t handles[] = {0, 1, x + 1, x ^ (UINT64_C(1) << 32), UINT64_MAX};
    for (size_t i = 0; i < 5; i++) {
        m = good;
        m.context = handles[i];
        expect_refused(&p, &m, IN, STATUS_CTX_INVALID);
    }
    const uint32_t masks[] = {5, 6, 8, 15, 65536, 0x80000000u};
    for (size_t i = 0; i < 6; i++) {
        m = good;
        m.core_mask = masks[i];
        expect_refused(&p, &m, IN, STATUS_PARAM_INVALID);
    }
    expect_output(&p, send_infer(&p, x, 3), 3, OUT); // it still works
    peer_close(&p);
}

#define MEMORY 100000u // there may be somewhat more

static void bind_half(struct peer *p, uint64_t context, uint64_t memory, bool output)
{
    struct peer_frame f;
    struct error e;
    rknnd_ContextBind m = {.context = context,
                           .output = output,
                           .memory = memory,
                           .offset = output ? MEMORY / 2 : 0,
                           .type = TENSOR_UINT8,
                           .layout = output ? TENSOR_UNDEFINED : TENSOR_NHWC};
    if (peer_call(p, MESSAGE_CONTEXT_BIND, &m, NULL, 0, &f, &e) < 0)
        fail_msg("%s", e.text);
    peer_frame_done(&f);
}

static void expect_done(struct peer *p, rknnd_Infer *m, uint32_t samples, int wanted)
{
    struct peer_frame f;
    struct error e;
    m->samples = samples;
    assert_int_equal(peer_call(p, MESSAGE_INFER, m, NULL, 0, &f, &e), wanted);
    peer_frame_done(&f);
}

static void bind_all(struct peer *p, uint64_t context)
{
    struct peer_frame f;
    struct error e;
    if (peer_call(p, MESSAGE_MEMORY_CREATE, &(rknnd_MemoryCreate){.size = MEMORY}, NULL, 0, &f,
                  &e) < 0)
        fail_msg("%s", e.text);
    uint64_t memory = f.m.MEMORY_CREATE_reply.memory;
    peer_frame_done(&f);
    bind_half(p, context, memory, false);
    bind_half(p, context, memory, true);
}

// Whatever a client says, a run stays within the memory that is bound.
static void keeps_samples_within_their_memory(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    rknnd_Infer m = {.context = x, .inputs_count = 1, .samples = 3};
    m.inputs[0] = (rknnd_InferInput){.size = IN, .type = TENSOR_UINT8, .layout = TENSOR_NHWC};
    expect_refused(&p, &m, IN, STATUS_PARAM_INVALID);
    m.inputs[0] = (rknnd_InferInput){0};
    peer_call(&p, MESSAGE_MEMORY_CREATE, &(rknnd_MemoryCreate){.size = MEMORY}, NULL, 0, &f, &e);
    uint64_t memory = f.m.MEMORY_CREATE_reply.memory;
    peer_frame_done(&f);
    bind_half(&p, x, memory, false);
    expect_refused(&p, &m, 0, STATUS_PARAM_INVALID); // its output comes with the answer
    bind_half(&p, x, memory, true);
    const uint32_t wrong[] = {MEMORY / 2 / OUT + 64, 1025, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        m.samples = wrong[i];
        expect_refused(&p, &m, 0, STATUS_PARAM_INVALID);
    }
    m.samples = 3;
    m.outputs_back_count = 1;
    expect_refused(&p, &m, 0, STATUS_PARAM_INVALID);
    rknnd_Dump dump = {.has_run = true, .run = {.context = x, .inputs_count = 1, .samples = 3}};
    assert_int_equal(peer_call(&p, MESSAGE_DUMP, &dump, NULL, 0, &f, &e), STATUS_PARAM_INVALID);
    peer_frame_done(&f);
    m.outputs_back_count = 0;
    expect_refused(&p, &m, 0, STATUS_PARAM_INVALID); // nobody knows how long they take
    expect_done(&p, &m, 1, 0);
    expect_done(&p, &m, 3, *state ? STATUS_PARAM_INVALID : 0);
    peer_close(&p);
}

// Others of its priority wait for the end of a run.
static void samples_take_as_long_as_a_run_may(void **state)
{
    struct peer p;
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    rknnd_Infer m = {.context = x, .inputs_count = 1};
    bind_all(&p, x);
    expect_done(&p, &m, 1, 0);
    expect_done(&p, &m, 2, STATUS_PARAM_INVALID); // 2 of 15 ms
    expect_done(&p, &m, 1, 0);
    peer_close(&p);
}

// Who has not agreed on them at HELLO has none, as the protocol says.
static void has_no_samples_without_their_feature(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    peer_connect_unix(&p, server.path);
    const rknnd_Hello hello = {.version_min = PROTOCOL_VERSION_MIN,
                               .version_max = PROTOCOL_VERSION_MAX,
                               .software = "older"};
    assert_int_equal(peer_call(&p, MESSAGE_HELLO, &hello, NULL, 0, &f, &e), 0);
    peer_frame_done(&f);
    peer_upload(&p, "model", 5, 5, hash);
    rknnd_Infer m = {.context = peer_open(&p, hash, 0).context, .inputs_count = 1};
    bind_all(&p, m.context);
    expect_done(&p, &m, 1, 0);
    expect_done(&p, &m, 2, STATUS_PARAM_INVALID);
    expect_done(&p, &m, 1, 0);
    peer_close(&p);
}

// A device that is used on the loop has no runs that would keep it there.
static void has_no_samples_on_the_loop(void **state)
{
    void *refused = &server;
    (void)state;
    keeps_samples_within_their_memory(&refused);
}

static void runs_on_the_cores_that_are_asked_for(void **state)
{
    static const uint32_t masks[] = {0, 1, 2, 4, 3, 7, 0xffff};
    struct peer p;
    struct peer_frame f;
    struct error e;
    uint8_t input[IN];
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    fill(input, 9);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        rknnd_Infer m = {
            .context = x,
            .core_mask = masks[i],
            .inputs_count = 1,
            .inputs = {{.size = IN, .type = TENSOR_UINT8, .layout = TENSOR_UNDEFINED}}};
        assert_int_equal(peer_call(&p, MESSAGE_INFER, &m, input, IN, &f, &e), 0);
        check_output(&f, 9, OUT);
        peer_frame_done(&f);
    }
    peer_close(&p);
}

static void knows_no_masks_on_one_core(void **state)
{
    struct peer p;
    (void)state;
    rknnd_Infer m = {.context = connect_and_open(&p).context,
                     .core_mask = 1,
                     .inputs_count = 1,
                     .inputs = {{.size = IN, .converted = true}}};
    expect_refused(&p, &m, IN, STATUS_PARAM_INVALID);
    m.core_mask = 0xffff;
    expect_refused(&p, &m, IN, STATUS_PARAM_INVALID);
    expect_output(&p, send_infer(&p, m.context, 1), 1, OUT);
    peer_close(&p);
}

static int close_context(struct peer *p, uint64_t context)
{
    struct peer_frame f;
    struct error e;
    return peer_call(p, MESSAGE_CONTEXT_CLOSE, &(rknnd_ContextClose){.context = context}, NULL, 0,
                     &f, &e);
}

static void keeps_handles_within_the_session(void **state)
{
    struct peer owner, friend, stranger;
    (void)state;
    rknnd_HelloReply hello = in_process_connect(&server, &owner);
    peer_upload(&owner, "model", 5, 5, hash);
    uint64_t x = peer_open(&owner, hash, 0).context;
    peer_connect_tcp(&friend, server.port);
    peer_hello(&friend, hello.session, hello.session_secret.bytes);
    in_process_connect(&server, &stranger);
    expect_output(&friend, send_infer(&friend, x, 1), 1, OUT);
    assert_int_equal(close_context(&stranger, x), STATUS_CTX_INVALID);
    assert_int_equal(close_context(&friend, x), 0);
    assert_int_equal(close_context(&owner, x), STATUS_CTX_INVALID);
    assert_int_not_equal(peer_open(&owner, hash, 0).context, x);
    peer_close(&owner);
    peer_close(&friend);
    peer_close(&stranger);
}

static void duplicates_contexts(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    assert_int_equal(
        peer_call(&p, MESSAGE_CONTEXT_DUP, &(rknnd_ContextDup){.context = x}, NULL, 0, &f, &e), 0);
    uint64_t y = f.m.CONTEXT_DUP_reply.context;
    peer_frame_done(&f);
    assert_int_not_equal(y, x);
    assert_int_equal(close_context(&p, x), 0);
    expect_output(&p, send_infer(&p, y, 4), 4, OUT);
    peer_close(&p);
}

static void limits_contexts(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    uint64_t last = connect_and_open(&p).context;
    for (int i = 1; i < 8; i++)
        last = peer_open(&p, hash, 0).context;
    rknnd_ContextOpen m = {0};
    memcpy(m.sha256, hash, sizeof hash);
    assert_int_equal(peer_call(&p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e), STATUS_MALLOC_FAIL);
    assert_int_equal(close_context(&p, last), 0);
    peer_open(&p, hash, 0);
    m.flags = 3; // no such priority
    assert_int_equal(peer_call(&p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e),
                     STATUS_PARAM_INVALID);
    memset(m.sha256, 1, sizeof m.sha256);
    assert_int_equal(peer_call(&p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e),
                     STATUS_MODEL_INVALID);
    peer_close(&p);
}

static void gives_layer_times(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    rknnd_Layer layer;
    uint8_t input[IN] = {0};
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    assert_int_equal(
        peer_call(&p, MESSAGE_PROFILE, &(rknnd_Profile){.context = x}, NULL, 0, &f, &e), 0);
    assert_int_equal(f.m.PROFILE_reply.n_layers, 0);
    peer_frame_done(&f);
    rknnd_Infer m = {.context = x, .collect_perf = true, .inputs_count = 1};
    m.inputs[0] = (rknnd_InferInput){.size = IN, .converted = true};
    assert_int_equal(peer_call(&p, MESSAGE_INFER, &m, input, IN, &f, &e), 0);
    peer_frame_done(&f);
    assert_int_equal(
        peer_call(&p, MESSAGE_PROFILE, &(rknnd_Profile){.context = x}, NULL, 0, &f, &e), 0);
    assert_int_equal(f.m.PROFILE_reply.n_layers, 1);
    struct bytes rest = {f.payload, f.header.payload_size};
    assert_int_equal(message_delimited_take(rknnd_Layer_fields, &rest, &layer, &e), 0);
    assert_string_equal(layer.op, "Repeat");
    assert_int_equal(rest.size, 0);
    peer_frame_done(&f);
    peer_close(&p);
}

// Sixty megabytes are asked for and not taken: the server holds a few of them, and everything
// comes in the end.
static void stops_reading_from_a_client_that_does_not_read(void **state)
{
    struct peer p, watcher;
    uint32_t ids[60];
    (void)state;
    in_process_connect(&server, &watcher);
    uint64_t x = connect_and_open(&p).context;
    for (unsigned i = 0; i < 60; i++)
        ids[i] = send_infer(&p, x, i);
    uint64_t most = 0;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t held = peer_status(&watcher).buffer_bytes;
        most = held > most ? held : most;
    }
    assert_in_range(most, 1, 24 << 20);
    for (unsigned i = 0; i < 60; i++)
        expect_output(&p, ids[i], i, 1000000);
    peer_close(&p);
    peer_close(&watcher);
}

static void cancels(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    uint32_t running = send_infer(&p, x, 1), waiting = send_infer(&p, x, 2);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = waiting}, NULL, 0);
    assert_int_equal(peer_wait(&p, waiting, &f, &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "cancel"));
    expect_output(&p, running, 1, OUT);
    running = send_infer(&p, x, 3);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = running}, NULL, 0);
    assert_int_equal(peer_wait(&p, running, &f, &e), STATUS_FAIL);
    peer_send(&p, MESSAGE_CANCEL, &(rknnd_Cancel){.request = 12345}, NULL, 0);
    expect_output(&p, send_infer(&p, x, 4), 4, OUT); // after the one that nobody waits for
    peer_close(&p);
}

static void refuses_an_id_in_use(void **state)
{
    struct peer p;
    struct peer_frame f;
    uint8_t input[IN] = {0};
    (void)state;
    uint64_t x = connect_and_open(&p).context;
    uint32_t id = peer_send_infer(&p, x, input, IN);
    p.next_id = id - 1;
    peer_send_infer(&p, x, input, IN);
    while (peer_receive(&p, &f) && f.header.type != MESSAGE_GOODBYE)
        peer_frame_done(&f);
    assert_non_null(strstr(f.m.GOODBYE_request.reason, "in use"));
    peer_expect_closed(&p);
    peer_close(&p);
}

static void tells_those_who_use_a_context_that_closes(void **state)
{
    struct peer owner, friend;
    struct peer_frame f;
    struct error e;
    (void)state;
    rknnd_HelloReply hello = in_process_connect(&server, &owner);
    peer_upload(&owner, "model", 5, 5, hash);
    uint64_t x = peer_open(&owner, hash, 0).context;
    peer_connect_tcp(&friend, server.port);
    peer_hello(&friend, hello.session, hello.session_secret.bytes);
    uint32_t first = send_infer(&friend, x, 1), second = send_infer(&friend, x, 2);
    peer_status(&friend); // both have been read
    assert_int_equal(close_context(&owner, x), 0);
    assert_int_equal(peer_wait(&friend, first, &f, &e), STATUS_CTX_INVALID);
    assert_int_equal(peer_wait(&friend, second, &f, &e), STATUS_CTX_INVALID);
    peer_close(&owner);
    peer_close(&friend);
}

static void finishes_what_runs_when_it_drains(void **state)
{
    struct peer p, late;
    struct peer_frame f;
    (void)state;
    start_slow(state);
    uint64_t x = connect_and_open(&p).context;
    in_process_connect(&server, &late);
    uint32_t id = send_infer(&p, x, 5);
    peer_status(&p); // it has been read
    in_process_drain(&server);
    assert_true(peer_receive(&late, &f));
    assert_int_equal(f.header.type, MESSAGE_GOODBYE);
    struct error e;
    assert_int_equal(
        peer_call(&late, MESSAGE_MODEL_OFFER, &(rknnd_ModelOffer){.size = 1}, NULL, 0, &f, &e),
        STATUS_DEVICE_UNAVAILABLE);
    expect_output(&p, id, 5, OUT);
    peer_expect_closed(&p);
    peer_expect_closed(&late);
    peer_close(&p);
    peer_close(&late);
    in_process_join(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(describes_the_model, start_plain, stop),
        cmocka_unit_test_setup_teardown(gives_each_its_own_answer, start_plain, stop),
        cmocka_unit_test_setup_teardown(leaves_outputs_out_when_asked, start_plain, stop),
        cmocka_unit_test_setup_teardown(refuses_wrong_requests, start_plain, stop),
        cmocka_unit_test_setup_teardown(keeps_samples_within_their_memory, start_delayed, stop),
        cmocka_unit_test_setup_teardown(has_no_samples_on_the_loop, start_plain, stop),
        cmocka_unit_test_setup_teardown(has_no_samples_without_their_feature, start_delayed, stop),
        cmocka_unit_test_setup_teardown(samples_take_as_long_as_a_run_may, start_some_ms, stop),
        cmocka_unit_test_setup_teardown(runs_on_the_cores_that_are_asked_for, start_plain, stop),
        cmocka_unit_test_setup_teardown(knows_no_masks_on_one_core, start_one_core, stop),
        cmocka_unit_test_setup_teardown(keeps_handles_within_the_session, start_plain, stop),
        cmocka_unit_test_setup_teardown(duplicates_contexts, start_plain, stop),
        cmocka_unit_test_setup_teardown(limits_contexts, start_plain, stop),
        cmocka_unit_test_setup_teardown(gives_layer_times, start_plain, stop),
        cmocka_unit_test_setup_teardown(stops_reading_from_a_client_that_does_not_read, start_large,
                                        stop),
        cmocka_unit_test_setup_teardown(cancels, start_slow, stop),
        cmocka_unit_test_setup_teardown(refuses_an_id_in_use, start_slow, stop),
        cmocka_unit_test_setup_teardown(tells_those_who_use_a_context_that_closes, start_slow,
                                        stop),
        cmocka_unit_test(finishes_what_runs_when_it_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
