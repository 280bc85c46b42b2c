// The API from many threads, on contexts of their own and on shared ones; for the thread sanitizer.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_server.h"
#include "rknnd.h"

#define N_THREADS 8
#define N_ROUNDS  25

static struct fake_server server;
static char model[] = "a model";

static int set_up(void **state)
{
    (void)state;
    fake_server_init(&server);
    server.heartbeat_ms = 20; // the keep-alive thread is busy, too
    fake_server_start(&server);
    rknnd_set_server(server.uri);
    rknn_context c = 0; // brings the model over: the fake server takes only one upload at a time
    return rknn_init(&c, model, sizeof model, 0, NULL) + rknn_destroy(c);
}

static int tear_down(void **state)
{
    (void)state;
    fake_server_stop(&server);
    return 0;
}

static int run_marked(rknn_context c, uint8_t mark)
{
    uint8_t image[12], vector[8], out_bytes[12];
    memset(image, mark, sizeof image);
    memset(vector, mark, sizeof vector);
    rknn_input in[] = {{.index = 0, .buf = image, .size = 12, .pass_through = 1},
                       {.index = 1, .buf = vector, .size = 8, .pass_through = 1}};
    rknn_output out = {.is_prealloc = 1, .buf = out_bytes, .size = sizeof out_bytes};
    int r = rknn_inputs_set(c, 2, in);
    if (r == 0)
        r = rknn_run(c, NULL);
    if (r == 0)
        r = rknn_outputs_get(c, 1, &out, NULL);
    return r == 0 && out_bytes[0] != out_bytes[11] ? 1 : r;
}

static void *own_contexts(void *arg)
{
    intptr_t number = (intptr_t)arg;
    for (int round = 0; round < N_ROUNDS; round++) {
        rknn_context c, d;
        if (rknn_init(&c, model, sizeof model, 0, NULL) != RKNN_SUCC)
            return "init";
        if (rknn_dup_context(&c, &d) != RKNN_SUCC)
            return "dup";
        for (int i = 0; i < 5; i++)
            if (run_marked(i % 2 ? c : d, (uint8_t)(number * 10 + i)) != 0)
                return "run";
        if (rknn_destroy(c) != RKNN_SUCC || rknn_destroy(d) != RKNN_SUCC)
            return "destroy";
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[N_THREADS];
    for (intptr_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed)
            fail_msg("thread %d: %s", i, (char *)failed);
    }
}

static void threads_with_contexts_of_their_own(void **state)
{
    (void)state;
    run_threads(own_contexts);
    assert_int_equal(server.n_contexts, 0);
    assert_int_equal(server.n_runs, N_THREADS * N_ROUNDS * 5);
}

static rknn_context shared;

static void *shared_context(void *arg)
{
    for (int i = 0; i < 100; i++) {
        rknn_input_output_num n;
        int r = run_marked(shared, (uint8_t)((intptr_t)arg + i));
        if (r > 0)
            return "outputs of two runs mixed";
        if (r != RKNN_SUCC && r != RKNN_ERR_CTX_INVALID)
            return "run";
        r = rknn_query(shared, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
        if (r != RKNN_SUCC && r != RKNN_ERR_CTX_INVALID)
            return "query";
        if ((intptr_t)arg == 0 && i == 50)
            rknn_destroy(shared); // while the others are inside
    }
    return NULL;
}

static void shared_context_destroyed_in_use(void **state)
{
    (void)state;
    assert_int_equal(rknn_init(&shared, model, sizeof model, 0, NULL), RKNN_SUCC);
    run_threads(shared_context);
    assert_int_equal(rknn_destroy(shared), RKNN_ERR_CTX_INVALID);
    assert_int_equal(server.n_contexts, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_with_contexts_of_their_own),
        TEST(shared_context_destroyed_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
