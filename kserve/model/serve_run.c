// Requests of a model that batches wait for each other: the first one gathers those behind it, as
// many as a run takes, while it waits for a context and, if that is wanted, a little longer. It
// runs them in its own thread, and the next one in the queue gathers on.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kserve/model/serve_job.h"
#include "kserve/model/shared_input.h"

#define MAX_GROUP  STATISTICS_MAX_BATCH
#define ATTEMPTS   2     // the second with a new connection
#define SHARE_FROM 16384 // bytes of an input: smaller ones travel with the run

struct batch_entry {
    struct job *job;
    struct batch_entry *next;
    pthread_cond_t woken;
    bool done, leads;
    uint64_t arrived_ns, begun_ns;
    int result;
    struct error error;
};

// Jobs of one run, or a sample of one job.
struct group {
    struct served_model *model;
    struct job *jobs[MAX_GROUP];
    unsigned n;
    uint32_t samples;
    uint32_t offset; // samples of the only job that come before
    unsigned set;
    struct run_times times;
};

// ---- one run ------------------------------------------------------------------------------------

static uint64_t input_size(const struct group *g, uint32_t input)
{
    const struct job *j = g->jobs[0];
    return j->inputs[input].size / j->samples;
}

static uint64_t output_size(const struct group *g, uint32_t output)
{
    return job_output_size(g->model, g->set, output);
}

static uint32_t set_samples(const struct group *g)
{
    return g->model->batches ? g->model->sets[g->set].samples : 1;
}

// One job that fills the run needs no copy.
static bool is_direct(const struct group *g)
{
    return g->n == 1 && g->samples == set_samples(g);
}

static uint64_t group_room(const struct group *g)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < g->model->n_inputs; i++)
        size += input_size(g, i) * set_samples(g);
    for (uint32_t i = 0; i < g->model->n_outputs; i++)
        size += output_size(g, i) * set_samples(g);
    return size;
}

// The samples of all jobs one after the other; what is left of the run is 0.
static void gather_input(const struct group *g, uint32_t input, uint8_t *to)
{
    uint64_t size = input_size(g, input);
    for (unsigned i = 0; i < g->n; i++) {
        const struct job_input *in = &g->jobs[i]->inputs[input];
        uint32_t samples = g->n == 1 ? g->samples : g->jobs[i]->samples;
        memcpy(to, in->data + size * g->offset, (size_t)size * samples);
        to += size * samples;
    }
    memset(to, 0, (size_t)size * (set_samples(g) - g->samples));
}

// By its largest shape, so that an input goes one way, whichever shape is chosen.
static bool is_large(const struct served_model *m, unsigned set, uint32_t input, uint64_t size)
{
    uint64_t now = m->sets[set].inputs[input].n_elems, most = now;
    for (uint32_t i = 0; i < m->n_sets; i++)
        if (m->sets[i].inputs[input].n_elems > most)
            most = m->sets[i].inputs[input].n_elems;
    return now && size / now * most >= SHARE_FROM;
}

// NULL: it goes by rknn_inputs_set(), which undoes a binding.
static uint8_t *shared_place(const struct group *g, struct lane *lane, uint32_t input,
                             uint64_t size)
{
    if (!lane->inputs)
        return NULL;
    if (!is_large(g->model, g->set, input, size)) {
        lane->inputs[input].is_bound = false;
        return NULL;
    }
    const struct job_input *in = &g->jobs[0]->inputs[input];
    const struct input_form form = {.attr = &g->model->sets[g->set].inputs[input],
                                    .set = g->set,
                                    .size = (uint32_t)size,
                                    .type = in->type,
                                    .format = in->format};
    return shared_input_place(&lane->inputs[input], lane->context, &form);
}

// Large inputs go into memory that the daemon has, too; what is left is for rknn_inputs_set().
static int group_inputs(struct group *g, struct lane *lane, uint8_t **room, struct error *e)
{
    rknn_input inputs[REQUEST_MAX_TENSORS];
    const struct job *j = g->jobs[0];
    uint32_t n = 0;
    int r = 0;
    for (uint32_t i = 0; i < g->model->n_inputs && r == 0; i++) {
        const struct job_input *in = &j->inputs[i];
        uint64_t size = input_size(g, i), all = size * set_samples(g);
        uint8_t *shared = shared_place(g, lane, i, all);
        const uint8_t *from = in->data + size * g->offset;
        if (shared) {
            gather_input(g, i, shared);
            r = shared_input_written(&lane->inputs[i], lane->context);
            r = r < 0 ? library_error(e, r) : 0;
            continue;
        }
        if (!is_direct(g)) {
            gather_input(g, i, *room);
            from = *room;
            *room += all;
        }
        inputs[n++] = (rknn_input){.index = i,
                                   .buf = (void *)(uintptr_t)from,
                                   .size = (uint32_t)all,
                                   .type = in->type,
                                   .fmt = in->format};
    }
    if (r < 0 || n == 0)
        return r;
    r = rknn_inputs_set(lane->context, n, inputs);
    return r < 0 ? library_error(e, r) : 0;
}

static void spread_output(const struct group *g, uint32_t output, const uint8_t *from)
{
    uint64_t size = output_size(g, output);
    for (unsigned i = 0; i < g->n; i++) {
        memcpy(g->jobs[i]->outputs[output], from, (size_t)size * g->jobs[i]->samples);
        from += size * g->jobs[i]->samples;
    }
}

static int group_outputs(struct group *g, struct lane *lane, uint8_t *room, struct error *e)
{
    rknn_output outputs[REQUEST_MAX_TENSORS] = {0};
    for (uint32_t i = 0; i < g->model->n_outputs; i++) {
        uint64_t size = output_size(g, i), all = size * set_samples(g);
        outputs[i] =
            (rknn_output){.index = i,
                          .want_float = g->model->outputs[i].as_float,
                          .is_prealloc = 1,
                          .buf = is_direct(g) ? g->jobs[0]->outputs[i] + size * g->offset : room,
                          .size = (uint32_t)all};
        room += is_direct(g) ? 0 : all;
    }
    int r = rknn_outputs_get(lane->context, g->model->n_outputs, outputs, NULL);
    if (r < 0)
        return library_error(e, r);
    for (uint32_t i = 0; i < g->model->n_outputs && !is_direct(g); i++)
        spread_output(g, i, outputs[i].buf);
    return 0;
}

// Leaves the run under way with `start_only`.
static int start_group(struct group *g, struct lane *lane, uint8_t **room, bool start_only,
                       struct error *e)
{
    rknn_run_extend extend = {.non_block = start_only, .fence_fd = -1};
    uint64_t begin = clock_ns();
    int r = lane_ready(g->model, lane, g->set, e);
    if (r < 0)
        return r;
    if (!is_direct(g) && !lane_reserve(lane, group_room(g)))
        return error_no_memory(e, "a batch", group_room(g));
    *room = lane->room;
    r = group_inputs(g, lane, room, e);
    if (r < 0)
        return r;
    uint64_t set = clock_ns();
    r = rknn_run(lane->context, &extend);
    g->times.input_ns = set - begin;
    g->times.infer_ns = clock_ns() - set;
    return r < 0 ? library_error(e, r) : 0;
}

static int end_group(struct group *g, struct lane *lane, uint8_t *room, struct error *e)
{
    uint64_t begin = clock_ns();
    int r = group_outputs(g, lane, room, e);
    g->times.output_ns = clock_ns() - begin;
    return r;
}

// A run has no effect but its outputs, so one whose server has gone can be had again.
static bool is_lost(int r)
{
    return r == STATUS_DEVICE_UNAVAILABLE || r == STATUS_CTX_INVALID;
}

static int run_group(struct group *g, struct lane *lane, struct error *e)
{
    int r = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint8_t *room;
        r = start_group(g, lane, &room, false, e);
        if (r == 0)
            r = end_group(g, lane, room, e);
        if (!is_lost(r))
            break;
        lane_lost(g->model, lane);
    }
    return r;
}

static void count_run(const struct group *g)
{
    pthread_mutex_lock(&g->model->lock);
    statistics_run(&g->model->statistics, g->samples, g->n, &g->times);
    pthread_mutex_unlock(&g->model->lock);
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
        started[i] = start_group(&groups[i], lanes[i], &rooms[i], n_lanes > 1, e);
    }
    for (unsigned i = 0; i < n_lanes; i++) {
        int s = started[i];
        if (s == 0)
            s = end_group(&groups[i], lanes[i], rooms[i], e);
        if (is_lost(s)) {
            lane_lost(m, lanes[i]);
            s = run_group(&groups[i], lanes[i], e);
        }
        if (s == 0)
            count_run(&groups[i]);
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
    } while (next && g->n < MAX_GROUP && g->samples + next->job->samples <= m->per_run &&
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

// With the model's lock.
static void wait_for_more(struct served_model *m, const struct batch_entry *b)
{
    uint64_t until = b->arrived_ns + (uint64_t)m->options->delay_us * 1000;
    struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (m->options->delay_us == 0)
        return;
    while (m->waiting < m->per_run && clock_ns() < until)
        pthread_cond_timedwait(&m->more, &m->lock, &t);
}

static void end_entries(struct batch_entry *taken, int result, const struct error *e)
{
    while (taken) {
        struct batch_entry *next = taken->next;
        taken->result = result;
        if (result < 0)
            taken->error = *e;
        taken->done = true;
        pthread_cond_signal(&taken->woken);
        taken = next;
    }
}

// With the model's lock, which it lets go of while it runs.
static void lead_batch(struct served_model *m, struct batch_entry *b)
{
    struct group g = {.model = m};
    struct error e;
    m->is_led = true;
    struct lane *lane = lane_take_locked(m, true);
    if (lane)
        wait_for_more(m, b);
    struct batch_entry *taken = take_entries(m, &g);
    m->is_led = m->first != NULL;
    if (m->first) {
        m->first->leads = true;
        pthread_cond_signal(&m->first->woken);
    }
    pthread_mutex_unlock(&m->lock);
    int r = lane ? run_group(&g, lane, &e) : error_no_memory(&e, "a context", 0);
    if (r == 0)
        count_run(&g);
    if (lane)
        lane_give(m, lane);
    pthread_mutex_lock(&m->lock);
    end_entries(taken, r, &e);
}

static int run_together(struct job *j, struct served_model *m, uint64_t *ret_begun, struct error *e)
{
    struct batch_entry b = {.job = j, .arrived_ns = clock_ns()};
    pthread_cond_init(&b.woken, NULL);
    pthread_mutex_lock(&m->lock);
    if (m->last)
        m->last->next = &b;
    else
        m->first = &b;
    m->last = &b;
    m->waiting += j->samples;
    pthread_cond_signal(&m->more);
    b.leads = !m->is_led; // then nobody else waits
    while (!b.done && !b.leads)
        pthread_cond_wait(&b.woken, &m->lock);
    if (!b.done)
        lead_batch(m, &b);
    pthread_mutex_unlock(&m->lock);
    pthread_cond_destroy(&b.woken);
    *ret_begun = b.begun_ns;
    if (b.result < 0)
        *e = b.error;
    return b.result;
}

int job_run(struct job *j, struct served_model *m, struct error *e)
{
    uint64_t begin = clock_ns(), begun = begin;
    struct error own;
    int r = m->per_run > 1 ? run_together(j, m, &begun, e ? e : &own)
                           : run_alone(j, m, &begun, e ? e : &own);
    if (r < 0)
        return r;
    pthread_mutex_lock(&m->lock);
    statistics_success(&m->statistics, j->samples, begun - begin, clock_ns() - begin);
    pthread_mutex_unlock(&m->lock);
    return 0;
}
