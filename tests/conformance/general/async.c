// Runs that do not block: frame ids, waiting, several runs and contexts in flight,
// RKNN_FLAG_ASYNC_MASK. Each frame has a picture of its own, so that its outputs tell it.
#include "../conformance.h"

#define SIZE     192 // 8x8x3
#define OUT_SIZE 512
#define N_FRAMES 6

static uint8_t expected[N_FRAMES][OUT_SIZE];

static void set_frame(rknn_context c, unsigned frame)
{
    uint8_t picture[SIZE];
    for (unsigned i = 0; i < SIZE; i++)
        picture[i] = (uint8_t)(frame * 40 + i);
    rknn_input in = {
        .buf = picture, .size = SIZE, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    NEED_OK(rknn_inputs_set(c, 1, &in));
}

static void get(rknn_context c, uint8_t bytes[OUT_SIZE], uint64_t *id)
{
    rknn_output out = {.is_prealloc = 1, .buf = bytes, .size = OUT_SIZE};
    rknn_output_extend extend = {0};
    NEED_OK(rknn_outputs_get(c, 1, &out, &extend));
    *id = extend.frame_id;
}

static void expect_frame(rknn_context c, unsigned frame, uint64_t id)
{
    uint8_t bytes[OUT_SIZE];
    uint64_t got = 0;
    get(c, bytes, &got);
    EXPECT_CMP(got, ==, id);
    EXPECT_MEMORY(bytes, expected[frame], OUT_SIZE);
}

static uint64_t start(rknn_context c, unsigned frame)
{
    rknn_run_extend run = {.non_block = 1};
    set_frame(c, frame);
    NEED_OK(rknn_run(c, &run));
    return run.frame_id;
}

static void learn(void)
{
    uint64_t id, before = 0;
    rknn_context c = conformance_open("conv.rknn", 0);
    for (unsigned i = 0; i < N_FRAMES; i++) {
        rknn_run_extend run = {0};
        set_frame(c, i);
        NEED_OK(rknn_run(c, &run));
        get(c, expected[i], &id);
        EXPECT_CMP(id, ==, run.frame_id);
        EXPECT_CMP(id, >, before);
        EXPECT(i == 0 || memcmp(expected[i], expected[i - 1], OUT_SIZE) != 0);
        before = id;
    }
    EXPECT_OK(rknn_destroy(c));
}

// One run is started while the one before is still to be fetched.
static void pipeline(void)
{
    rknn_context c = conformance_open("conv.rknn", 0);
    uint64_t id = start(c, 0);
    for (unsigned i = 1; i < N_FRAMES; i++) {
        rknn_run_extend wait = {.frame_id = id};
        uint64_t next = start(c, i);
        EXPECT_OK(rknn_wait(c, &wait));
        expect_frame(c, i - 1, id);
        id = next;
    }
    EXPECT_OK(rknn_wait(c, NULL)); // the last one
    EXPECT_OK(rknn_wait(c, NULL)); // which may be waited for again
    expect_frame(c, N_FRAMES - 1, id);
    EXPECT_OK(rknn_destroy(c));
}

// rknn_outputs_get waits by itself; a limit that is not reached changes nothing.
static void get_waits(void)
{
    rknn_context c = conformance_open("conv.rknn", 0);
    rknn_run_extend run = {.timeout_ms = 20000};
    uint64_t id = start(c, 2);
    expect_frame(c, 2, id);
    set_frame(c, 3);
    EXPECT_OK(rknn_run(c, &run));
    EXPECT_CMP(run.frame_id, ==, id + 1);
    expect_frame(c, 3, run.frame_id);
    EXPECT_OK(rknn_destroy(c));
}

static void many_contexts(void)
{
    rknn_context c[N_FRAMES];
    uint64_t ids[N_FRAMES];
    for (unsigned i = 0; i < N_FRAMES; i++) {
        if (i == 0)
            c[i] = conformance_open("conv.rknn", 0);
        else
            NEED_OK(rknn_dup_context(&c[0], &c[i]));
        ids[i] = start(c[i], i);
    }
    for (unsigned i = N_FRAMES; i-- > 0;)
        expect_frame(c[i], i, ids[i]);
    for (unsigned i = 0; i < N_FRAMES; i++)
        EXPECT_OK(rknn_destroy(c[i]));
}

// With the flag rknn_run returns at once, and outputs are those of the frame before.
static void previous_frame(void)
{
    rknn_context c = conformance_open("conv.rknn", RKNN_FLAG_ASYNC_MASK);
    uint64_t before = 0;
    for (unsigned i = 0; i < N_FRAMES; i++) {
        rknn_run_extend run = {0};
        set_frame(c, i);
        NEED_OK(rknn_run(c, &run));
        expect_frame(c, i ? i - 1 : 0, i ? before : run.frame_id);
        before = run.frame_id;
    }
    EXPECT_OK(rknn_wait(c, NULL));
    EXPECT_OK(rknn_destroy(c));
}

// A context may end with a run in flight.
static void destroy_in_flight(void)
{
    rknn_context c = conformance_open("conv.rknn", 0);
    start(c, 0);
    start(c, 1);
    EXPECT_OK(rknn_destroy(c));
    EXPECT_CODE(RKNN_ERR_CTX_INVALID, rknn_wait(c, NULL));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    learn();
    pipeline();
    get_waits();
    many_contexts();
    previous_frame();
    destroy_in_flight();
    return conformance_finish();
}
