// The API from 16 threads: on contexts of their own, on duplicates, and all on the same ones.
#include <pthread.h>

#include "../conformance.h"

#define N_THREADS 16
#define N_ROUNDS  6

static rknn_context shared[2];
static pthread_barrier_t start;

static void run(rknn_context c)
{
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "conv");
}

static void *own_context(void *arg)
{
    rknn_context copy;
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < N_ROUNDS; i++) {
        rknn_context c = conformance_open("conv.rknn", RKNN_FLAG_COLLECT_PERF_MASK);
        NEED_OK(rknn_dup_context(&c, &copy));
        conformance_set_inputs(c, "conv");
        conformance_set_inputs(copy, "conv");
        run(c);
        EXPECT_OK(rknn_destroy(c));
        run(copy);
        EXPECT_OK(rknn_destroy(copy));
    }
    return NULL;
}

// All threads set the same picture, so whichever run's outputs they get are right.
static void *shared_context(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    rknn_context c = shared[number % 2];
    rknn_mem_size size;
    rknn_perf_detail detail;
    rknn_run_extend extend = {.non_block = 1};
    pthread_barrier_wait(&start);
    for (int i = 0; i < N_ROUNDS; i++) {
        conformance_set_inputs(c, "conv");
        EXPECT_OK(rknn_set_core_mask(c, number % 3 ? RKNN_NPU_CORE_AUTO : RKNN_NPU_CORE_0_1_2));
        run(c);
        EXPECT_OK(rknn_run(c, &extend));
        rknn_wait(c, &extend); // another thread's run may have replaced it
        EXPECT_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &size, sizeof size));
        EXPECT_OK(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    }
    return NULL;
}

static void in_threads(void *(*work)(void *))
{
    pthread_t threads[N_THREADS];
    pthread_barrier_init(&start, NULL, N_THREADS);
    for (uintptr_t i = 0; i < N_THREADS; i++)
        NEED_CMP(pthread_create(&threads[i], NULL, work, (void *)i), ==, 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    in_threads(own_context);
    for (int i = 0; i < 2; i++)
        shared[i] = conformance_open("conv.rknn", 0);
    for (int i = 0; i < 2; i++)
        conformance_set_inputs(shared[i], "conv");
    in_threads(shared_context);
    for (int i = 0; i < 2; i++)
        EXPECT_OK(rknn_destroy(shared[i]));
    return conformance_finish();
}
