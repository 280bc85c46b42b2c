// Client processes.
#include "tests/bench/crowd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"

#define PATIENCE_S 120

enum phase { WARM_UP, COUNT, STOP };

// Shared by all processes.
struct control {
    pthread_barrier_t ready;
    _Atomic enum phase phase;
    struct crowd_result results[CROWD_MAX];
};

// One context of a client.
struct lane {
    const struct crowd_role *role;
    struct control *control;
    struct crowd_result *result;
    pthread_t thread;
    rknn_context context;
};

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void pause_s(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) < 0)
        continue;
}

// ---- a client ----------------------------------------------------------------------------------

static void open_lane(struct lane *l)
{
    const struct crowd_role *role = l->role;
    rknn_tensor_attr a = {0};
    bench_check(rknn_init(&l->context, (void *)(uintptr_t)role->model, 0, role->flags, NULL));
    bench_check(rknn_query(l->context, RKNN_QUERY_INPUT_ATTR, &a, sizeof a));
    rknn_input in = {
        .buf = calloc(1, a.n_elems), .size = a.n_elems, .type = RKNN_TENSOR_UINT8, .fmt = a.fmt};
    if (!in.buf)
        load_fail("out of memory");
    bench_check(rknn_inputs_set(l->context, 1, &in));
    free(in.buf);
    if (role->batch_cores)
        bench_check(rknn_set_batch_core_num(l->context, (int)role->batch_cores));
    while (rknn_run(l->context, NULL) < 0) // a worker may be made to crash
        __atomic_fetch_add(&l->result->n_failed_ever, 1, __ATOMIC_RELAXED);
}

static void note(struct lane *l, int result, uint64_t since_us)
{
    struct crowd_result *r = l->result;
    __atomic_fetch_add(result < 0 ? &r->n_failed_ever : &r->n_runs_ever, 1, __ATOMIC_RELAXED);
    if (result < 0 || atomic_load(&l->control->phase) != COUNT)
        return;
    __atomic_fetch_add(&r->n_runs, 1, __ATOMIC_RELAXED);
    uint32_t i = __atomic_fetch_add(&r->n_latencies, 1, __ATOMIC_RELAXED);
    if (i < CROWD_LATENCIES)
        r->latency_us[i] = (uint32_t)(now_us() - since_us);
}

static void run_politely(struct lane *l)
{
    uint64_t since = now_us();
    note(l, rknn_run(l->context, NULL), since);
}

static void start_run(struct lane *l, rknn_run_extend *run)
{
    *run = (rknn_run_extend){.non_block = 1};
    bench_check(rknn_run(l->context, run));
}

static void run_greedily(struct lane *l)
{
    rknn_run_extend runs[2];
    uint64_t since[2];
    for (unsigned i = 0; i < 2; i++) {
        since[i] = now_us();
        start_run(l, &runs[i]);
    }
    for (unsigned i = 0; atomic_load(&l->control->phase) != STOP; i ^= 1) {
        note(l, rknn_wait(l->context, &runs[i]), since[i]);
        since[i] = now_us();
        start_run(l, &runs[i]);
    }
}

static void *lane_thread(void *argument)
{
    struct lane *l = argument;
    open_lane(l);
    pthread_barrier_wait(&l->control->ready);
    if (l->role->greedy)
        run_greedily(l);
    while (atomic_load(&l->control->phase) != STOP) {
        run_politely(l);
        pause_s(1e-6 * l->role->pause_us);
    }
    bench_check(rknn_destroy(l->context));
    return NULL;
}

static unsigned n_lanes(const struct crowd_role *role)
{
    return role->n_contexts ? role->n_contexts : 1;
}

static _Noreturn void be_client(struct control *control, const char *uri,
                                const struct crowd_role *role, struct crowd_result *result)
{
    struct lane *lanes = calloc(n_lanes(role), sizeof *lanes);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!lanes || (role->uid && setuid(role->uid) < 0))
        load_fail("a client could not become user %u", (unsigned)role->uid);
    bench_check(rknnd_set_server(uri));
    for (unsigned i = 0; i < n_lanes(role); i++) {
        lanes[i] = (struct lane){.role = role, .control = control, .result = result};
        if (pthread_create(&lanes[i].thread, NULL, lane_thread, &lanes[i]))
            load_fail("cannot start a thread");
    }
    for (unsigned i = 0; i < n_lanes(role); i++)
        pthread_join(lanes[i].thread, NULL);
    _exit(0);
}

// ---- all of them -------------------------------------------------------------------------------

static struct control *new_control(unsigned n_waiting)
{
    struct control *c =
        mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    if (c == MAP_FAILED)
        load_fail("out of memory");
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&c->ready, &shared, n_waiting);
    return c;
}

static struct crowd_result *find_client(struct control *c, unsigned n, const char *origin)
{
    int pid = 0;
    for (unsigned i = 0; sscanf(origin, "unix, pid %d", &pid) == 1 && i < n; i++)
        if (c->results[i].pid == pid)
            return &c->results[i];
    return NULL;
}

// Adds (sign 1) or takes away what the daemon has counted for each client.
static void count_core_us(struct control *c, const char *uri, unsigned n, int sign)
{
    rknnd_stats *stats;
    bench_check(rknnd_get_stats(uri, &stats));
    for (uint32_t i = 0; i < stats->clients->n; i++) {
        const rknnd_client_stats *s = rknnd_client_stats_at(stats->clients, i);
        struct crowd_result *r = find_client(c, n, s->origin);
        if (r)
            r->core_us += (uint64_t)sign * s->core_us;
    }
    rknnd_free(stats);
}

static void start_clients(struct control *c, const char *uri, const struct crowd_role *roles,
                          unsigned n)
{
    fflush(stdout);
    for (unsigned i = 0; i < n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            load_fail("fork: %s", strerror(errno));
        if (pid == 0)
            be_client(c, uri, &roles[i], &c->results[i]);
        c->results[i].pid = pid;
    }
}

static void end_clients(struct control *c, unsigned n)
{
    int status;
    for (unsigned i = 0; i < n; i++)
        if (waitpid(c->results[i].pid, &status, 0) < 0)
            load_fail("waiting for a client: %s", strerror(errno));
        else if (status)
            load_fail("a client failed");
}

void crowd_run(struct crowd *crowd, const char *uri, const struct crowd_role *roles, unsigned n,
               double seconds)
{
    unsigned n_waiting = 1;
    for (unsigned i = 0; i < n; i++)
        n_waiting += n_lanes(&roles[i]);
    struct control *c = new_control(n_waiting);
    start_clients(c, uri, roles, n);
    alarm(PATIENCE_S); // ends this program if a client cannot start
    pthread_barrier_wait(&c->ready);
    alarm(0);
    pause_s(seconds / 10);
    count_core_us(c, uri, n, -1);
    uint64_t since = now_us();
    atomic_store(&c->phase, COUNT);
    pause_s(seconds);
    atomic_store(&c->phase, STOP);
    *crowd =
        (struct crowd){.seconds = (double)(now_us() - since) / 1e6, .n = n, .results = c->results};
    count_core_us(c, uri, n, 1);
    end_clients(c, n);
}

void crowd_done(struct crowd *c)
{
    struct control *control =
        (struct control *)(void *)((char *)c->results - offsetof(struct control, results));
    pthread_barrier_destroy(&control->ready);
    munmap(control, sizeof *control);
}

double crowd_rate(const struct crowd *c)
{
    uint64_t runs = 0;
    for (unsigned i = 0; i < c->n; i++)
        runs += c->results[i].n_runs;
    return (double)runs / c->seconds;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

double crowd_latency_us(struct crowd_result *r, double at)
{
    uint32_t n = r->n_latencies < CROWD_LATENCIES ? r->n_latencies : CROWD_LATENCIES;
    if (n == 0)
        load_fail("nothing was measured");
    qsort(r->latency_us, n, sizeof *r->latency_us, compare);
    return r->latency_us[(size_t)(at * (n - 1))];
}
