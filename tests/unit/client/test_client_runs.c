// Runs that do not block, waiting with a timeout, and which outputs are whose.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_server.h"
#include "rknnd.h"

static struct fake_server server;
static char model[] = "a model";

// Runs are answered when the test lets them.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned allowed, fail_at;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static enum fake_answer wait_at_gate(struct fake_peer *p, const struct frame_header *h,
                                     const union message_any *m)
{
    static unsigned n;
    (void)m;
    if (h->type == MESSAGE_HELLO)
        n = 0;
    if (h->type != MESSAGE_INFER)
        return FAKE_DEFAULT;
    pthread_mutex_lock(&gate.lock);
    unsigned number = ++n;
    while (gate.allowed < number)
        pthread_cond_wait(&gate.changed, &gate.lock);
    bool fail = number == gate.fail_at;
    pthread_mutex_unlock(&gate.lock);
    if (fail)
        fake_fail(p, h, STATUS_TIMEOUT, "held the core for too long");
    return fail ? FAKE_DONE : FAKE_DEFAULT;
}

static void allow(unsigned n)
{
    pthread_mutex_lock(&gate.lock);
    gate.allowed = n;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static int set_up(void **state)
{
    (void)state;
    fake_server_init(&server);
    server.hook = wait_at_gate;
    gate.fail_at = 0;
    allow(0);
    fake_server_start(&server);
    return rknnd_set_server(server.uri);
}

static int tear_down(void **state)
{
    (void)state;
    allow(1000);
    fake_server_stop(&server);
    return 0;
}

static rknn_context open_context(uint32_t flags)
{
    rknn_context c = 0;
    assert_int_equal(rknn_init(&c, model, sizeof model, flags, NULL), RKNN_SUCC);
    return c;
}

// Inputs that mark the run: the server answers with them.
static void set_mark(rknn_context c, uint8_t mark)
{
    uint8_t image[12], vector[8];
    memset(image, mark, sizeof image);
    memset(vector, mark, sizeof vector);
    rknn_input in[] = {{.index = 0, .buf = image, .size = 12, .pass_through = 1},
                       {.index = 1, .buf = vector, .size = 8, .pass_through = 1}};
    assert_int_equal(rknn_inputs_set(c, 2, in), RKNN_SUCC);
}

static uint64_t start_run(rknn_context c, uint8_t mark)
{
    rknn_run_extend run = {.non_block = 1};
    set_mark(c, mark);
    assert_int_equal(rknn_run(c, &run), RKNN_SUCC);
    return run.frame_id;
}

static int wait_run(rknn_context c, uint64_t frame, int timeout_ms)
{
    return rknn_wait(c, &(rknn_run_extend){.frame_id = frame, .timeout_ms = timeout_ms});
}

// Gets the outputs: their mark, and the frame they say they are of.
static uint8_t get_mark(rknn_context c, uint64_t *frame)
{
    uint8_t bytes[12] = {0};
    rknn_output out = {.index = 0, .is_prealloc = 1, .buf = bytes, .size = sizeof bytes};
    rknn_output_extend extend = {0};
    assert_int_equal(rknn_outputs_get(c, 1, &out, &extend), RKNN_SUCC);
    *frame = extend.frame_id;
    assert_int_equal(bytes[0], bytes[11]);
    return bytes[0];
}

static void timeout_and_again(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint64_t frame;
    rknn_run_extend run = {.timeout_ms = 20};
    set_mark(c, 1);
    assert_int_equal(rknn_run(c, &run), RKNN_ERR_TIMEOUT);
    assert_int_equal(wait_run(c, run.frame_id, 20), RKNN_ERR_TIMEOUT);
    assert_int_equal(wait_run(c, 0, 20), RKNN_ERR_TIMEOUT);
    allow(1);
    assert_int_equal(rknn_wait(c, NULL), RKNN_SUCC);
    assert_int_equal(rknn_wait(c, NULL), RKNN_SUCC); // nothing left to wait for
    assert_int_equal(get_mark(c, &frame), 1);
    assert_int_equal(frame, run.frame_id);
    rknn_destroy(c);
}

static int give_up(void *asked)
{
    ++*(int *)asked;
    return 1;
}

// Asked after a while, without a signal, too: one could come just before the wait.
static void interrupted_and_again(void **state)
{
    (void)state;
    int asked = 0;
    uint64_t frame;
    rknn_context c = open_context(0);
    rknn_run_extend run = {0};
    set_mark(c, 1);
    rknnd_set_interrupt(give_up, &asked);
    assert_int_equal(rknn_run(c, &run), RKNN_ERR_FAIL);
    assert_non_null(strstr(rknnd_last_error(), "interrupted"));
    assert_int_equal(wait_run(c, run.frame_id, 0), RKNN_ERR_FAIL);
    assert_int_equal(asked, 2);
    rknnd_set_interrupt(NULL, NULL);
    allow(1);
    assert_int_equal(wait_run(c, run.frame_id, 0), RKNN_SUCC);
    assert_int_equal(get_mark(c, &frame), 1);
    assert_int_equal(frame, run.frame_id);
    rknn_destroy(c);
}

static enum fake_answer never_open(struct fake_peer *p, const struct frame_header *h,
                                   const union message_any *m)
{
    (void)p;
    (void)m;
    return h->type == MESSAGE_CONTEXT_OPEN ? FAKE_DONE : FAKE_DEFAULT;
}

static void interrupted_for_good(void **state)
{
    (void)state;
    int asked = 0;
    rknn_context c = 0;
    server.hook = never_open;
    rknnd_set_interrupt(give_up, &asked);
    assert_int_equal(rknn_init(&c, model, sizeof model, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    rknnd_set_interrupt(NULL, NULL);
    assert_non_null(strstr(rknnd_last_error(), "interrupted"));
    assert_cmp(asked, >, 0);
    server.hook = wait_at_gate;
    rknn_destroy(open_context(0));
}

static void outputs_wait(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint64_t frame, first = start_run(c, 1);
    allow(1);
    assert_int_equal(get_mark(c, &frame), 1);
    assert_int_equal(frame, first);
    assert_int_equal(get_mark(c, &frame), 1); // still there
    rknn_destroy(c);
}

// The next run goes to the server before the outputs of the last one are fetched.
static void pipeline(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint64_t frame, now = start_run(c, 0);
    allow(1000);
    for (uint8_t i = 1; i < 50; i++) {
        uint64_t next = start_run(c, i);
        assert_cmp(next, >, now);
        assert_int_equal(wait_run(c, now, 0), RKNN_SUCC);
        assert_int_equal(get_mark(c, &frame), i - 1);
        assert_int_equal(frame, now);
        now = next;
    }
    assert_int_equal(get_mark(c, &frame), 49);
    assert_int_equal(frame, now);
    rknn_destroy(c);
}

static void inputs_may_change_meanwhile(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint64_t frame;
    start_run(c, 1);
    set_mark(c, 2);
    allow(1);
    assert_int_equal(get_mark(c, &frame), 1);
    rknn_destroy(c);
}

static void wrong_waits(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    assert_int_equal(rknn_wait(c, NULL), RKNN_ERR_FAIL);
    assert_non_null(strstr(rknnd_last_error(), "nothing was run"));
    uint64_t first = start_run(c, 1), second = start_run(c, 2), frame;
    allow(2);
    assert_int_equal(wait_run(c, second + 1, 0), RKNN_ERR_PARAM_INVALID);
    assert_int_equal(wait_run(c, second, 0), RKNN_SUCC);
    assert_int_equal(get_mark(c, &frame), 2);
    assert_int_equal(wait_run(c, first, 0), RKNN_ERR_FAIL); // given up for the second
    rknn_destroy(c);
}

static void failed_run(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    uint64_t frame;
    rknn_output out = {.index = 0};
    gate.fail_at = 2;
    allow(1000);
    start_run(c, 1);
    start_run(c, 2);
    assert_int_equal(get_mark(c, &frame), 1);
    assert_int_equal(rknn_outputs_get(c, 1, &out, NULL), RKNN_ERR_TIMEOUT);
    assert_non_null(strstr(rknnd_last_error(), "held the core for too long"));
    assert_int_equal(rknn_outputs_get(c, 1, &out, NULL), RKNN_ERR_OUTPUT_INVALID);
    set_mark(c, 3);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(get_mark(c, &frame), 3);
    rknn_destroy(c);
}

// A run that nobody waits for makes room, but its failure is told.
static void unwaited_failure_is_told(void **state)
{
    (void)state;
    rknn_context c = open_context(0);
    gate.fail_at = 1;
    allow(1000);
    start_run(c, 1);
    start_run(c, 2);
    set_mark(c, 3);
    assert_int_equal(rknn_run(c, NULL), RKNN_ERR_TIMEOUT);
    assert_non_null(strstr(rknnd_last_error(), "which nobody waited for"));
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    rknn_destroy(c);
}

// RKNN_FLAG_ASYNC_MASK: outputs are those of the run before, and the last run is not waited for.
static void async(void **state)
{
    (void)state;
    rknn_context c = open_context(RKNN_FLAG_ASYNC_MASK);
    uint64_t frame;
    allow(1);
    set_mark(c, 1);
    assert_int_equal(rknn_run(c, NULL), RKNN_SUCC);
    assert_int_equal(get_mark(c, &frame), 1); // has none before it
    for (uint8_t i = 2; i < 20; i++) {
        set_mark(c, i);
        assert_int_equal(rknn_run(c, NULL), RKNN_SUCC); // not let through yet
        assert_int_equal(get_mark(c, &frame), i - 1);
        allow(i);
    }
    rknn_destroy(c);
}

// A context may end with a run on its way; the answer that still comes is read and dropped.
static void destroy_in_flight(void **state)
{
    (void)state;
    rknn_context c = open_context(0), d = open_context(0);
    start_run(c, 1);
    allow(1);
    assert_int_equal(rknn_destroy(c), RKNN_SUCC);
    assert_int_equal(rknn_destroy(d), RKNN_SUCC);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(interrupted_and_again),
        TEST(interrupted_for_good),
        TEST(timeout_and_again),
        TEST(outputs_wait),
        TEST(pipeline),
        TEST(inputs_may_change_meanwhile),
        TEST(wrong_waits),
        TEST(failed_run),
        TEST(unwaited_failure_is_told),
        TEST(async),
        TEST(destroy_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
