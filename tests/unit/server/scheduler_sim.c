// Simulates a device.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/scheduler_sim.h"

uint32_t sim_random_below(struct sim *s, uint32_t n)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (s->random >> 8) % n;
}

struct sim *sim_new(unsigned n_cores, uint32_t seed)
{
    struct sim *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->n_cores = n_cores;
    s->random = seed;
    s->max_length_us = 20000;
    scheduler_init(&s->scheduler, n_cores);
    return s;
}

unsigned sim_add_client_of(struct sim *s, struct scheduler_group *g)
{
    scheduler_client_init(&s->clients[s->n_clients], g);
    return s->n_clients++;
}

// A client in a group of its own.
unsigned sim_add_client(struct sim *s, uint32_t weight)
{
    struct scheduler_group *g = &s->groups[s->n_clients];
    scheduler_group_init(&s->scheduler, g, weight);
    return sim_add_client_of(s, g);
}

struct sim_queue *sim_add_queue(struct sim *s, unsigned client, uint8_t priority, bool greedy)
{
    struct sim_queue *q = &s->queues[s->n_queues++];
    *q = (struct sim_queue){.client = client, .greedy = greedy, .depth = 4};
    q->wanted.any = 1;
    scheduler_queue_init(&q->queue, &s->clients[client], priority);
    return q;
}

void sim_add_job(struct sim *s, struct sim_queue *q, struct scheduler_cores wanted)
{
    for (unsigned i = 0; i < MAX_JOBS; i++) {
        struct sim_job *j = &q->jobs[i];
        if (j->waiting || j->running)
            continue;
        uint32_t max = (uint32_t)s->max_length_us;
        *j = (struct sim_job){.number = q->n_added++, .wanted = wanted, .waiting = true};
        j->length_us = q->length_us ? q->length_us : 1 + sim_random_below(s, max);
        j->added_us = s->now_us;
        scheduler_add(&s->scheduler, &j->job, &q->queue, wanted, s->now_us);
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

static struct sim_queue *queue_of(struct scheduler_job *j)
{
    return container_of(j->queue, struct sim_queue, queue);
}

// Those that the scheduler keeps for a job.
static uint32_t kept_cores(const struct sim *s)
{
    uint32_t all = (1u << s->n_cores) - 1;
    const struct scheduler_job *r = s->scheduler.reserving;
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

static void check_started(struct sim *s, struct scheduler_job *started)
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
    struct scheduler_job *r = s->scheduler.reserving;
    if (r) {
        struct sim_job *j = container_of(r, struct sim_job, job);
        assert_true(j->waiting);
        assert_true(j->wanted.mask || (j->wanted.any > 1 && !j->wanted.or_fewer));
        assert_cmp(s->now_us - j->added_us, >=, s->scheduler.patience_us);
        assert_true(kept & s->busy);
    }
    for (unsigned i = 0; i < s->n_queues; i++) {
        struct sim_job *j = head_of(&s->queues[i]);
        assert_false(j && fits(j, idle & ~kept, all));
    }
}

// Only jobs of lower priority than something that waits are asked, each once, and never one that
// has waited for its turn so long that it came before that.
static void ask_to_yield(struct sim *s, struct scheduler_job *asked)
{
    struct sim_job *j = container_of(asked, struct sim_job, job);
    bool more_urgent = false;
    for (unsigned i = 0; i < s->n_queues; i++)
        more_urgent = more_urgent || (head_of(&s->queues[i]) &&
                                      s->queues[i].queue.priority < asked->queue->priority);
    assert_true(j->running);
    assert_true(more_urgent);
    assert_false(asked->lifted);
    assert_int_equal(j->yields_us, 0);
    j->yields_us = s->now_us + 1 + sim_random_below(s, s->slice_us);
}

// ---- the machine -------------------------------------------------------------------------------

void sim_pump(struct sim *s)
{
    struct scheduler_job *started;
    while ((started = scheduler_next(&s->scheduler, s->now_us))) {
        check_started(s, started);
        struct sim_job *j = container_of(started, struct sim_job, job);
        struct sim_queue *q = queue_of(started);
        j->waiting = false;
        j->running = true;
        j->ends_us = s->now_us + j->length_us;
        if (!j->interrupted && s->now_us - j->added_us > q->longest_wait_us)
            q->longest_wait_us = s->now_us - j->added_us;
        s->busy |= started->placed;
        q->n_started += !j->interrupted;
    }
    check_no_idle_core(s);
    while (s->slice_us && (started = scheduler_victim(&s->scheduler, s->now_us)))
        ask_to_yield(s, started);
}

static uint64_t acts_us(const struct sim_job *j)
{
    return j->yields_us && j->yields_us < j->ends_us ? j->yields_us : j->ends_us;
}

static struct sim_job *next_to_end(struct sim *s)
{
    struct sim_job *first = NULL;
    for (unsigned i = 0; i < s->n_queues; i++)
        for (unsigned k = 0; k < MAX_JOBS; k++) {
            struct sim_job *j = &s->queues[i].jobs[k];
            if (j->running && (!first || acts_us(j) < acts_us(first)))
                first = j;
        }
    return first;
}

// A more urgent job may have its cores, which it wants again.
static void interrupt_job(struct sim *s, struct sim_job *j)
{
    s->busy &= ~j->job.placed;
    j->wanted = (struct scheduler_cores){.mask = j->job.placed};
    j->length_us = j->ends_us - s->now_us;
    j->yields_us = 0;
    j->running = false;
    j->waiting = j->interrupted = true;
    scheduler_yield(&s->scheduler, &j->job, s->now_us);
}

static void end_job(struct sim *s, struct sim_job *j)
{
    if (j->yields_us && j->yields_us < j->ends_us) {
        interrupt_job(s, j);
        return;
    }
    s->busy &= ~j->job.placed;
    queue_of(&j->job)->n_done++;
    scheduler_end(&s->scheduler, &j->job, s->now_us);
    j->running = false;
}

static void feed(struct sim *s)
{
    for (unsigned i = 0; i < s->n_queues; i++) {
        struct sim_queue *q = &s->queues[i];
        while (q->greedy && count_waiting(q) < q->depth)
            sim_add_job(s, q, q->wanted);
    }
}

void sim_run_until(struct sim *s, uint64_t end_us)
{
    for (;;) {
        feed(s);
        sim_pump(s);
        struct sim_job *j = next_to_end(s);
        if (!j || acts_us(j) > end_us)
            break;
        s->now_us = acts_us(j);
        end_job(s, j);
    }
    s->now_us = end_us;
}

void sim_drain(struct sim *s)
{
    struct sim_job *j;
    for (unsigned i = 0; i < s->n_queues; i++)
        s->queues[i].greedy = false;
    sim_pump(s);
    while ((j = next_to_end(s))) {
        s->now_us = acts_us(j);
        end_job(s, j);
        sim_pump(s);
    }
    for (unsigned i = 0; i < s->n_queues; i++)
        assert_int_equal(s->queues[i].n_done + s->queues[i].n_removed, s->queues[i].n_added);
    assert_int_equal(s->scheduler.n_waiting, 0);
    assert_int_equal(s->scheduler.n_running, 0);
    assert_int_equal(s->scheduler.busy, 0);
    for (unsigned i = 0; i < s->n_clients; i++)
        scheduler_client_done(&s->scheduler, &s->clients[i]);
    free(s);
}

double sim_share(const struct sim *s, unsigned client)
{
    return (double)s->clients[client].core_us / ((double)s->now_us * s->n_cores);
}
