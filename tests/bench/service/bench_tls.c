// What TLS costs: the same requests to the same daemon over tcp: and over tls:, by turns.
// Beside calls in a second, which other work of the machine disturbs, the processor time of both
// ends for a call; and what the same sizes take OpenSSL alone (bare_tls.h), without which a ratio
// says more of the machine's AES than of ours. bench_tls RKNND [SECONDS [ROUNDS [CASE]]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/calls.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/plain.h"
#include "tests/bench/samples.h"
#include "tests/bench/service/bare_tls.h"

#define MAX_ROUNDS 25
#define FRAME_AIM  0.6 // of the throughput without TLS

static const unsigned client_counts[] = {1, 4};

struct bench {
    struct bench_daemon daemon;
    char keys[96], tls_uri[64];
    double seconds;
    unsigned rounds;
};

static void write_keys(const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f || fchmod(fileno(f), 0600) < 0 ||
        fputs("bench:000102030405060708090a0b0c0d0e0f\n", f) < 0 || fclose(f))
        load_fail("%s cannot be written", path);
    setenv("RKNND_TLS_PSK_FILE", path, 1);
}

struct measured {
    double rate, cpu_us; // calls in a second; of both ends, for one call
};

static double both_cpu_us(const struct bench *b)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3 + bench_daemon_cpu_us(&b->daemon);
}

static struct measured measure_at(const struct bench *b, const char *uri,
                                  const struct calls_size *size, unsigned n_clients)
{
    const struct calls_service service = {b->daemon.model, size};
    bench_check(rknnd_set_server(uri));
    double before = both_cpu_us(b);
    double rate = load_measure(&calls_load, &service, n_clients, b->seconds).per_second;
    return (struct measured){rate, (both_cpu_us(b) - before) / (rate * b->seconds)};
}

static void measure(const struct bench *b, const struct calls_size *size, unsigned n_clients)
{
    double tcp[MAX_ROUNDS], tls[MAX_ROUNDS], rate[MAX_ROUNDS], cpu[MAX_ROUNDS];
    double bare[MAX_ROUNDS], of_bare[MAX_ROUNDS];
    for (unsigned i = 0; i < b->rounds; i++) {
        struct measured without = measure_at(b, b->daemon.tcp_uri, size, n_clients);
        struct measured with = measure_at(b, b->tls_uri, size, n_clients);
        tcp[i] = without.rate;
        tls[i] = with.rate;
        rate[i] = with.rate / without.rate;
        cpu[i] = without.cpu_us / with.cpu_us;
        double bare_rate = bare_tls_measure(1, size->request, size->reply, b->seconds);
        bare[i] = bare_rate / bare_tls_measure(0, size->request, size->reply, b->seconds);
        of_bare[i] = with.rate / bare_rate;
    }
    double possible = samples_median(bare, b->rounds);
    double middle = samples_median(rate, b->rounds);
    printf("%-5s  %7u  %9.0f  %9.0f  %5.2f %s  %14.2f  %9.2f  %7.2f\n", size->name, n_clients,
           samples_median(tcp, b->rounds), samples_median(tls, b->rounds), middle,
           size == &calls_sizes[CALLS_SIZES - 1] && middle < FRAME_AIM ? "!" : " ",
           samples_median(cpu, b->rounds), possible, samples_median(of_bare, b->rounds));
    fflush(stdout);
}

static void bench_case(struct bench *b, const struct calls_size *size)
{
    char backend[64], listen[64];
    snprintf(b->tls_uri, sizeof b->tls_uri, "tls:127.0.0.1:%u", plain_free_port());
    snprintf(listen, sizeof listen, "%s", b->tls_uri);
    const char *const options[] = {"--listen", listen, "--tls-psk-file", b->keys, NULL};
    snprintf(backend, sizeof backend, "null:%u:%u,fill=0", size->request, size->reply);
    b->daemon.options = options;
    bench_daemon_start(&b->daemon, backend, "thread");
    for (size_t i = 0; i < sizeof client_counts / sizeof *client_counts; i++)
        measure(b, size, client_counts[i]);
    bench_daemon_stop(&b->daemon);
}

int main(int argc, char **argv)
{
    struct bench b = {.seconds = 0.5, .rounds = 5};
    if (argc < 2 || argc > 5)
        load_fail("bench_tls RKNND [SECONDS [ROUNDS [echo|image|frame]]]");
    b.seconds = argc > 2 ? atof(argv[2]) : b.seconds;
    b.rounds = argc > 3 ? (unsigned)atoi(argv[3]) : b.rounds;
    if (!(b.seconds > 0) || b.rounds < 1 || b.rounds > MAX_ROUNDS)
        load_fail("SECONDS is more than 0, ROUNDS from 1 to %d", MAX_ROUNDS);
    bench_daemon_init(&b.daemon, argv[1]);
    snprintf(b.keys, sizeof b.keys, "%s/keys", b.daemon.folder);
    write_keys(b.keys);
    printf("Calls in a second, medians of %u rounds of %.2g s each; for frames the aim is %.1f.\n\n"
           "size   clients        tcp        tls  ratio    processor time  OpenSSL's  of that\n",
           b.rounds, b.seconds, FRAME_AIM);
    for (size_t i = 0; i < CALLS_SIZES; i++)
        if (argc < 5 || strcmp(argv[4], calls_sizes[i].name) == 0)
            bench_case(&b, &calls_sizes[i]);
    unlink(b.keys);
    bench_daemon_done(&b.daemon);
    return 0;
}
