// The scheduler in a simulator: random workloads against the rules of sched.h, and measured shares.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/sched.h"

#define MAX_QUEUES 48
#define MAX_JOBS   64 // of one queue, waiting and running

struct sim_job {
    struct sched_job job;
    unsigned number; // in its queue
    struct sched_cores wanted;
    uint64_t length_us, added_us;
    bool waiting, running;
    uint64_t ends_us;
};

struct sim_queue {
    struct sched_queue queue;
    unsigned client;
    bool greedy; // always has `depth` jobs
    unsigned depth;
    struct sched_cores wanted;
    uint64_t length_us; // 0: random
    unsigned n_added, n_started, n_done, n_removed;
    uint64_t longest_wait_us;
    struct sim_job jobs[MAX_JOBS];
};

struct sim {
    struct sched sched;
    uint64_t now_us, max_length_us;
    uint32_t random;
    unsigned n_clients, n_queues, n_cores;
    uint32_t busy;
    struct sched_group groups[MAX_QUEUES]; // by client
    struct sched_client clients[MAX_QUEUES];
    struct sim_queue queues[MAX_QUEUES];
};

static uint32_t random_below(struct sim *s, uint32_t n)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (s->random >> 8) % n;
}

static struct sim *sim_new(unsigned n_cores, uint32_t seed)
{
    struct sim *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->n_cores = n_cores;
    s->random = seed;
    s->max_length_us = 20000;
    sched_init(&s->sched, n_cores);
    return s;
}

static unsigned add_client_of(struct sim *s, struct sched_group *g)
{
    sched_client_init(&s->clients[s->n_clients], g);
    return s->n_clients++;
}

// A client in a group of its own.
static unsigned add_client(struct sim *s, uint32_t weight)
{
    struct sched_group *g = &s->groups[s->n_clients];
    sched_group_init(&s->sched, g, weight);
    return add_client_of(s, g);
}

static struct sim_queue *add_queue(struct sim *s, unsigned client, uint8_t priority, bool greedy)
{
    struct sim_queue *q = &s->queues[s->n_queues++];
    *q = (struct sim_queue){.client = client, .greedy = greedy, .depth = 4};
    q->wanted.any = 1;
    sched_queue_init(&q->queue, &s->clients[client], priority);
    return q;
}

static void add_job(struct sim *s, struct sim_queue *q, struct sched_cores wanted)
{
    for (unsigned i = 0; i < MAX_JOBS; i++) {
        struct sim_job *j = &q->jobs[i];
        if (j->waiting || j->running)
            continue;
        uint32_t max = (uint32_t)s->max_length_us;
        *j = (struct sim_job){.number = q->n_added++, .wanted = wanted, .waiting = true};
        j->length_us = q->length_us ? q->length_us : 1 + random_below(s, max);
        j->added_us = s->now_us;
        sched_add(&s->sched, &j->job, &q->queue, wanted, s->now_us);
        return;
    }
}

static struct sim_job *head_of(struct sim_queue *q)
{
    struct sim_job *head = NULL;
    for (unsigned i = 0; i < MAX_JOBS; i++) {
        if (q->jobs[i].running)
            return NULL;
        if (q->jobs[i].waiting && (!head || q->jobs[i].number < head->number))
            head = &q->jobs[i];
    }
    return head;
}

static unsigned count_waiting(const struct sim_queue *q)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MAX_JOBS; i++)
        n += q->jobs[i].waiting;
    return n;
}

// ---- the rules ---------------------------------------------------------------------------------

static struct sim_queue *queue_of(struct sched_job *j)
{
    return container_of(j->queue, struct sim_queue, queue);
}

// Those that the scheduler keeps for a job.
static uint32_t kept_cores(const struct sim *s)
{
    uint32_t all = (1u << s->n_cores) - 1;
    const struct sched_job *r = s->sched.reserving;
    if (!r)
        return 0;
    return r->wanted.mask ? r->wanted.mask & all : all;
}

static bool fits(const struct sim_job *j, uint32_t cores, uint32_t all)
{
    uint32_t mask = j->wanted.mask & all;
    if (mask)
        return (mask & ~cores) == 0;
    return __builtin_popcount(cores) >= (j->wanted.or_fewer ? 1 : (int)j->wanted.any);
}

static void check_started(struct sim *s, struct sched_job *started)
{
    struct sim_job *j = container_of(started, struct sim_job, job);
    struct sim_queue *q = queue_of(started);
    uint32_t all = (1u << s->n_cores) - 1;
    assert_true(j->waiting);
    assert_ptr_equal(head_of(q), j); // in order, and nothing else of the context runs
    if (j->wanted.mask)
        assert_int_equal(started->placed, j->wanted.mask & all);
    else
        assert_in_range(__builtin_popcount(started->placed), j->wanted.or_fewer ? 1 : j->wanted.any,
                        j->wanted.any);
    assert_int_equal(started->placed & s->busy, 0);
    assert_int_equal(started->placed & ~all, 0);
    assert_int_equal(started->placed & kept_cores(s), 0);
    uint32_t left = all & ~s->busy & ~started->placed & ~kept_cores(s);
    if (j->wanted.or_fewer && left)
        assert_int_equal(__builtin_popcount(started->placed), j->wanted.any);
}

// Nothing that waits may fit into the idle cores, except where they are kept for a job that has
// waited for them.
static void check_no_idle_core(struct sim *s)
{
    uint32_t all = (1u << s->n_cores) - 1, idle = all & ~s->busy, kept = kept_cores(s);
    struct sched_job *r = s->sched.reserving;
    if (r) {
        struct sim_job *j = container_of(r, struct sim_job, job);
        assert_true(j->waiting && (j->wanted.mask || (j->wanted.any > 1 && !j->wanted.or_fewer)));
        assert_true(s->now_us - j->added_us >= s->sched.patience_us);
        assert_true(kept & s->busy);
    }
    for (unsigned i = 0; i < s->n_queues; i++) {
        struct sim_job *j = head_of(&s->queues[i]);
        assert_false(j && fits(j, idle & ~kept, all));
    }
}

// ---- the machine -------------------------------------------------------------------------------

static void pump(struct sim *s)
{
    struct sched_job *started;
    while ((started = sched_next(&s->sched, s->now_us))) {
        check_started(s, started);
        struct sim_job *j = container_of(started, struct sim_job, job);
        struct sim_queue *q = queue_of(started);
        j->waiting = false;
        j->running = true;
        j->ends_us = s->now_us + j->length_us;
        if (s->now_us - j->added_us > q->longest_wait_us)
            q->longest_wait_us = s->now_us - j->added_us;
        s->busy |= started->placed;
        q->n_started++;
    }
    check_no_idle_core(s);
}

static struct sim_job *next_to_end(struct sim *s)
{
    struct sim_job *first = NULL;
    for (unsigned i = 0; i < s->n_queues; i++)
        for (unsigned k = 0; k < MAX_JOBS; k++) {
            struct sim_job *j = &s->queues[i].jobs[k];
            if (j->running && (!first || j->ends_us < first->ends_us))
                first = j;
        }
    return first;
}

static void end_job(struct sim *s, struct sim_job *j)
{
    s->busy &= ~j->job.placed;
    queue_of(&j->job)->n_done++;
    sched_end(&s->sched, &j->job, s->now_us);
    j->running = false;
}

static void feed(struct sim *s)
{
    for (unsigned i = 0; i < s->n_queues; i++) {
        struct sim_queue *q = &s->queues[i];
        while (q->greedy && count_waiting(q) < q->depth)
            add_job(s, q, q->wanted);
    }
}

static void run_until(struct sim *s, uint64_t end_us)
{
    for (;;) {
        feed(s);
        pump(s);
        struct sim_job *j = next_to_end(s);
        if (!j || j->ends_us > end_us)
            break;
        s->now_us = j->ends_us;
        end_job(s, j);
    }
    s->now_us = end_us;
}

static void drain(struct sim *s)
{
    struct sim_job *j;
    for (unsigned i = 0; i < s->n_queues; i++)
        s->queues[i].greedy = false;
    pump(s);
    while ((j = next_to_end(s))) {
        s->now_us = j->ends_us;
        end_job(s, j);
        pump(s);
    }
    for (unsigned i = 0; i < s->n_queues; i++)
        assert_int_equal(s->queues[i].n_done + s->queues[i].n_removed, s->queues[i].n_added);
    assert_int_equal(s->sched.n_waiting, 0);
    assert_int_equal(s->sched.n_running, 0);
    assert_int_equal(s->sched.busy, 0);
    for (unsigned i = 0; i < s->n_clients; i++)
        sched_client_done(&s->sched, &s->clients[i]);
    free(s);
}

static double share(const struct sim *s, unsigned client)
{
    return (double)s->clients[client].core_us / ((double)s->now_us * s->n_cores);
}

// ---- random workloads --------------------------------------------------------------------------

static void remove_one(struct sim *s)
{
    struct sim_queue *q = &s->queues[random_below(s, s->n_queues)];
    struct sim_job *j = &q->jobs[random_below(s, MAX_JOBS)];
    if (!j->waiting)
        return;
    sched_remove(&s->sched, &j->job);
    j->waiting = false;
    q->n_removed++;
}

static struct sched_cores random_cores(struct sim *s)
{
    static const struct sched_cores choices[] = {{.any = 1},
                                                 {.any = 1},
                                                 {.any = 1},
                                                 {.any = 2},
                                                 {.any = 3},
                                                 {.any = 2, .or_fewer = true},
                                                 {.any = 3, .or_fewer = true},
                                                 {.mask = 1},
                                                 {.mask = 2},
                                                 {.mask = 4},
                                                 {.mask = 3},
                                                 {.mask = 6},
                                                 {.mask = 7},
                                                 {.mask = 0xffff}};
    struct sched_cores c;
    do
        c = choices[random_below(s, sizeof choices / sizeof *choices)];
    while (!sched_can(&s->sched, c));
    return c;
}

static void one_workload(uint32_t seed)
{
    struct sim *s = sim_new(1 + seed % 4, seed);
    unsigned n_clients = 1 + random_below(s, 6);
    for (unsigned i = 0; i < n_clients; i++)
        if (i == 0 || random_below(s, 2))
            add_client(s, 1 + random_below(s, 5));
        else
            add_client_of(s, s->clients[random_below(s, i)].group);
    for (unsigned i = 0; i < n_clients * 3; i++)
        add_queue(s, random_below(s, n_clients), (uint8_t)random_below(s, 3), false);
    for (int step = 0; step < 400; step++) {
        uint32_t what = random_below(s, 10);
        if (what < 5)
            add_job(s, &s->queues[random_below(s, s->n_queues)], random_cores(s));
        else if (what < 6)
            remove_one(s);
        else
            run_until(s, s->now_us + random_below(s, 8000));
        pump(s);
    }
    drain(s);
}

static void test_random_workloads(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 2000; seed++)
        one_workload(seed * 2654435761u);
}

// A random crowd in which every context always wants more, of all priorities and core sets. The
// lowest class has its turn every two agings; a job on three cores counts there as three, and what
// someone had out of turn, because it fitted, once more.
static void test_nobody_starves(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 100; seed++) {
        struct sim *s = sim_new(3, seed * 2654435761u);
        unsigned n_clients = 2 + random_below(s, 5), n_queues = n_clients + random_below(s, 4);
        for (unsigned i = 0; i < n_clients; i++)
            add_client(s, 1);
        for (unsigned i = 0; i < n_queues; i++) {
            struct sim_queue *q = add_queue(s, i % n_clients, (uint8_t)random_below(s, 3), true);
            q->wanted = random_cores(s);
            q->length_us = 10000;
            q->depth = 1;
        }
        uint64_t turn_us = 2ull * s->sched.aging_us + s->sched.patience_us + 3 * 10000;
        run_until(s, 60000000);
        for (unsigned i = 0; i < n_queues; i++) {
            assert_true(s->queues[i].n_started > 0);
            assert_true(s->queues[i].longest_wait_us <= 6 * n_queues * turn_us);
        }
        drain(s);
    }
}

// ---- fairness ----------------------------------------------------------------------------------

// Between clients that always want more, no one is ahead of another by more than the jobs that can
// be on their way at once.
static void test_equal_clients_get_equal_time(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct sim *s = sim_new(3, seed);
        for (unsigned i = 0; i < 8; i++) {
            add_client(s, 1);
            for (unsigned k = 0; k < 1 + i % 4 * 2 + 2; k++) // some have many contexts
                add_queue(s, i, 1, true);
        }
        for (int t = 0; t < 100; t++) {
            run_until(s, s->now_us + 50000);
            uint64_t least = UINT64_MAX, most = 0;
            for (unsigned i = 0; i < 8; i++) {
                uint64_t us = s->clients[i].core_us;
                least = us < least ? us : least;
                most = us > most ? us : most;
            }
            assert_true(most - least <= (s->n_cores + 1) * s->max_length_us);
        }
        drain(s);
    }
}

// The same for any weights, as long as everyone has contexts enough for his share.
static void test_random_weights_are_kept(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct sim *s = sim_new(1 + seed % 3, seed * 2654435761u);
        uint32_t n = 2 + random_below(s, 4), weights[6];
        for (unsigned i = 0; i < n; i++) {
            add_client(s, weights[i] = 1 + random_below(s, 8));
            for (unsigned k = 0; k < s->n_cores + random_below(s, 3); k++)
                add_queue(s, i, 1, true)->depth = 1;
        }
        double slack = (s->n_cores + 1) * (double)s->max_length_us;
        run_until(s, 4000000);
        for (unsigned i = 0; i < n; i++)
            for (unsigned k = 0; k < i; k++) {
                double a = (double)s->clients[i].core_us / weights[i];
                double b = (double)s->clients[k].core_us / weights[k];
                assert_true(a - b <= slack / weights[i] + slack / weights[k]);
                assert_true(b - a <= slack / weights[i] + slack / weights[k]);
            }
        drain(s);
    }
}

static void test_weights_divide_time(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 5);
    static const uint32_t weights[] = {1, 2, 4, 8};
    for (unsigned i = 0; i < 4; i++) {
        add_client(s, weights[i]);
        for (int k = 0; k < 3; k++)
            add_queue(s, i, 2, true);
    }
    run_until(s, 60000000);
    for (unsigned i = 0; i < 4; i++)
        assert_float_equal((float)(share(s, i) * 15 / weights[i]), 1.0f, 0.03f);
    drain(s);
}

// Two users, one with four clients: half of the device each, and an eighth for each of the four.
static void test_users_share_before_their_clients(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 11);
    unsigned alone = add_client(s, 1), first = add_client(s, 1);
    for (int i = 0; i < 3; i++)
        add_client_of(s, s->clients[first].group);
    for (unsigned i = 0; i < s->n_clients; i++)
        for (int k = 0; k < 3; k++)
            add_queue(s, i, 1, true);
    run_until(s, 60000000);
    assert_float_equal((float)share(s, alone), 0.5f, 0.01f);
    for (unsigned i = first; i < s->n_clients; i++)
        assert_float_equal((float)share(s, i), 0.125f, 0.005f);
    drain(s);
}

// Any two cores, beside clients that fill all three with short jobs.
static void test_any_cores_get_their_turn(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 12);
    for (unsigned i = 0; i < 4; i++)
        add_queue(s, add_client(s, 1), 1, true)->length_us = 3000;
    struct sim_queue *pair = add_queue(s, add_client(s, 1), 1, true);
    pair->wanted = (struct sched_cores){.any = 2};
    pair->length_us = 3000;
    run_until(s, 30000000);
    assert_true(share(s, 4) > 0.15);
    drain(s);
}

static void test_absence_gives_no_credit(void **state)
{
    (void)state;
    struct sim *s = sim_new(1, 6);
    unsigned steady = add_client(s, 1), late = add_client(s, 1);
    add_queue(s, steady, 1, true);
    struct sim_queue *q = add_queue(s, late, 1, false);
    run_until(s, 10000000);
    uint64_t before = s->clients[steady].core_us;
    q->greedy = true;
    run_until(s, 12000000);
    uint64_t had = s->clients[steady].core_us - before;
    assert_in_range(had, 1000000 - 2 * s->max_length_us, 1000000 + 2 * s->max_length_us);
    drain(s);
}

// ---- priorities --------------------------------------------------------------------------------

static void test_high_priority_waits_for_one_job_at_most(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 7);
    for (unsigned i = 0; i < 30; i++)
        add_queue(s, add_client(s, 1), 2, true)->length_us = 20000;
    struct sim_queue *high = add_queue(s, add_client(s, 1), 0, false);
    high->length_us = 5000;
    for (int i = 0; i < 500; i++) {
        add_job(s, high, high->wanted);
        run_until(s, s->now_us + 20000 + 5000 + random_below(s, 30000));
    }
    assert_int_equal(high->n_done, 500);
    assert_true(high->longest_wait_us <= 20000);
    drain(s);
}

static void test_low_priority_is_late_but_not_starved(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 8);
    for (unsigned i = 0; i < 10; i++)
        add_queue(s, add_client(s, 1), 0, true)->length_us = 5000;
    struct sim_queue *middle = add_queue(s, add_client(s, 1), 1, true);
    struct sim_queue *low = add_queue(s, add_client(s, 1), 2, true);
    run_until(s, 60000000);
    // Each time its class has waited for aging_us (or twice that) one job gets through.
    unsigned periods = (unsigned)(60000000 / s->sched.aging_us);
    assert_in_range(middle->n_started, periods - 3, periods + 1);
    assert_in_range(low->n_started, periods / 2 - 3, periods / 2 + 1);
    drain(s);
}

// ---- several cores at once ---------------------------------------------------------------------

static void test_gangs_get_their_turn(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 9);
    for (unsigned i = 0; i < 3; i++) {
        add_client(s, 1);
        for (int k = 0; k < 3; k++)
            add_queue(s, i, 1, true);
    }
    unsigned client = add_client(s, 1);
    struct sim_queue *gang = add_queue(s, client, 1, true);
    gang->wanted = (struct sched_cores){.mask = 7};
    gang->length_us = 5000;
    run_until(s, 30000000);
    uint64_t used = 0;
    for (unsigned i = 0; i < 4; i++)
        used += s->clients[i].core_us;
    print_message("gang: share %.3f of 0.25, device in use %.3f\n", share(s, client),
                  (double)used / (double)(s->now_us * 3));
    assert_true(share(s, client) > 0.15);
    drain(s);
}

// A batch takes what is idle, up to what it can use, and never waits for more.
static void test_a_batch_takes_idle_cores(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 13);
    struct sim_queue *batch = add_queue(s, add_client(s, 1), 1, false);
    struct sim_queue *other = add_queue(s, add_client(s, 1), 1, false);
    batch->wanted = (struct sched_cores){.any = 3, .or_fewer = true};
    other->length_us = batch->length_us = 1000;
    add_job(s, batch, batch->wanted);
    pump(s);
    assert_int_equal(s->busy, 7);
    run_until(s, 1500);
    add_job(s, other, other->wanted);
    pump(s);
    add_job(s, batch, batch->wanted);
    pump(s);
    assert_int_equal(s->busy, 7);
    assert_int_equal(batch->n_started, 2);
    run_until(s, 5000);
    assert_int_equal(s->clients[0].core_us, 3000 + 2000);
    drain(s);
}

static void test_one_core_wanted_by_all(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 10);
    for (unsigned i = 0; i < 3; i++)
        add_queue(s, add_client(s, 1), 1, true)->wanted = (struct sched_cores){.mask = 2};
    add_queue(s, add_client(s, 1), 1, true);
    run_until(s, 10000000);
    for (unsigned i = 0; i < 3; i++)
        assert_float_equal((float)share(s, i), 1.0f / 9, 0.01f);
    assert_float_equal((float)share(s, 3), 1.0f / 3, 0.01f);
    drain(s);
}

static void test_refuses_cores_that_do_not_exist(void **state)
{
    (void)state;
    struct sched s;
    sched_init(&s, 2);
    assert_true(sched_can(&s, (struct sched_cores){.any = 2}));
    assert_false(sched_can(&s, (struct sched_cores){.any = 3}));
    assert_false(sched_can(&s, (struct sched_cores){0}));
    assert_true(sched_can(&s, (struct sched_cores){.mask = 2}));
    assert_true(sched_can(&s, (struct sched_cores){.mask = 0xffff}));
    assert_false(sched_can(&s, (struct sched_cores){.mask = 4}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_workloads),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_equal_clients_get_equal_time),
        cmocka_unit_test(test_random_weights_are_kept),
        cmocka_unit_test(test_weights_divide_time),
        cmocka_unit_test(test_users_share_before_their_clients),
        cmocka_unit_test(test_any_cores_get_their_turn),
        cmocka_unit_test(test_absence_gives_no_credit),
        cmocka_unit_test(test_high_priority_waits_for_one_job_at_most),
        cmocka_unit_test(test_low_priority_is_late_but_not_starved),
        cmocka_unit_test(test_gangs_get_their_turn),
        cmocka_unit_test(test_a_batch_takes_idle_cores),
        cmocka_unit_test(test_one_core_wanted_by_all),
        cmocka_unit_test(test_refuses_cores_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
