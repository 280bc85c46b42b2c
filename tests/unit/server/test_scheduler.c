// The scheduler: random workloads against the rules of scheduler.h, and measured shares.
#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/seed.h"
#include "tests/unit/server/scheduler_sim.h"

// ---- random workloads --------------------------------------------------------------------------

static void remove_one(struct sim *s)
{
    struct sim_queue *q = &s->queues[sim_random_below(s, s->n_queues)];
    struct sim_job *j = &q->jobs[sim_random_below(s, MAX_JOBS)];
    if (!j->waiting)
        return;
    scheduler_remove(&s->scheduler, &j->job);
    j->waiting = false;
    q->n_removed++;
}

static struct scheduler_cores random_cores(struct sim *s)
{
    static const struct scheduler_cores choices[] = {{.any = 1},
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
    struct scheduler_cores c;
    do
        c = choices[sim_random_below(s, sizeof choices / sizeof *choices)];
    while (!scheduler_can(&s->scheduler, c));
    return c;
}

static void one_workload(uint32_t seed)
{
    struct sim *s = sim_new(1 + seed % 4, seed);
    s->slice_us = sim_random_below(s, 2) ? 0 : 1000;
    unsigned n_clients = 1 + sim_random_below(s, 6);
    for (unsigned i = 0; i < n_clients; i++)
        if (i == 0 || sim_random_below(s, 2))
            sim_add_client(s, 1 + sim_random_below(s, 5));
        else
            sim_add_client_of(s, s->clients[sim_random_below(s, i)].group);
    for (unsigned i = 0; i < n_clients * 3; i++)
        sim_add_queue(s, sim_random_below(s, n_clients), (uint8_t)sim_random_below(s, 3), false);
    for (int step = 0; step < 400; step++) {
        uint32_t what = sim_random_below(s, 10);
        if (what < 5)
            sim_add_job(s, &s->queues[sim_random_below(s, s->n_queues)], random_cores(s));
        else if (what < 6)
            remove_one(s);
        else
            sim_run_until(s, s->now_us + sim_random_below(s, 8000));
        sim_pump(s);
    }
    sim_drain(s);
}

static void random_workloads(void **state)
{
    (void)state;
    SEED_EACH (seed, 2000)
        one_workload((uint32_t)seed * 2654435761u);
}

// A random crowd in which every context always wants more, of all priorities and core sets. The
// lowest class has its turn every two agings; a job on three cores counts there as three, and what
// someone had out of turn, because it fitted, once more.
static void nobody_starves(void **state)
{
    (void)state;
    SEED_EACH (seed, 100) {
        struct sim *s = sim_new(3, (uint32_t)seed * 2654435761u);
        unsigned n_clients = 2 + sim_random_below(s, 5),
                 n_queues = n_clients + sim_random_below(s, 4);
        assert(n_clients > 0);
        for (unsigned i = 0; i < n_clients; i++)
            sim_add_client(s, 1);
        for (unsigned i = 0; i < n_queues; i++) {
            struct sim_queue *q =
                sim_add_queue(s, i % n_clients, (uint8_t)sim_random_below(s, 3), true);
            q->wanted = random_cores(s);
            q->length_us = 10000;
            q->depth = 1;
        }
        uint64_t turn_us = 2ull * s->scheduler.aging_us + s->scheduler.patience_us + 3 * 10000;
        sim_run_until(s, 60000000);
        for (unsigned i = 0; i < n_queues; i++) {
            assert_cmp(s->queues[i].n_started, >, 0);
            assert_cmp(s->queues[i].longest_wait_us, <=, 6 * n_queues * turn_us);
        }
        sim_drain(s);
    }
}

// ---- fairness ----------------------------------------------------------------------------------

// Between clients that always want more, no one is ahead of another by more than the jobs that can
// be on their way at once.
static void equal_clients_get_equal_time(void **state)
{
    (void)state;
    SEED_EACH (seed, 20) {
        struct sim *s = sim_new(3, (uint32_t)seed);
        for (unsigned i = 0; i < 8; i++) {
            sim_add_client(s, 1);
            for (unsigned k = 0; k < 1 + i % 4 * 2 + 2; k++) // some have many contexts
                sim_add_queue(s, i, 1, true);
        }
        for (int t = 0; t < 100; t++) {
            sim_run_until(s, s->now_us + 50000);
            uint64_t least = UINT64_MAX, most = 0;
            for (unsigned i = 0; i < 8; i++) {
                uint64_t us = s->clients[i].core_us;
                least = us < least ? us : least;
                most = us > most ? us : most;
            }
            assert_cmp(most - least, <=, (s->n_cores + 1) * s->max_length_us);
        }
        sim_drain(s);
    }
}

// The same for any weights, as long as everyone has contexts enough for his share.
static void random_weights_are_kept(void **state)
{
    (void)state;
    SEED_EACH (seed, 200) {
        struct sim *s = sim_new(1 + (unsigned)(seed % 3), (uint32_t)seed * 2654435761u);
        uint32_t n = 2 + sim_random_below(s, 4), weights[6];
        for (unsigned i = 0; i < n; i++) {
            sim_add_client(s, weights[i] = 1 + sim_random_below(s, 8));
            for (unsigned k = 0; k < s->n_cores + sim_random_below(s, 3); k++)
                sim_add_queue(s, i, 1, true)->depth = 1;
        }
        double slack = (s->n_cores + 1) * (double)s->max_length_us;
        sim_run_until(s, 4000000);
        for (unsigned i = 0; i < n; i++)
            for (unsigned k = 0; k < i; k++) {
                double a = (double)s->clients[i].core_us / weights[i];
                double b = (double)s->clients[k].core_us / weights[k];
                assert_cmp(a - b, <=, slack / weights[i] + slack / weights[k]);
                assert_cmp(b - a, <=, slack / weights[i] + slack / weights[k]);
            }
        sim_drain(s);
    }
}

static void weights_divide_time(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 5);
    static const uint32_t weights[] = {1, 2, 4, 8};
    for (unsigned i = 0; i < 4; i++) {
        sim_add_client(s, weights[i]);
        for (int k = 0; k < 3; k++)
            sim_add_queue(s, i, 2, true);
    }
    sim_run_until(s, 60000000);
    for (unsigned i = 0; i < 4; i++)
        assert_float_equal((float)(sim_share(s, i) * 15 / weights[i]), 1.0f, 0.03f);
    sim_drain(s);
}

// Two users, one with four clients: half of the device each, and an eighth for each of the four.
static void users_share_before_their_clients(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 11);
    unsigned alone = sim_add_client(s, 1), first = sim_add_client(s, 1);
    for (int i = 0; i < 3; i++)
        sim_add_client_of(s, s->clients[first].group);
    for (unsigned i = 0; i < s->n_clients; i++)
        for (int k = 0; k < 3; k++)
            sim_add_queue(s, i, 1, true);
    sim_run_until(s, 60000000);
    assert_float_equal((float)sim_share(s, alone), 0.5f, 0.01f);
    for (unsigned i = first; i < s->n_clients; i++)
        assert_float_equal((float)sim_share(s, i), 0.125f, 0.005f);
    sim_drain(s);
}

// Any two cores, beside clients that fill all three with short jobs.
static void any_cores_get_their_turn(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 12);
    for (unsigned i = 0; i < 4; i++)
        sim_add_queue(s, sim_add_client(s, 1), 1, true)->length_us = 3000;
    struct sim_queue *pair = sim_add_queue(s, sim_add_client(s, 1), 1, true);
    pair->wanted = (struct scheduler_cores){.any = 2};
    pair->length_us = 3000;
    sim_run_until(s, 30000000);
    assert_cmp(sim_share(s, 4), >, 0.15);
    sim_drain(s);
}

static void absence_gives_no_credit(void **state)
{
    (void)state;
    struct sim *s = sim_new(1, 6);
    unsigned steady = sim_add_client(s, 1), late = sim_add_client(s, 1);
    sim_add_queue(s, steady, 1, true);
    struct sim_queue *q = sim_add_queue(s, late, 1, false);
    sim_run_until(s, 10000000);
    uint64_t before = s->clients[steady].core_us;
    q->greedy = true;
    sim_run_until(s, 12000000);
    uint64_t had = s->clients[steady].core_us - before;
    assert_in_range(had, 1000000 - 2 * s->max_length_us, 1000000 + 2 * s->max_length_us);
    sim_drain(s);
}

// ---- priorities --------------------------------------------------------------------------------

static void high_priority_waits_for_one_job_at_most(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 7);
    for (unsigned i = 0; i < 30; i++)
        sim_add_queue(s, sim_add_client(s, 1), 2, true)->length_us = 20000;
    struct sim_queue *high = sim_add_queue(s, sim_add_client(s, 1), 0, false);
    high->length_us = 5000;
    for (int i = 0; i < 500; i++) {
        sim_add_job(s, high, high->wanted);
        sim_run_until(s, s->now_us + 20000 + 5000 + sim_random_below(s, 30000));
    }
    assert_int_equal(high->n_done, 500);
    assert_cmp(high->longest_wait_us, <=, 20000);
    sim_drain(s);
}

// Where jobs can be interrupted, it waits for a slice, and they lose nothing but the time it has.
static void high_priority_waits_for_a_slice(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 7);
    s->slice_us = 2000;
    for (unsigned i = 0; i < 30; i++)
        sim_add_queue(s, sim_add_client(s, 1), 1 + i % 2, true)->length_us = 20000;
    struct sim_queue *high = sim_add_queue(s, sim_add_client(s, 1), 0, false);
    high->length_us = 5000;
    for (int i = 0; i < 500; i++) {
        sim_add_job(s, high, high->wanted);
        sim_run_until(s, s->now_us + 5000 + 5000 + sim_random_below(s, 30000));
    }
    assert_int_equal(high->n_done, 500);
    assert_cmp(high->longest_wait_us, <=, s->slice_us);
    uint64_t used = 0;
    for (unsigned i = 0; i < s->n_clients; i++)
        used += s->clients[i].core_us;
    assert_cmp(used + 3 * 20000, >=,
               s->now_us * 3); // no core is idle; what runs is counted at its end
    sim_drain(s);
}

// Between equals nothing depends on who was interrupted how often.
static void interrupted_clients_get_equal_time(void **state)
{
    (void)state;
    SEED_EACH (seed, 20) {
        struct sim *s = sim_new(2, (uint32_t)seed);
        s->slice_us = 2000;
        for (unsigned i = 0; i < 4; i++) {
            sim_add_client(s, 1);
            for (unsigned k = 0; k < 2 + i; k++)
                sim_add_queue(s, i, 2, true)->length_us = i % 2 ? 20000 : 3000;
        }
        struct sim_queue *high = sim_add_queue(s, sim_add_client(s, 1), 0, false);
        for (int t = 0; t < 200; t++) {
            sim_add_job(s, high, (struct scheduler_cores){.mask = 1});
            sim_run_until(s, s->now_us + 25000);
            uint64_t least = UINT64_MAX, most = 0;
            for (unsigned i = 0; i < 4; i++) {
                uint64_t us = s->clients[i].core_us;
                least = us < least ? us : least;
                most = us > most ? us : most;
            }
            assert_cmp(most - least, <=, (s->n_cores + 1) * s->max_length_us);
        }
        sim_drain(s);
    }
}

static void low_priority_is_late_but_not_starved(void **state)
{
    struct sim *s = sim_new(3, 8);
    s->slice_us = *state ? 1000 : 0;
    for (unsigned i = 0; i < 10; i++)
        sim_add_queue(s, sim_add_client(s, 1), 0, true)->length_us = 5000;
    struct sim_queue *middle = sim_add_queue(s, sim_add_client(s, 1), 1, true);
    struct sim_queue *low = sim_add_queue(s, sim_add_client(s, 1), 2, true);
    sim_run_until(s, 60000000);
    // Each time its class has waited for aging_us (or twice that) one job gets through.
    unsigned periods = (unsigned)(60000000 / s->scheduler.aging_us);
    assert_in_range(middle->n_started, periods - 3, periods + 1);
    assert_in_range(low->n_started, periods / 2 - 3, periods / 2 + 1);
    sim_drain(s);
}

// ---- several cores at once ---------------------------------------------------------------------

static void gangs_get_their_turn(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 9);
    for (unsigned i = 0; i < 3; i++) {
        sim_add_client(s, 1);
        for (int k = 0; k < 3; k++)
            sim_add_queue(s, i, 1, true);
    }
    unsigned client = sim_add_client(s, 1);
    struct sim_queue *gang = sim_add_queue(s, client, 1, true);
    gang->wanted = (struct scheduler_cores){.mask = 7};
    gang->length_us = 5000;
    sim_run_until(s, 30000000);
    uint64_t used = 0;
    for (unsigned i = 0; i < 4; i++)
        used += s->clients[i].core_us;
    print_message("gang: share %.3f of 0.25, device in use %.3f\n", sim_share(s, client),
                  (double)used / (double)(s->now_us * 3));
    assert_cmp(sim_share(s, client), >, 0.15);
    sim_drain(s);
}

// A batch takes what is idle, up to what it can use, and never waits for more.
static void a_batch_takes_idle_cores(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 13);
    struct sim_queue *batch = sim_add_queue(s, sim_add_client(s, 1), 1, false);
    struct sim_queue *other = sim_add_queue(s, sim_add_client(s, 1), 1, false);
    batch->wanted = (struct scheduler_cores){.any = 3, .or_fewer = true};
    other->length_us = batch->length_us = 1000;
    sim_add_job(s, batch, batch->wanted);
    sim_pump(s);
    assert_int_equal(s->busy, 7);
    sim_run_until(s, 1500);
    sim_add_job(s, other, other->wanted);
    sim_pump(s);
    sim_add_job(s, batch, batch->wanted);
    sim_pump(s);
    assert_int_equal(s->busy, 7);
    assert_int_equal(batch->n_started, 2);
    sim_run_until(s, 5000);
    assert_int_equal(s->clients[0].core_us, 3000 + 2000);
    sim_drain(s);
}

static void one_core_wanted_by_all(void **state)
{
    (void)state;
    struct sim *s = sim_new(3, 10);
    for (unsigned i = 0; i < 3; i++)
        sim_add_queue(s, sim_add_client(s, 1), 1, true)->wanted =
            (struct scheduler_cores){.mask = 2};
    sim_add_queue(s, sim_add_client(s, 1), 1, true);
    sim_run_until(s, 10000000);
    for (unsigned i = 0; i < 3; i++)
        assert_float_equal((float)sim_share(s, i), 1.0f / 9, 0.01f);
    assert_float_equal((float)sim_share(s, 3), 1.0f / 3, 0.01f);
    sim_drain(s);
}

static void refuses_cores_that_do_not_exist(void **state)
{
    (void)state;
    struct scheduler s;
    scheduler_init(&s, 2);
    assert_true(scheduler_can(&s, (struct scheduler_cores){.any = 2}));
    assert_false(scheduler_can(&s, (struct scheduler_cores){.any = 3}));
    assert_false(scheduler_can(&s, (struct scheduler_cores){0}));
    assert_true(scheduler_can(&s, (struct scheduler_cores){.mask = 2}));
    assert_true(scheduler_can(&s, (struct scheduler_cores){.mask = 0xffff}));
    assert_false(scheduler_can(&s, (struct scheduler_cores){.mask = 4}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_workloads),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(equal_clients_get_equal_time),
        cmocka_unit_test(random_weights_are_kept),
        cmocka_unit_test(weights_divide_time),
        cmocka_unit_test(users_share_before_their_clients),
        cmocka_unit_test(any_cores_get_their_turn),
        cmocka_unit_test(absence_gives_no_credit),
        cmocka_unit_test(high_priority_waits_for_one_job_at_most),
        cmocka_unit_test(high_priority_waits_for_a_slice),
        cmocka_unit_test(interrupted_clients_get_equal_time),
        cmocka_unit_test(low_priority_is_late_but_not_starved),
        cmocka_unit_test_prestate(low_priority_is_late_but_not_starved, (void *)"in slices"),
        cmocka_unit_test(gangs_get_their_turn),
        cmocka_unit_test(a_batch_takes_idle_cores),
        cmocka_unit_test(one_core_wanted_by_all),
        cmocka_unit_test(refuses_cores_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
