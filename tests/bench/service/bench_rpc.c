// What rknnd costs: requests through the library, the daemon and a backend that does nothing, as a
// ratio to a plain ping-pong of the same sizes. bench_rpc RKNND [SECONDS [ROUNDS [CASE]]]
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknnd.h"
#include "tests/bench/calls.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/plain.h"
#include "tests/bench/samples.h"

#define MAX_ROUNDS 25

static const struct isolation {
    const char *name;
    double aim; // round trip at most this many times the plain one
} isolations[] = {{"thread", 1.5}, {"process", 2.5}};

#define LARGE_AIM 0.8 // of the plain throughput, for the large case

static const char *const transports[] = {"unix", "tcp"};
static const unsigned client_counts[] = {1, 16};

struct bench {
    struct bench_daemon daemon;
    double seconds;
    unsigned rounds;
    const char *only; // name of a case; NULL: all
    char plain_path[80];
};

// ---- rounds and the table -----------------------------------------------------------------------

struct rounds {
    double plain_us[MAX_ROUNDS], rknnd_us[MAX_ROUNDS], us_ratio[MAX_ROUNDS];
    double plain_rate[MAX_ROUNDS], rknnd_rate[MAX_ROUNDS], rate_ratio[MAX_ROUNDS];
};

// Plain and rknnd by turns, so that what else the machine does meets both.
static void measure(const struct bench *b, const struct calls_size *size, bool tcp,
                    unsigned n_clients, struct rounds *r)
{
    const struct calls_service service = {b->daemon.model, size};
    struct plain plain = {
        .unix_path = tcp ? NULL : b->plain_path, .request = size->request, .reply = size->reply};
    bench_check(rknnd_set_server(tcp ? b->daemon.tcp_uri : b->daemon.unix_uri));
    plain_start(&plain);
    for (unsigned i = 0; i < b->rounds; i++) {
        struct load_result p = load_measure(&plain_load_type, &plain, n_clients, b->seconds);
        struct load_result d = load_measure(&calls_load, &service, n_clients, b->seconds);
        r->plain_us[i] = p.median_us;
        r->rknnd_us[i] = d.median_us;
        r->us_ratio[i] = d.median_us / p.median_us;
        r->plain_rate[i] = p.per_second;
        r->rknnd_rate[i] = d.per_second;
        r->rate_ratio[i] = d.per_second / p.per_second;
    }
    plain_stop(&plain);
}

static void print_row(const struct bench *b, const struct calls_size *size, const char *transport,
                      unsigned n_clients, const struct isolation *isolation, struct rounds *r)
{
    double trip = samples_median(r->us_ratio, b->rounds),
           rate = samples_median(r->rate_ratio, b->rounds);
    bool large = size == &calls_sizes[CALLS_SIZES - 1];
    printf("%-7s  %-5s  %-4s  %7u  %9.1f  %9.1f  %5.2f %s  %9.0f  %9.0f  %5.2f %s\n",
           isolation->name, size->name, transport, n_clients,
           samples_median(r->plain_us, b->rounds), samples_median(r->rknnd_us, b->rounds), trip,
           trip <= isolation->aim ? " " : "!", samples_median(r->plain_rate, b->rounds),
           samples_median(r->rknnd_rate, b->rounds), rate, large && rate < LARGE_AIM ? "!" : " ");
    fflush(stdout);
}

static void bench_case(struct bench *b, const struct calls_size *size,
                       const struct isolation *isolation)
{
    struct rounds rounds;
    char backend[64];
    snprintf(backend, sizeof backend, "null:%u:%u,fill=0", size->request, size->reply);
    bench_daemon_start(&b->daemon, backend, isolation->name);
    for (unsigned tcp = 0; tcp < 2; tcp++)
        for (unsigned i = 0; i < sizeof client_counts / sizeof *client_counts; i++) {
            measure(b, size, tcp, client_counts[i], &rounds);
            print_row(b, size, transports[tcp], client_counts[i], isolation, &rounds);
        }
    bench_daemon_stop(&b->daemon);
}

static void print_head(const struct bench *b)
{
    printf("Median of %u rounds of %.2g s each; a round trip is inputs set, run, outputs got.\n"
           "Aims: round trip 1.5 (thread) or 2.5 (process) times the plain one, and 0.8 of the\n"
           "throughput for frames; ! marks what is outside.\n\n",
           b->rounds, b->seconds);
    printf("                                    round trip, us                throughput, 1/s\n"
           "models   size   over  clients      plain      rknnd  ratio        plain      rknnd"
           "  ratio\n");
}

int main(int argc, char **argv)
{
    struct bench b = {.seconds = 0.5, .rounds = 3};
    if (argc < 2 || argc > 5)
        load_fail("bench_rpc RKNND [SECONDS [ROUNDS [echo|image|frame]]]");
    bench_daemon_init(&b.daemon, argv[1]);
    b.seconds = argc > 2 ? atof(argv[2]) : b.seconds;
    b.rounds = argc > 3 ? (unsigned)atoi(argv[3]) : b.rounds;
    b.only = argc > 4 ? argv[4] : NULL;
    if (!(b.seconds > 0) || b.rounds < 1 || b.rounds > MAX_ROUNDS)
        load_fail("SECONDS is more than 0, ROUNDS from 1 to %d", MAX_ROUNDS);
    snprintf(b.plain_path, sizeof b.plain_path, "%.60s/plain", b.daemon.folder);
    print_head(&b);
    for (size_t i = 0; i < sizeof isolations / sizeof *isolations; i++)
        for (size_t j = 0; j < CALLS_SIZES; j++)
            if (!b.only || strcmp(b.only, calls_sizes[j].name) == 0)
                bench_case(&b, &calls_sizes[j], &isolations[i]);
    bench_daemon_done(&b.daemon);
    return 0;
}
