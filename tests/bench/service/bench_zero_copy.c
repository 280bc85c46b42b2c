// What rknnd adds to a run whose input and output lie in shared memory, by the size of the tensors:
// a ratio to a plain ping-pong of 64 bytes over a socket of the same kind. The backend does
// nothing. For comparison the same run with its tensors copied (rknn_inputs_set, rknn_outputs_get).
// bench_zero_copy RKNND [SECONDS [ROUNDS]]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknnd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/plain.h"
#include "tests/bench/samples.h"

#define MAX_ROUNDS 25
#define PING       64

static const uint32_t sizes[] = {1u << 10, 16u << 10, 256u << 10, 4u << 20, 64u << 20};
static const char *const isolations[] = {"thread", "process"};

struct service {
    const char *model;
    uint32_t size;
};

struct client {
    rknn_context context;
    rknn_tensor_mem *in, *out; // NULL: copied
    rknn_input input;
    rknn_output output;
};

static struct client *open_client(const struct service *s)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c)
        load_fail("out of memory");
    bench_check(rknn_init(&c->context, (void *)(uintptr_t)s->model, 0, 0, NULL));
    return c;
}

// ---- in shared memory --------------------------------------------------------------------------

static rknn_tensor_mem *bind(rknn_context c, rknn_query_cmd query)
{
    rknn_tensor_attr a = {0};
    bench_check(rknn_query(c, query, &a, sizeof a));
    rknn_tensor_mem *m = rknn_create_mem(c, a.size_with_stride);
    if (!m)
        load_fail("%s", rknnd_last_error());
    memset(m->virt_addr, 1, m->size); // all pages are there
    bench_check(rknn_set_io_mem(c, m, &a));
    return m;
}

static void *shared_open(const void *argument)
{
    struct client *c = open_client(argument);
    c->in = bind(c->context, RKNN_QUERY_NATIVE_INPUT_ATTR);
    c->out = bind(c->context, RKNN_QUERY_NATIVE_OUTPUT_ATTR);
    return c;
}

static void shared_call(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_run(c->context, NULL));
}

static void shared_close(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_destroy_mem(c->context, c->in));
    bench_check(rknn_destroy_mem(c->context, c->out));
    bench_check(rknn_destroy(c->context));
    free(c);
}

static const struct load_type shared_load = {shared_open, shared_call, shared_close};

// ---- copied ------------------------------------------------------------------------------------

static void *copied_open(const void *argument)
{
    const struct service *s = argument;
    struct client *c = open_client(s);
    c->input = (rknn_input){.buf = calloc(1, s->size),
                            .size = s->size,
                            .type = RKNN_TENSOR_UINT8,
                            .fmt = RKNN_TENSOR_UNDEFINED};
    c->output = (rknn_output){.is_prealloc = 1, .buf = malloc(s->size), .size = s->size};
    return c;
}

static void copied_call(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_inputs_set(c->context, 1, &c->input));
    bench_check(rknn_run(c->context, NULL));
    bench_check(rknn_outputs_get(c->context, 1, &c->output, NULL));
}

static void copied_close(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_destroy(c->context));
    free(c->input.buf);
    free(c->output.buf);
    free(c);
}

static const struct load_type copied_load = {copied_open, copied_call, copied_close};

// ---- rounds ------------------------------------------------------------------------------------

struct bench {
    struct bench_daemon daemon;
    struct plain plain;
    char plain_path[80];
    double seconds;
    unsigned rounds;
};

struct rounds {
    double ping_us[MAX_ROUNDS], shared_us[MAX_ROUNDS], shared[MAX_ROUNDS], copied[MAX_ROUNDS];
};

static void measure(struct bench *b, uint32_t size, struct rounds *r)
{
    const struct service service = {b->daemon.model, size};
    for (unsigned i = 0; i < b->rounds; i++) {
        struct load_result ping = load_measure(&plain_load_type, &b->plain, 1, b->seconds);
        struct load_result shared = load_measure(&shared_load, &service, 1, b->seconds);
        struct load_result copied = load_measure(&copied_load, &service, 1, b->seconds);
        r->ping_us[i] = ping.median_us;
        r->shared_us[i] = shared.median_us;
        r->shared[i] = shared.median_us / ping.median_us;
        r->copied[i] = copied.median_us / ping.median_us;
    }
}

static void bench_size(struct bench *b, uint32_t size, const char *isolation, double *smallest)
{
    struct rounds r;
    char backend[64];
    snprintf(backend, sizeof backend, "null:%u:%u,fill=0", size, size);
    bench_daemon_start(&b->daemon, backend, isolation);
    bench_check(rknnd_set_server(b->daemon.unix_uri));
    measure(b, size, &r);
    bench_daemon_stop(&b->daemon);
    double ratio = samples_median(r.shared, b->rounds);
    *smallest = *smallest > 0 ? *smallest : ratio;
    printf("%-7s  %8u  %8.1f  %8.1f  %6.2f  %6.2f  %9.2f\n", isolation, size >> 10,
           samples_median(r.ping_us, b->rounds), samples_median(r.shared_us, b->rounds), ratio,
           ratio / *smallest, samples_median(r.copied, b->rounds));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct bench b = {.seconds = 0.3, .rounds = 5};
    if (argc < 2 || argc > 4)
        load_fail("bench_zero_copy RKNND [SECONDS [ROUNDS]]");
    b.seconds = argc > 2 ? atof(argv[2]) : b.seconds;
    b.rounds = argc > 3 ? (unsigned)atoi(argv[3]) : b.rounds;
    if (!(b.seconds > 0) || b.rounds < 1 || b.rounds > MAX_ROUNDS)
        load_fail("SECONDS is more than 0, ROUNDS from 1 to %d", MAX_ROUNDS);
    bench_daemon_init(&b.daemon, argv[1]);
    snprintf(b.plain_path, sizeof b.plain_path, "%.60s/plain", b.daemon.folder);
    b.plain = (struct plain){.unix_path = b.plain_path, .request = PING, .reply = PING};
    plain_start(&b.plain);
    printf(
        "Over a Unix socket; median of %u rounds of %.2g s each. The last but one column is the\n"
        "ratio beside that of the smallest tensors: 1 when size does not matter.\n\n"
        "models   KB each   ping us    run us   ratio  growth  if copied\n",
        b.rounds, b.seconds);
    for (size_t i = 0; i < 2; i++) {
        double smallest = 0;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            bench_size(&b, sizes[k], isolations[i], &smallest);
    }
    plain_stop(&b.plain);
    bench_daemon_done(&b.daemon);
    return 0;
}
