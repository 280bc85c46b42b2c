// The way of inputs: one job that fills a run goes as it lies in its body; several, or one that
// does not fill it, are laid side by side in the lane's room, or in memory that the daemon has,
// too. The way of outputs is the same backwards.
#include "kserve/model/serve_group.h"

#include <string.h>

#include "base/clock.h"
#include "kserve/model/shared_input.h"

#define ATTEMPTS   2     // the second with a new connection
#define SHARE_FROM 16384 // bytes of an input: smaller ones travel with the run

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

uint8_t *group_place(const struct group *g, struct lane *lane, uint32_t input)
{
    return shared_place(g, lane, input, input_size(g, input) * set_samples(g));
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
            if (shared != in->data) // it was read there
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
int group_start(struct group *g, struct lane *lane, uint8_t **room, bool start_only,
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
    g->times.infer_ns = start_only ? set : clock_ns() - set;
    g->under_way = start_only && r == 0;
    return r < 0 ? library_error(e, r) : 0;
}

// Whoever asks for outputs would wait as well, but that is no time of theirs.
int group_wait(struct group *g, const struct lane *lane, unsigned ms, struct error *e)
{
    rknn_run_extend extend = {.timeout_ms = (int32_t)ms, .fence_fd = -1};
    int r = rknn_wait(lane->context, &extend);
    if (r == RKNN_ERR_TIMEOUT && ms > 0)
        return library_error(e, r);
    g->under_way = false;
    g->times.infer_ns = clock_ns() - g->times.infer_ns;
    return r < 0 ? library_error(e, r) : 0;
}

int group_end(struct group *g, struct lane *lane, uint8_t *room, struct error *e)
{
    int r = g->under_way ? group_wait(g, lane, 0, e) : 0;
    if (r < 0)
        return r;
    uint64_t begin = clock_ns();
    r = group_outputs(g, lane, room, e);
    g->times.output_ns = clock_ns() - begin;
    return r;
}

// A run has no effect but its outputs, so one whose server has gone can be had again.
bool group_is_lost(int r)
{
    return r == STATUS_DEVICE_UNAVAILABLE || r == STATUS_CTX_INVALID;
}

int group_run(struct group *g, struct lane *lane, struct error *e)
{
    int r = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint8_t *room;
        r = group_start(g, lane, &room, false, e);
        if (r == 0)
            r = group_end(g, lane, room, e);
        if (!group_is_lost(r))
            break;
        lane_lost(g->model, lane);
    }
    return r;
}

void group_count(const struct group *g)
{
    struct served_model *m = g->model;
    pthread_mutex_lock(&m->lock);
    statistics_run(&m->statistics, g->samples, g->n, &g->times);
    served_model_note_run(m, g->times.infer_ns);
    pthread_mutex_unlock(&m->lock);
}
