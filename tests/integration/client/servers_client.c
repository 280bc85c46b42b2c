// Many threads of one program on several servers at once.
//
// servers_client MODEL ROUNDS URI…: two threads for each URI open the model, duplicate it, run both
// and multiply matrices there, while another thread keeps choosing the program's server at random.
// Threads of the n-th URI run each of their contexts n times a round, so that the servers' own
// counts (the program prints those that it has caused) tell where runs went.
#include <pthread.h>
#include <stdatomic.h>

#include "rknn_matmul_api.h"
#include "rknnd.h"
#include "tests/conformance/conformance.h"

#define MAX_SERVERS 8
#define SIDE        32 // of the matrices

static const char *model;
static unsigned n_rounds, n_servers;
static char **uris;
static atomic_bool ended;

static void run(rknn_context c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!EXPECT_OK(rknn_run(c, NULL)))
            fprintf(stderr, "%s\n", rknnd_last_error());
}

static rknn_tensor_mem *bind_input(rknn_context c)
{
    rknn_tensor_attr attr = {.index = 0};
    NEED_OK(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    attr.type = RKNN_TENSOR_UINT8;
    attr.fmt = RKNN_TENSOR_NHWC;
    rknn_tensor_mem *mem = rknn_create_mem(c, attr.size_with_stride);
    NEED(mem);
    memset(mem->virt_addr, 1, attr.size_with_stride);
    EXPECT_OK(rknn_set_io_mem(c, mem, &attr));
    return mem;
}

static void infer(unsigned n_runs)
{
    rknn_context c, twin;
    NEED_OK(rknn_init(&c, (void *)(uintptr_t)model, 0, 0, NULL));
    EXPECT_OK(rknnd_set_thread_server("tcp:127.0.0.1:1")); // what is open stays
    NEED_OK(rknn_dup_context(&c, &twin));
    rknn_tensor_mem *of_c = bind_input(c), *of_twin = bind_input(twin);
    run(c, n_runs);
    run(twin, n_runs);
    EXPECT_OK(rknn_destroy_mem(c, of_c));
    EXPECT_OK(rknn_destroy_mem(twin, of_twin));
    EXPECT_OK(rknn_destroy(twin));
    EXPECT_OK(rknn_destroy(c));
}

static rknn_tensor_mem *bind(rknn_matmul_ctx c, rknn_matmul_tensor_attr *attr)
{
    rknn_tensor_mem *mem = rknn_create_mem(c, attr->size);
    NEED(mem);
    memset(mem->virt_addr, 1, attr->size);
    EXPECT_OK(rknn_matmul_set_io_mem(c, mem, attr));
    return mem;
}

static void multiply(unsigned n_runs)
{
    rknn_matmul_info info = {.M = 2, .K = SIDE, .N = SIDE, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    rknn_tensor_mem *mems[] = {bind(c, &io.A), bind(c, &io.B), bind(c, &io.C)};
    for (unsigned i = 0; i < n_runs; i++)
        EXPECT_OK(rknn_matmul_run(c));
    EXPECT(((const int32_t *)mems[2]->virt_addr)[2 * SIDE - 1] == SIDE);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(rknn_destroy_mem(c, mems[i]));
    EXPECT_OK(rknn_matmul_destroy(c));
}

static void *work(void *user)
{
    unsigned server = *(unsigned *)user;
    for (unsigned round = 0; round < n_rounds; round++) {
        rknnd_server_info info = {.struct_size = sizeof info};
        EXPECT_OK(rknnd_set_thread_server(uris[server]));
        EXPECT_OK(rknnd_get_server_info(NULL, &info));
        EXPECT(strcmp(info.uri, uris[server]) == 0);
        multiply(server + 1);
        infer(server + 1);
    }
    return NULL;
}

static void *choose(void *user)
{
    (void)user;
    for (unsigned i = 0; !ended; i++)
        rknnd_set_server(i % 3 == 2 ? "tcp:127.0.0.1:1" : uris[i % n_servers]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_SERVERS][2], chooser;
    rknnd_server_status before[MAX_SERVERS], after;
    rknn_context kept[MAX_SERVERS]; // a private daemon ends with its last context
    unsigned numbers[MAX_SERVERS];
    NEED(argc > 4 && argc - 3 <= MAX_SERVERS);
    model = argv[1];
    n_rounds = (unsigned)atoi(argv[2]);
    uris = argv + 3;
    n_servers = (unsigned)argc - 3;
    for (unsigned i = 0; i < n_servers; i++) {
        numbers[i] = i;
        before[i] = (rknnd_server_status){.struct_size = sizeof after};
        EXPECT_OK(rknnd_set_thread_server(uris[i]));
        NEED_OK(rknn_init(&kept[i], argv[1], 0, 0, NULL));
        EXPECT_OK(rknnd_get_server_status(uris[i], &before[i]));
    }
    pthread_create(&chooser, NULL, choose, NULL);
    for (unsigned i = 0; i < 2 * n_servers; i++)
        pthread_create(&threads[i / 2][i % 2], NULL, work, &numbers[i / 2]);
    for (unsigned i = 0; i < 2 * n_servers; i++)
        pthread_join(threads[i / 2][i % 2], NULL);
    ended = true;
    pthread_join(chooser, NULL);
    for (unsigned i = 0; i < n_servers; i++) {
        after = (rknnd_server_status){.struct_size = sizeof after};
        EXPECT_OK(rknnd_get_server_status(uris[i], &after));
        printf("%s %llu\n", uris[i], (unsigned long long)(after.jobs_done - before[i].jobs_done));
        EXPECT(after.jobs_done - before[i].jobs_done == 2 * n_rounds * 3 * (i + 1));
        EXPECT(after.jobs_failed == before[i].jobs_failed);
        EXPECT_OK(rknn_destroy(kept[i]));
    }
    return conformance_finish();
}
