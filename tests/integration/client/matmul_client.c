// Multiplies the same matrices, checking each product, until its standard input is closed.
//
// matmul_client M K N [LIMIT_MS]: int8, B set once. Says "product" when the first one is there, and
// at the end how many there were. With a limit there are two products, the second one without it,
// and it says of each what became of it.
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "rknn_matmul_api.h"
#include "rknnd.h"
#include "tests/conformance/conformance.h"

struct product {
    int m, k, n;
    rknn_tensor_mem *a, *b, *c;
};

static void fill(const struct product *x)
{
    int8_t *a = x->a->virt_addr, *b = x->b->virt_addr;
    for (int i = 0; i < x->m * x->k; i++)
        a[i] = (int8_t)(i % 7 - 3);
    for (int i = 0; i < x->k * x->n; i++)
        b[i] = (int8_t)(i % 5 - 2);
}

// Some elements of C, all over it.
static void check(const struct product *x)
{
    const int8_t *a = x->a->virt_addr, *b = x->b->virt_addr;
    const int32_t *c = x->c->virt_addr;
    for (int at = 0; at < x->m * x->n; at += 997) {
        int32_t sum = 0;
        for (int i = 0; i < x->k; i++)
            sum += a[at / x->n * x->k + i] * b[i * x->n + at % x->n];
        NEED(c[at] == sum);
    }
}

static rknn_tensor_mem *set(rknn_matmul_ctx context, rknn_matmul_tensor_attr *attr)
{
    rknn_tensor_mem *mem = rknn_create_mem(context, attr->size);
    NEED(mem);
    EXPECT_OK(rknn_matmul_set_io_mem(context, mem, attr));
    return mem;
}

static void try_both(rknn_matmul_ctx context, const struct product *x, uint32_t limit_ms)
{
    const uint32_t limits[] = {limit_ms, 0};
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(rknnd_set_run_limit(context, limits[i]));
        int r = rknn_matmul_run(context);
        printf("%d %s\n", r, r < 0 ? rknnd_last_error() : "product");
        if (r == 0)
            check(x);
    }
}

static unsigned long repeat(rknn_matmul_ctx context, const struct product *x, uint32_t c_size)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned long n = 0;
    while (n == 0 || poll(&input, 1, 0) == 0) {
        memset(x->c->virt_addr, 0, c_size);
        if (!EXPECT_OK(rknn_matmul_run(context)))
            fprintf(stderr, "%s\n", rknnd_last_error());
        check(x);
        if (n++ == 0)
            printf("product\n");
        fflush(stdout);
    }
    return n;
}

int main(int argc, char **argv)
{
    NEED(argc == 4 || argc == 5);
    struct product x = {.m = atoi(argv[1]), .k = atoi(argv[2]), .n = atoi(argv[3])};
    rknn_matmul_info info = {.M = x.m, .K = x.k, .N = x.n, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx context = 0;
    NEED_OK(rknn_matmul_create(&context, &info, &io));
    x.a = set(context, &io.A);
    x.b = set(context, &io.B);
    x.c = set(context, &io.C);
    fill(&x);
    if (argc == 5)
        try_both(context, &x, (uint32_t)atoi(argv[4]));
    else
        printf("%lu products\n", repeat(context, &x, io.C.size));
    EXPECT_OK(rknn_destroy_mem(context, x.a));
    EXPECT_OK(rknn_destroy_mem(context, x.b));
    EXPECT_OK(rknn_destroy_mem(context, x.c));
    EXPECT_OK(rknn_matmul_destroy(context));
    return conformance_finish();
}
