// What rknnd costs: requests through the library, the daemon and a backend that does nothing, as a
// ratio to a plain ping-pong of the same sizes. bench_rpc RKNND [SECONDS [ROUNDS [CASE]]]
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/load.h"
#include "tests/bench/plain.h"

#define MAX_ROUNDS 25

extern char **environ;

static const struct size_case {
    const char *name;
    unsigned request, reply; // bytes
} cases[] = {
    {"echo", 64, 64},
    {"image", 150528, 4000},
    {"frame", 1228800, 8568000},
};

#define N_CASES (sizeof cases / sizeof *cases)

static const struct isolation {
    const char *name;
    double aim; // round trip at most this many times the plain one
} isolations[] = {{"thread", 1.5}, {"process", 2.5}};

#define LARGE_AIM 0.8 // of the plain throughput, for the large case

static const char *const transports[] = {"unix", "tcp"};
static const unsigned client_counts[] = {1, 16};

struct bench {
    const char *program; // rknnd
    double seconds;
    unsigned rounds;
    const char *only; // name of a case; NULL: all
    char folder[64], model[80], unix_path[80], plain_path[80], unix_uri[96], tcp_uri[64];
    pid_t daemon;
};

// ---- clients of rknnd ---------------------------------------------------------------------------

struct service {
    const char *model;
    const struct size_case *size;
};

struct client {
    rknn_context context;
    rknn_input input;
    rknn_output output;
};

static void check(int result)
{
    if (result < 0)
        load_fail("%s", rknnd_last_error());
}

static void *client_open(const void *argument)
{
    const struct service *s = argument;
    struct client *c = calloc(1, sizeof *c);
    void *request = calloc(1, s->size->request), *reply = malloc(s->size->reply);
    if (!c || !request || !reply)
        load_fail("out of memory");
    check(rknn_init(&c->context, (void *)(uintptr_t)s->model, 0, 0, NULL));
    c->input = (rknn_input){.buf = request,
                            .size = s->size->request,
                            .type = RKNN_TENSOR_UINT8,
                            .fmt = RKNN_TENSOR_UNDEFINED};
    c->output = (rknn_output){.is_prealloc = 1, .buf = reply, .size = s->size->reply};
    return c;
}

static void client_call(void *argument)
{
    struct client *c = argument;
    check(rknn_inputs_set(c->context, 1, &c->input));
    check(rknn_run(c->context, NULL));
    check(rknn_outputs_get(c->context, 1, &c->output, NULL));
}

static void client_close(void *argument)
{
    struct client *c = argument;
    check(rknn_destroy(c->context));
    free(c->input.buf);
    free(c->output.buf);
    free(c);
}

static const struct load_type rknnd_load = {client_open, client_call, client_close};

// ---- the daemon
// ------------------------------------------------------------------------------------

static void start_daemon(struct bench *b, const struct size_case *size, const char *isolation)
{
    char backend[64];
    struct stat status;
    snprintf(backend, sizeof backend, "null:%u:%u,fill=0", size->request, size->reply);
    snprintf(b->tcp_uri, sizeof b->tcp_uri, "tcp:127.0.0.1:%u", plain_free_port());
    const char *const argv[] = {b->program, "--listen",    b->unix_uri, "--listen",
                                b->tcp_uri, "--backend",   backend,     "--isolation",
                                isolation,  "--log-level", "2",         NULL};
    int r = posix_spawn(&b->daemon, b->program, NULL, NULL, (char **)(uintptr_t)argv, environ);
    if (r)
        load_fail("%s: %s", b->program, strerror(r));
    while (stat(b->unix_path, &status) < 0) {
        if (waitpid(b->daemon, NULL, WNOHANG) != 0)
            load_fail("%s did not start", b->program);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    check(rknnd_set_server(b->tcp_uri)); // the second listener: both are there
    for (int i = 0; i < 200; i++) {
        uint64_t ns;
        if (rknnd_ping(b->tcp_uri, 1, &ns) == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    load_fail("%s", rknnd_last_error());
}

static void stop_daemon(struct bench *b)
{
    kill(b->daemon, SIGTERM);
    waitpid(b->daemon, NULL, 0);
}

// ---- rounds and the table
// --------------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct rounds {
    double plain_us[MAX_ROUNDS], rknnd_us[MAX_ROUNDS], us_ratio[MAX_ROUNDS];
    double plain_rate[MAX_ROUNDS], rknnd_rate[MAX_ROUNDS], rate_ratio[MAX_ROUNDS];
};

// Plain and rknnd by turns, so that what else the machine does meets both.
static void measure(const struct bench *b, const struct size_case *size, bool tcp,
                    unsigned n_clients, struct rounds *r)
{
    const struct service service = {b->model, size};
    struct plain plain = {
        .unix_path = tcp ? NULL : b->plain_path, .request = size->request, .reply = size->reply};
    check(rknnd_set_server(tcp ? b->tcp_uri : b->unix_uri));
    plain_start(&plain);
    for (unsigned i = 0; i < b->rounds; i++) {
        struct load_result p = load_measure(&plain_load, &plain, n_clients, b->seconds);
        struct load_result d = load_measure(&rknnd_load, &service, n_clients, b->seconds);
        r->plain_us[i] = p.median_us;
        r->rknnd_us[i] = d.median_us;
        r->us_ratio[i] = d.median_us / p.median_us;
        r->plain_rate[i] = p.per_second;
        r->rknnd_rate[i] = d.per_second;
        r->rate_ratio[i] = d.per_second / p.per_second;
    }
    plain_stop(&plain);
}

static void print_row(const struct bench *b, const struct size_case *size, const char *transport,
                      unsigned n_clients, const struct isolation *isolation, struct rounds *r)
{
    double trip = median(r->us_ratio, b->rounds), rate = median(r->rate_ratio, b->rounds);
    bool large = size == &cases[N_CASES - 1];
    printf("%-7s  %-5s  %-4s  %7u  %9.1f  %9.1f  %5.2f %s  %9.0f  %9.0f  %5.2f %s\n",
           isolation->name, size->name, transport, n_clients, median(r->plain_us, b->rounds),
           median(r->rknnd_us, b->rounds), trip, trip <= isolation->aim ? " " : "!",
           median(r->plain_rate, b->rounds), median(r->rknnd_rate, b->rounds), rate,
           large && rate < LARGE_AIM ? "!" : " ");
    fflush(stdout);
}

static void bench_case(struct bench *b, const struct size_case *size,
                       const struct isolation *isolation)
{
    struct rounds rounds;
    start_daemon(b, size, isolation->name);
    for (unsigned tcp = 0; tcp < 2; tcp++)
        for (unsigned i = 0; i < sizeof client_counts / sizeof *client_counts; i++) {
            measure(b, size, tcp, client_counts[i], &rounds);
            print_row(b, size, transports[tcp], client_counts[i], isolation, &rounds);
        }
    stop_daemon(b);
}

static void prepare(struct bench *b)
{
    snprintf(b->folder, sizeof b->folder, "/tmp/bench_rpc.XXXXXX");
    if (!mkdtemp(b->folder))
        load_fail("%s: %s", b->folder, strerror(errno));
    snprintf(b->model, sizeof b->model, "%s/model", b->folder);
    snprintf(b->unix_path, sizeof b->unix_path, "%s/rknnd", b->folder);
    snprintf(b->plain_path, sizeof b->plain_path, "%s/plain", b->folder);
    snprintf(b->unix_uri, sizeof b->unix_uri, "unix:%s", b->unix_path);
    FILE *model = fopen(b->model, "we");
    if (!model || fputs("for the null backend any bytes are a model\n", model) < 0 || fclose(model))
        load_fail("%s: %s", b->model, strerror(errno));
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
    b.program = argv[1];
    b.seconds = argc > 2 ? atof(argv[2]) : b.seconds;
    b.rounds = argc > 3 ? (unsigned)atoi(argv[3]) : b.rounds;
    b.only = argc > 4 ? argv[4] : NULL;
    if (!(b.seconds > 0) || b.rounds < 1 || b.rounds > MAX_ROUNDS)
        load_fail("SECONDS is more than 0, ROUNDS from 1 to %d", MAX_ROUNDS);
    prepare(&b);
    print_head(&b);
    for (size_t i = 0; i < sizeof isolations / sizeof *isolations; i++)
        for (size_t j = 0; j < N_CASES; j++)
            if (!b.only || strcmp(b.only, cases[j].name) == 0)
                bench_case(&b, &cases[j], &isolations[i]);
    unlink(b.model);
    rmdir(b.folder);
    return 0;
}
