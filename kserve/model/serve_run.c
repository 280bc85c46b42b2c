// Requests of a model that batches wait for each other: the first one gathers those behind it, as
// many as a run takes, while it waits for a context and, if that is wanted, a little longer. It
// runs them in its own thread, and the next one in the queue gathers on.
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kserve/model/serve_group.h"

#define LEAST_DELAY_NS 200000 // in which 16 requests are read on two slow cores

// A semaphore each, which is not tied to the model's lock: who is woken has nothing more to do
// there.
struct batch_entry {
    struct job *job;
    struct batch_entry *next;
    sem_t woken; // it is done, or leads
    bool done, leads;
    uint64_t arrived_ns, begun_ns;
    int result;
    struct error error;
};

// Looked at when the turn has come, as Triton's queues do: who is told so earlier would have to be
// woken for that.
static bool is_late(const struct job *j, uint64_t arrived_ns)
{
    return j->timeout_ns && clock_ns() - arrived_ns > j->timeout_ns;
}

static int say_late(const struct job *j, struct error *e)
{
    return error_set(e, STATUS_TIMEOUT, "its turn came later than its \"timeout\", %llu us",
                     (unsigned long long)(j->timeout_ns / 1000));
}

// ---- models that take one sample, or one shape, at a time ---------------------------------------

// Samples of a request go to as many contexts as are free, each in its own.
static int run_samples(struct job *j, struct served_model *m, struct lane *const *lanes,
                       unsigned n_lanes, uint32_t from, struct error *e)
{
    struct group groups[16];
    uint8_t *rooms[16];
    int started[16], r = 0;
    for (unsigned i = 0; i < n_lanes; i++) {
        groups[i] = (struct group){
            .model = m, .jobs = {j}, .n = 1, .samples = 1, .offset = from + i, .set = j->set};
        started[i] = group_start(&groups[i], lanes[i], &rooms[i], n_lanes > 1, e);
    }
    for (unsigned i = 0; i < n_lanes; i++) {
        int s = started[i];
        if (s == 0)
            s = group_end(&groups[i], lanes[i], rooms[i], e);
        if (group_is_lost(s)) {
            lane_lost(m, lanes[i]);
            s = group_run(&groups[i], lanes[i], e);
        }
        if (s == 0)
            group_count(&groups[i]);
        r = r < 0 ? r : s;
    }
    return r;
}

static int run_alone(struct job *j, struct served_model *m, uint64_t *ret_begun, struct error *e)
{
    struct lane *lanes[16] = {lane_take(m, true)};
    unsigned n = 1;
    int r = 0;
    if (!lanes[0])
        return error_no_memory(e, "a context", 0);
    if (is_late(j, *ret_begun)) {
        lane_give(m, lanes[0]);
        return say_late(j, e);
    }
    *ret_begun = clock_ns();
    while (n < j->samples && n < 16 && (lanes[n] = lane_take(m, false)))
        n++;
    for (uint32_t done = 0; done < j->samples && r == 0; done += n) {
        unsigned now = j->samples - done < n ? j->samples - done : n;
        r = run_samples(j, m, lanes, now, done, e);
    }
    for (unsigned i = 0; i < n; i++)
        lane_give(m, lanes[i]);
    return r;
}

// ---- batches ------------------------------------------------------------------------------------

// Whether two jobs' inputs can lie one after the other.
static bool goes_with(const struct served_model *m, const struct job *a, const struct job *b)
{
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (a->inputs[i].type != b->inputs[i].type || a->inputs[i].format != b->inputs[i].format)
            return false;
    return true;
}

// In order: nobody is overtaken.
static struct batch_entry *take_entries(struct served_model *m, struct group *g)
{
    struct batch_entry *taken = m->first, *last, *next = taken; // the first one always fits
    do {
        last = next;
        g->jobs[g->n++] = last->job;
        g->samples += last->job->samples;
        last->begun_ns = clock_ns();
        next = last->next;
    } while (next && g->n < GROUP_MAX_JOBS && g->samples + next->job->samples <= m->per_run &&
             goes_with(m, taken->job, next->job));
    m->waiting -= g->samples;
    m->first = next;
    if (!m->first)
        m->last = NULL;
    last->next = NULL;
    g->set = 0; // the smallest that is large enough
    for (unsigned i = 1; i < m->n_sets; i++) {
        uint32_t has = m->sets[g->set].samples, n = m->sets[i].samples;
        if (has < g->samples ? n > has : n >= g->samples && n < has)
            g->set = i;
    }
    return taken;
}

// Those that are late leave the queue, which may be empty then.
static struct batch_entry *take_late(struct served_model *m)
{
    struct batch_entry *late = NULL, **at = &m->first;
    m->last = NULL;
    while (*at) {
        struct batch_entry *b = *at;
        if (!is_late(b->job, b->arrived_ns)) {
            m->last = b;
            at = &b->next;
            continue;
        }
        *at = b->next;
        b->next = late;
        late = b;
        m->waiting -= b->job->samples;
        m->inside -= b->job->samples;
    }
    return late;
}

// Nobody waits for more than what comes when it comes as of late: a client that is alone never, and
// of many who ask again as soon as they are answered each context gets its share. Without that a
// run of one goes ahead of those whose answers have just been sent.
static uint64_t worth_waiting_for(const struct served_model *m)
{
    uint64_t share = (m->usual + m->max_lanes - 1) / m->max_lanes;
    return share < m->per_run ? share : m->per_run;
}

// With the model's lock.
static void wait_for_more(struct served_model *m, const struct batch_entry *b)
{
    uint64_t quarter = m->run_ns / 4, least = LEAST_DELAY_NS;
    uint64_t delay = m->options->delay_us == SERVED_DELAY_BY_RUNS
                         ? (quarter > least ? quarter : least)
                         : (uint64_t)m->options->delay_us * 1000;
    uint64_t until = b->arrived_ns + delay;
    struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    m->gathers = true;
    while (m->waiting < worth_waiting_for(m) && clock_ns() < until)
        pthread_cond_timedwait(&m->more, &m->lock, &t);
    m->gathers = false;
}

// With the model's lock: a run has ended. What is usual follows what is there within some runs.
static void note_run(struct served_model *m, uint64_t took_ns)
{
    served_model_note_run(m, took_ns);
    m->usual -= (m->usual - m->inside + 7) / 8;
}

// With the model's lock: what the run leaves to be counted.
static void count_entries(struct served_model *m, const struct group *g,
                          const struct batch_entry *taken)
{
    uint64_t now = clock_ns();
    statistics_run(&m->statistics, g->samples, g->n, &g->times);
    for (; taken; taken = taken->next)
        statistics_success(&m->statistics, taken->job->samples, taken->begun_ns - taken->arrived_ns,
                           now - taken->arrived_ns);
}

// Who is told may be gone at once, and its entry with it. `own` is told by nobody.
static void end_entry(struct batch_entry *entry, const struct batch_entry *own, int result,
                      const struct error *e)
{
    entry->result = result;
    if (result < 0)
        entry->error = *e;
    entry->done = true;
    if (entry != own)
        sem_post(&entry->woken);
}

static void end_entries(struct batch_entry *taken, const struct batch_entry *own, int result,
                        const struct error *e)
{
    while (taken) {
        struct batch_entry *entry = taken;
        taken = entry->next;
        end_entry(entry, own, result, e);
    }
}

static void end_late(struct batch_entry *late, const struct batch_entry *own)
{
    while (late) {
        struct batch_entry *entry = late;
        struct error e;
        late = entry->next;
        int r = say_late(entry->job, &e);
        end_entry(entry, own, r, &e);
    }
}

// With the model's lock: the next one leads, if there is one.
static void pass_lead(struct served_model *m)
{
    m->is_led = m->first != NULL;
    if (!m->first)
        return;
    m->first->leads = true;
    sem_post(&m->first->woken);
}

static void run_entries(struct served_model *m, struct group *g, struct batch_entry *taken,
                        struct lane *lane, const struct batch_entry *own)
{
    struct error e;
    uint64_t begin = clock_ns();
    int r = lane ? group_run(g, lane, &e) : error_no_memory(&e, "a context", 0);
    pthread_mutex_lock(&m->lock);
    if (lane)
        lane_give_locked(m, lane);
    if (r == 0) {
        note_run(m, clock_ns() - begin);
        count_entries(m, g, taken);
    }
    m->inside -= g->samples;
    pthread_mutex_unlock(&m->lock);
    end_entries(taken, own, r, &e);
}

// With the model's lock, which it gives up. It may be late itself, and run others' jobs.
static void lead_batch(struct served_model *m, const struct batch_entry *b)
{
    struct group g = {.model = m};
    m->is_led = true;
    struct lane *lane = lane_take_locked(m, true);
    if (lane)
        wait_for_more(m, b);
    struct batch_entry *late = take_late(m);
    struct batch_entry *taken = m->first ? take_entries(m, &g) : NULL;
    pass_lead(m);
    if (!taken && lane)
        lane_give_locked(m, lane);
    pthread_mutex_unlock(&m->lock);
    end_late(late, b);
    if (taken)
        run_entries(m, &g, taken, lane, b);
}

// With the model's lock.
static void add_entry(struct served_model *m, struct batch_entry *b)
{
    if (m->last)
        m->last->next = b;
    else
        m->first = b;
    m->last = b;
    m->waiting += b->job->samples;
    m->inside += b->job->samples;
    m->usual = m->inside > m->usual ? m->inside : m->usual;
    if (m->gathers && m->waiting >= worth_waiting_for(m))
        pthread_cond_signal(&m->more);
}

static int run_together(struct job *j, struct served_model *m, struct error *e)
{
    struct batch_entry b = {.job = j, .arrived_ns = clock_ns()};
    sem_init(&b.woken, 0, 0);
    pthread_mutex_lock(&m->lock);
    add_entry(m, &b);
    b.leads = !m->is_led; // then nobody else waits
    if (!b.leads) {
        pthread_mutex_unlock(&m->lock);
        while (sem_wait(&b.woken) < 0 && errno == EINTR)
            continue;
        if (!b.done)
            pthread_mutex_lock(&m->lock);
    }
    if (!b.done)
        lead_batch(m, &b);
    sem_destroy(&b.woken);
    if (b.result < 0)
        *e = b.error;
    return b.result;
}

void job_count(struct served_model *m, const struct job *j, uint64_t queue_ns, uint64_t ns)
{
    pthread_mutex_lock(&m->lock);
    statistics_success(&m->statistics, j->samples, queue_ns, ns);
    pthread_mutex_unlock(&m->lock);
}

int job_run(struct job *j, struct served_model *m, struct error *e)
{
    uint64_t begin = clock_ns(), begun = begin;
    struct error own;
    if (m->per_run > 1)
        return run_together(j, m, e ? e : &own);
    int r = run_alone(j, m, &begun, e ? e : &own);
    if (r == 0)
        job_count(m, j, begun - begin, clock_ns() - begin);
    return r;
}
