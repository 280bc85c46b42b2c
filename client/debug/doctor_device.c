// What the server runs on, and whether each of its cores computes what it should: a small int8
// product on each core, compared with the same product computed here. It uses the public functions,
// so what is tested is what programs call.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "client/debug/doctor.h"
#include "rknn_matmul_api.h"

// Sizes of a product that every chip with products can do: int8 to int32.
enum { M = 4, K = 64, N = 64 };

// The product: a context and the memories of A, B and C.
struct probe {
    rknn_matmul_ctx context;
    rknn_matmul_io_attr attrs;
    rknn_tensor_mem *a, *b, *c;
};

// Values that repeat neither by row nor by column, so that exchanged elements show.
static void doctor_fill(int8_t *values, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (int8_t)((i * 37 + i / 7 * 11 + seed) % 256);
}

// Returns an RKNN code; what was made until then is in *p, for close_probe().
static int open_probe(struct probe *p)
{
    rknn_matmul_info info = {.M = M, .K = K, .N = N, .type = RKNN_INT8_MM_INT8_TO_INT32};
    int r = rknn_matmul_create(&p->context, &info, &p->attrs);
    if (r < 0)
        return r;
    p->a = rknn_create_mem(p->context, p->attrs.A.size);
    p->b = rknn_create_mem(p->context, p->attrs.B.size);
    p->c = rknn_create_mem(p->context, p->attrs.C.size);
    if (!p->a || !p->b || !p->c)
        return RKNN_ERR_MALLOC_FAIL;
    doctor_fill(p->a->virt_addr, (size_t)M * K, 1);
    doctor_fill(p->b->virt_addr, (size_t)K * N, 2);
    r = rknn_matmul_set_io_mem(p->context, p->a, &p->attrs.A);
    if (r == 0)
        r = rknn_matmul_set_io_mem(p->context, p->b, &p->attrs.B);
    return r == 0 ? rknn_matmul_set_io_mem(p->context, p->c, &p->attrs.C) : r;
}

static void close_probe(struct probe *p)
{
    rknn_tensor_mem *const memories[] = {p->a, p->b, p->c};
    for (size_t i = 0; i < 3; i++)
        if (memories[i])
            rknn_destroy_mem(p->context, memories[i]);
    if (p->context)
        rknn_matmul_destroy(p->context);
}

// c[m][n] = sum over k of a[m][k] * b[k][n]; int32 sums of K products of int8 are exact.
static bool is_right(const struct probe *p)
{
    const int8_t *a = p->a->virt_addr, *b = p->b->virt_addr;
    const int32_t *c = p->c->virt_addr;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            int32_t sum = 0;
            for (int k = 0; k < K; k++)
                sum += a[m * K + k] * b[k * N + n];
            if (c[m * N + n] != sum)
                return false;
        }
    return true;
}

// C is filled with a pattern before, so that a run that writes nothing does not pass. A chip with
// one core takes no core mask.
static void check_core(struct checks *checks, struct probe *p, uint32_t core, bool alone)
{
    char name[16];
    snprintf(name, sizeof name, "core %u", core);
    memset(p->c->virt_addr, 0x5a, p->attrs.C.size);
    int r = alone ? 0 : rknn_matmul_set_core_mask(p->context, (rknn_core_mask)(1u << core));
    uint64_t start = clock_us();
    if (r == 0)
        r = rknn_matmul_run(p->context);
    if (r < 0)
        checks_tell(checks, RKNND_CHECK_BAD, name, "`rknnctl log` on the server's machine has more",
                    "a small product failed: %s", rknnd_last_error());
    else if (!is_right(p))
        checks_tell(checks, RKNND_CHECK_BAD, name,
                    "do not trust its results: check the driver's and the runtime's versions",
                    "a small product has a wrong result");
    else
        checks_tell(checks, RKNND_CHECK_GOOD, name, "", "a small product is right (%.1f ms)",
                    (double)(clock_us() - start) / 1000);
}

// A server without products (a model-only chip) is no fault.
static void check_cores(struct checks *checks, uint32_t n_cores)
{
    struct probe p = {0};
    int r = open_probe(&p);
    if (r == RKNN_ERR_DEVICE_UNAVAILABLE || r == RKNN_ERR_MALLOC_FAIL)
        checks_tell(
            checks, RKNND_CHECK_BAD, "cores",
            "the test cannot be loaded: update the runtime library if it lacks something; else "
            "`rknnctl log` has the backend's words",
            "%s", rknnd_last_error());
    else if (r < 0)
        checks_tell(checks, RKNND_CHECK_SKIPPED, "cores", "", "no product to test them with: %s",
                    rknnd_last_error());
    for (uint32_t core = 0; r == 0 && core < n_cores; core++)
        check_core(checks, &p, core, n_cores == 1);
    close_probe(&p);
}

// A device that reads memory by itself takes other devices' buffers only as dma-bufs.
static void check_buffers(struct checks *checks, const rknnd_HelloReply *peer)
{
    if (peer->device.dma && strcmp(peer->buffers, "memfd") == 0)
        checks_tell(checks, RKNND_CHECK_NOTE, "memory",
                    "let rknnd use /dev/dma_heap/system or the NPU's /dev/dri/card*; "
                    "`rknnd --buffers dma_heap` says what is missing",
                    "rknn_create_mem gives memfds, which cameras and GPUs do not take");
    else
        checks_tell(checks, RKNND_CHECK_GOOD, "memory", "", "rknn_create_mem: %s", peer->buffers);
}

void doctor_device(struct checks *checks, const rknnd_HelloReply *peer)
{
    const rknnd_Device *v = &peer->device;
    checks_tell(checks, RKNND_CHECK_GOOD, "device", "", "%s, %u core%s, backend %s", v->chip,
                v->n_cores, v->n_cores == 1 ? "" : "s", v->backend);
    if (*v->runtime_version)
        checks_tell(checks, RKNND_CHECK_GOOD, "runtime", "", "%s; driver: %s", v->runtime_version,
                    *v->driver_version ? v->driver_version : "not named");
    else
        checks_tell(checks, RKNND_CHECK_NOTE, "runtime", "", "backend %s names no runtime library",
                    v->backend);
    check_buffers(checks, peer);
    if (strcmp(v->backend, "null") == 0)
        checks_tell(checks, RKNND_CHECK_NOTE, "cores", "start rknnd with another --backend",
                    "backend null computes nothing");
    else
        check_cores(checks, v->n_cores);
}
