// How the device is shared: throughput, fairness, priorities and containment, on the paced software
// NPU (rk3588, three cores), with clients in processes of their own. Numbers are ratios; "!" marks
// what is outside its aim. bench_sharing RKNND DIGITS BATCH [SECONDS [PART…]]
//
// DIGITS is a model of one input, BATCH one with a batch of three. The chip's speed is set so that
// a job takes the time that a part of the benchmark needs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/crowd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/samples.h"
#include "tests/bench/service/sharing_base.h"

#define CORES  3
#define JOB_US 5000.0
#define LOW_US 20000.0
#define ROUNDS 5

struct bench {
    struct bench_daemon daemon;
    const char *digits, *batch;
    double digits_us, batch_us; // on one core, at the chip's own speed
    double seconds;
};

static void print(const char *what, double value, double aim, bool at_most)
{
    bool good = at_most ? value <= aim : value >= aim;
    printf("%-62s %8.3f  (aim: %s %.3g) %s\n", what, value, at_most ? "at most" : "at least", aim,
           good ? "" : "!");
    fflush(stdout);
}

// ---- daemons -----------------------------------------------------------------------------------

// One whose jobs of `model_us` take `us`.
static void start(struct bench *b, double model_us, double us, const char *more,
                  const char *const *options)
{
    char backend[160];
    snprintf(backend, sizeof backend, "sim:rk3588,paced,speed=%.9f%s", model_us / us, more);
    b->daemon.options = options;
    bench_daemon_start(&b->daemon, backend, "process");
    bench_check(rknnd_set_server(b->daemon.unix_uri));
}

static void stop(struct bench *b)
{
    bench_daemon_stop(&b->daemon);
    b->daemon.options = NULL;
}

// On a chip so slow that nothing else counts.
static double chip_us(struct bench *b, const char *model, unsigned batch_cores)
{
    const double slow = 0.0001;
    rknnd_run_info info = {.struct_size = sizeof info};
    rknn_tensor_attr a = {0};
    rknn_context c;
    start(b, slow, 1, "", NULL);
    bench_check(rknn_init(&c, (void *)(uintptr_t)model, 0, 0, NULL));
    bench_check(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a));
    rknn_input in = {
        .buf = calloc(1, a.n_elems), .size = a.n_elems, .type = RKNN_TENSOR_UINT8, .fmt = a.fmt};
    bench_check(rknn_inputs_set(c, 1, &in));
    free(in.buf);
    if (batch_cores)
        bench_check(rknn_set_batch_core_num(c, (int)batch_cores));
    double best = INFINITY;
    for (unsigned k = 0; k < ROUNDS; k++) {
        bench_check(rknn_run(c, NULL));
        bench_check(rknnd_get_run_info(c, &info));
        best = fmin(best, (double)info.run_us);
    }
    bench_check(rknn_destroy(c));
    stop(b);
    return best * slow;
}

static void run(struct bench *b, struct crowd *c, const struct crowd_role *roles, unsigned n,
                double seconds)
{
    crowd_run(c, b->daemon.unix_uri, roles, n, seconds);
}

// ---- throughput --------------------------------------------------------------------------------

// Beside threads that do nothing but wait, as paced jobs do, on the same machine.
static void throughput(struct bench *b)
{
    static const unsigned counts[] = {1, 2, 3, 4, 8, 16, 32, 64};
    struct crowd_role roles[CROWD_MAX];
    start(b, b->digits_us, JOB_US, "", NULL);
    for (unsigned i = 0; i < CROWD_MAX; i++)
        roles[i] = (struct crowd_role){.model = b->digits};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double of_ideal[ROUNDS], of_sleep[ROUNDS];
        unsigned n_busy = counts[i] < CORES ? counts[i] : CORES;
        char text[64];
        for (unsigned k = 0; k < ROUNDS; k++) {
            struct crowd c;
            double ideal = n_busy * 1e6 / JOB_US;
            double sleepers = sharing_sleepers_rate(n_busy, JOB_US, b->seconds / 4);
            run(b, &c, roles, counts[i], b->seconds / 4);
            of_ideal[k] = crowd_rate(&c) / ideal;
            of_sleep[k] = crowd_rate(&c) / sleepers;
            crowd_done(&c);
        }
        snprintf(text, sizeof text, "%2u clients of a 5 ms model, of %u cores' ideal", counts[i],
                 n_busy);
        print(text, samples_median(of_ideal, ROUNDS), counts[i] < CORES ? 0 : 0.97, false);
        printf("    of what as many threads that wait for 5 ms reach %23.3f\n",
               samples_median(of_sleep, ROUNDS));
    }
    stop(b);
}

static void batches(struct bench *b)
{
    double ratios[ROUNDS];
    start(b, b->batch_us, CORES * JOB_US, "", NULL);
    for (unsigned k = 0; k < ROUNDS; k++) {
        struct crowd one, all;
        run(b, &one, &(struct crowd_role){.model = b->batch, .batch_cores = 1}, 1, b->seconds / 4);
        run(b, &all, &(struct crowd_role){.model = b->batch}, 1, b->seconds / 4);
        ratios[k] = crowd_rate(&all) / crowd_rate(&one);
        crowd_done(&one);
        crowd_done(&all);
    }
    print("a model with a batch of 3, beside one core", samples_median(ratios, ROUNDS), 2.9, false);
    stop(b);
}

// ---- fairness ----------------------------------------------------------------------------------

static double jain(const struct crowd *c)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < c->n; i++) {
        double x = (double)c->results[i].core_us;
        sum += x;
        squares += x * x;
    }
    return squares > 0 ? sum * sum / (c->n * squares) : 0;
}

static void equal_clients(struct bench *b)
{
    struct crowd_role roles[8];
    struct crowd c;
    for (unsigned i = 0; i < 8; i++)
        roles[i] = (struct crowd_role){
            .model = b->digits, .greedy = i % 2, .n_contexts = i % 2 ? 2 + i : 1};
    start(b, b->digits_us, JOB_US, "", NULL);
    run(b, &c, roles, 8, b->seconds);
    print("8 equal clients, 4 with 3 to 9 contexts two runs deep: Jain", jain(&c), 0.99, false);
    crowd_done(&c);
    stop(b);
}

// Users of weights 1, 2 and 4.
static void weights(struct bench *b)
{
    static const char *const options[] = {"--quota", "60001:share=1", "--quota", "60002:share=2",
                                          "--quota", "60003:share=4", NULL};
    struct crowd_role roles[3];
    struct crowd c;
    double had = 0, worst = 0;
    if (geteuid() != 0) {
        printf("weights of users: skipped, it takes root to be three users\n");
        return;
    }
    for (unsigned i = 0; i < 3; i++)
        roles[i] = (struct crowd_role){
            .model = b->digits, .greedy = true, .n_contexts = 4, .uid = 60001 + i};
    start(b, b->digits_us, JOB_US, "", options);
    bench_daemon_let_all_in(&b->daemon);
    run(b, &c, roles, 3, b->seconds);
    for (unsigned i = 0; i < 3; i++)
        had += (double)c.results[i].core_us;
    for (unsigned i = 0; i < 3; i++) {
        double off = fabs((double)c.results[i].core_us / had * 7 / (1u << i) - 1);
        worst = off > worst ? off : worst;
    }
    print("users of weights 1:2:4, largest deviation", worst, 0.03, true);
    crowd_done(&c);
    stop(b);
}

// ---- priorities --------------------------------------------------------------------------------

// The flood's jobs take 20 ms; the other client's are whatever its model takes beside that.
static void priorities(struct bench *b)
{
    struct crowd_role roles[7] = {{.model = b->digits, .flags = RKNN_FLAG_PRIOR_HIGH}};
    struct crowd alone, flooded;
    for (unsigned i = 1; i < 7; i++)
        roles[i] = (struct crowd_role){.model = b->batch,
                                       .flags = RKNN_FLAG_PRIOR_LOW,
                                       .batch_cores = 1,
                                       .greedy = true,
                                       .n_contexts = 2};
    start(b, b->batch_us, LOW_US, "", NULL);
    run(b, &alone, roles, 1, b->seconds);
    run(b, &flooded, roles, 7, b->seconds);
    double more =
        crowd_latency_us(&flooded.results[0], 0.99) - crowd_latency_us(&alone.results[0], 0.99);
    print("high priority in a flood of 20 ms jobs: p99, jobs more", more / LOW_US, 1.1, true);
    double low = crowd_rate(&flooded) - (double)flooded.results[0].n_runs / flooded.seconds;
    print("    low priority beside it, of 3 cores' ideal", low * LOW_US / 1e6 / CORES, 0.01, false);
    crowd_done(&alone);
    crowd_done(&flooded);
    stop(b);
}

// ---- containment -------------------------------------------------------------------------------

struct noise {
    double others;            // runs in a second
    uint64_t failed, counted; // as the noisy client was told, as the daemon says
    uint64_t deaths;
};

static void make_noise(struct bench *b, const char *fault, struct noise *ret)
{
    struct crowd_role roles[5] = {{.model = b->batch, .batch_cores = 1}};
    rknnd_server_status before = {.struct_size = sizeof before}, after = before;
    struct crowd c;
    for (unsigned i = 1; i < 5; i++)
        roles[i] = (struct crowd_role){.model = b->digits};
    start(b, b->digits_us, JOB_US, fault, NULL);
    bench_check(rknnd_get_server_status(b->daemon.unix_uri, &before));
    run(b, &c, roles, 5, b->seconds);
    bench_check(rknnd_get_server_status(b->daemon.unix_uri, &after));
    *ret = (struct noise){
        .others = crowd_rate(&c) - (double)c.results[0].n_runs / c.seconds,
        .failed = c.results[0].n_failed_ever,
        .counted = after.jobs_failed - before.jobs_failed,
        .deaths = after.worker_deaths - before.worker_deaths,
    };
    for (unsigned i = 1; i < 5; i++)
        if (c.results[i].n_failed_ever)
            load_fail("a run of a model that is not noisy failed");
    crowd_done(&c);
    stop(b);
}

static void containment(struct bench *b)
{
    double ratios[ROUNDS];
    struct noise quiet, noisy, all = {0};
    for (unsigned k = 0; k < ROUNDS; k++) {
        make_noise(b, "", &quiet);
        make_noise(b, ",crash%10:batch*", &noisy);
        ratios[k] = noisy.others / quiet.others;
        all.failed += noisy.failed;
        all.counted += noisy.counted;
        all.deaths += noisy.deaths;
    }
    print("other models beside one that crashes in 10 % of its jobs",
          samples_median(ratios, ROUNDS), 0.98, false);
    printf("    %llu crashes, %llu runs of that client failed, the daemon counts %llu: %s\n",
           (unsigned long long)all.deaths, (unsigned long long)all.failed,
           (unsigned long long)all.counted, all.failed == all.counted ? "each once" : "!");
}

// ---- cost --------------------------------------------------------------------------------------

// Beside the same model run in this process. Nothing is paced here.
static void cost_of(struct bench *b, const char *isolation)
{
    double null_us = sharing_null_call_us(), us[ROUNDS], cpu_us[ROUNDS], added[ROUNDS], cpu[ROUNDS];
    bench_daemon_start(&b->daemon, "sim:rk3588", isolation);
    for (unsigned k = 0; k < ROUNDS; k++) {
        struct crowd c;
        struct sharing_run direct = sharing_direct_run(b->digits, b->seconds / 4);
        double before = bench_daemon_cpu_us(&b->daemon);
        run(b, &c, &(struct crowd_role){.model = b->digits}, 1, b->seconds / 4);
        cpu_us[k] = (bench_daemon_cpu_us(&b->daemon) - before) / (double)c.results[0].n_runs_ever;
        us[k] = crowd_latency_us(&c.results[0], 0.5);
        added[k] = (us[k] - direct.us) / direct.us;
        cpu[k] = cpu_us[k] / direct.cpu_us;
        crowd_done(&c);
    }
    printf("isolation %s, a run of a model of %s: %.1f us\n", isolation, "88,000 products",
           samples_median(us, ROUNDS));
    printf("    CPU of the daemon's process, null system calls %24.1f\n",
           samples_median(cpu_us, ROUNDS) / null_us);
    printf("    the same, beside the CPU of a direct run %30.2f\n", samples_median(cpu, ROUNDS));
    printf("    added latency, beside that of a direct run %28.2f\n",
           samples_median(added, ROUNDS));
    stop(b);
}

static void cost(struct bench *b)
{
    cost_of(b, "process");
    cost_of(b, "thread");
}

// ---- all of it ---------------------------------------------------------------------------------

static const struct part {
    const char *name;
    void (*run)(struct bench *b);
} parts[] = {
    {"throughput", throughput},
    {"batch", batches},
    {"fairness", equal_clients},
    {"weights", weights},
    {"priorities", priorities},
    {"containment", containment},
    {"cost", cost},
};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc <= 0; // none is named: all
}

int main(int argc, char **argv)
{
    if (argc < 4)
        load_fail("bench_sharing RKNND DIGITS BATCH [SECONDS [PART...]]");
    struct bench b = {.digits = argv[2], .batch = argv[3]};
    b.seconds = argc > 4 ? atof(argv[4]) : 5;
    if (!(b.seconds > 0))
        load_fail("SECONDS is more than 0");
    bench_daemon_init(&b.daemon, argv[1]);
    b.digits_us = chip_us(&b, b.digits, 0);
    b.batch_us = chip_us(&b, b.batch, 1);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is_wanted(parts[i].name, argc - 5, argv + 5))
            parts[i].run(&b);
    bench_daemon_done(&b.daemon);
    return 0;
}
