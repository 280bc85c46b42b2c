// How long a short urgent run waits beside long ones that can be interrupted, on the paced software
// NPU (rk3588, three cores), and what that costs them. bench_slices RKNND SHORT LONG [SECONDS]
//
// LONG is 50 times SHORT. The chip's speed is set so that they take 100 ms and 2 ms.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rknnd.h"
#include "tests/bench/crowd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/samples.h"

#define CORES        3
#define LONG_US      100000.0
#define SHORT_US     2000.0
#define SLICE_US     2000.0
#define PERIOD_US    20000 // of the urgent runs
#define LONG_CLIENTS 6

struct bench {
    struct bench_daemon daemon;
    const char *short_model, *long_model;
    double long_us; // of LONG at the chip's own speed
    double seconds;
};

struct measured {
    double p99_us;     // of short runs
    double throughput; // of long runs: of what the cores' time allows beside the short ones
};

static void start(struct bench *b, double us, const char *const *options)
{
    char backend[160];
    snprintf(backend, sizeof backend, "sim:rk3588,paced,speed=%.9f", b->long_us / us);
    b->daemon.options = options;
    bench_daemon_start(&b->daemon, backend, "process");
    bench_check(rknnd_set_server(b->daemon.unix_uri));
}

static double long_us(struct bench *b)
{
    rknnd_run_info info = {.struct_size = sizeof info};
    rknn_tensor_attr a = {0};
    rknn_context c;
    b->long_us = 1;
    start(b, 1e4, NULL); // so slow that nothing else counts
    bench_check(rknn_init(&c, (void *)(uintptr_t)b->long_model, 0, 0, NULL));
    bench_check(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a));
    rknn_input in = {
        .buf = calloc(1, a.n_elems), .size = a.n_elems, .type = RKNN_TENSOR_UINT8, .fmt = a.fmt};
    bench_check(rknn_inputs_set(c, 1, &in));
    free(in.buf);
    bench_check(rknn_run(c, NULL));
    bench_check(rknnd_get_run_info(c, &info));
    bench_check(rknn_destroy(c));
    bench_daemon_stop(&b->daemon);
    return (double)info.run_us / 1e4;
}

static void measure(struct bench *b, unsigned n_long, const char *slice_us, struct measured *ret)
{
    const char *options[] = {"--slice-us", slice_us, NULL};
    struct crowd_role roles[1 + LONG_CLIENTS] = {
        {.model = b->short_model, .flags = RKNN_FLAG_PRIOR_HIGH, .pause_us = PERIOD_US}};
    struct crowd c;
    for (unsigned i = 1; i <= n_long; i++)
        roles[i] = (struct crowd_role){
            .model = b->long_model, .flags = RKNN_FLAG_PRIOR_LOW, .greedy = true};
    start(b, LONG_US, options);
    crowd_run(&c, b->daemon.unix_uri, roles, 1 + n_long, b->seconds);
    double n_short = (double)c.results[0].n_runs, n = crowd_rate(&c) * c.seconds - n_short;
    ret->p99_us = crowd_latency_us(&c.results[0], 0.99);
    ret->throughput = n * LONG_US / (c.seconds * 1e6 * CORES - n_short * SHORT_US);
    crowd_done(&c);
    bench_daemon_stop(&b->daemon);
}

int main(int argc, char **argv)
{
    struct measured alone, whole, slices;
    if (argc < 4)
        load_fail("bench_slices RKNND SHORT LONG [SECONDS]");
    struct bench b = {.short_model = argv[2], .long_model = argv[3]};
    b.seconds = argc > 4 ? atof(argv[4]) : 10;
    bench_daemon_init(&b.daemon, argv[1]);
    b.long_us = long_us(&b);
    measure(&b, 0, "2000", &alone);
    measure(&b, LONG_CLIENTS, "0", &whole);
    measure(&b, LONG_CLIENTS, "2000", &slices);
    printf("2 ms runs of high priority, one each 20 ms: p99 alone, of 2 ms %20.3f\n",
           alone.p99_us / SHORT_US);
    printf("    beside 100 ms runs of low priority without slices, slices more %7.2f\n",
           (whole.p99_us - alone.p99_us) / SLICE_US);
    printf("    with slices of 2 ms, slices more (aim: at most 2.2) %18.2f\n",
           (slices.p99_us - alone.p99_us) / SLICE_US);
    printf("100 ms runs, of what three cores allow: without slices %.3f, with %.3f: %.3f of it "
           "(aim: at least .95)\n",
           whole.throughput, slices.throughput, slices.throughput / whole.throughput);
    bench_daemon_done(&b.daemon);
    return 0;
}
