// rknn_outputs_get, rknn_outputs_release: which run's outputs, and how they reach the program.
//
//     held in the stream, wanted in the model's own type
//                                 read from the socket straight into the program's buffer
//     held, else                  read into the run's buffer, then converted
//     in the run's buffer         copied or converted
//
// Outputs that went straight to the program are in no buffer of ours; asked for again, they are
// computed again (get_back()).
#include <string.h>

#include "client/api/run.h"
#include "client/last_error.h"

// ---- which run's outputs -----------------------------------------------------------------------

// With RKNN_FLAG_ASYNC_MASK outputs are those of the run before, so that nothing waits for the
// last one; the first run has none before it.
static int choose_async(struct context *c, struct run **ret, struct error *e)
{
    struct run *selected = run_find(c, RUN_SELECTED), *pending = run_find(c, RUN_PENDING);
    bool more = pending && pending->frame < c->last_frame;
    int r = 0;
    if (more || !selected)
        r = run_select(c, pending, CLOCK_FOREVER, e);
    if (r == 0)
        *ret = more || !selected ? pending : selected;
    return r;
}

// The run whose outputs are meant: the selected one; once that has been fetched, the oldest pending
// one, which is waited for.
static int outputs_choose(struct context *c, struct run **ret, struct error *e)
{
    struct run *selected = run_find(c, RUN_SELECTED), *pending = run_find(c, RUN_PENDING);
    if (!selected && !pending)
        return error_set(e, STATUS_OUTPUT_INVALID,
                         c->last_frame ? "the last run failed, so there are no outputs"
                                       : "no outputs before the first rknn_run");
    if (c->flags & RKNN_FLAG_ASYNC_MASK)
        return choose_async(c, ret, e);
    if (pending && (!selected || selected->fetched)) {
        int r = run_select(c, pending, CLOCK_FOREVER, e);
        if (r < 0)
            return r;
        selected = pending;
    }
    *ret = selected;
    return 0;
}

// ---- handing them over -------------------------------------------------------------------------

// An output's place in the run's buffer, which has those that are not bound to memory,
// contiguously.
static struct bytes output_bytes(const struct context *c, const struct run *r, uint32_t index)
{
    size_t at = 0;
    for (uint32_t i = 0; i < index; i++)
        at += context_bound(c, true, i) ? 0 : context_output_in(c, r->shape_set, i)->logical.size;
    return (struct bytes){r->outputs + at, context_output_in(c, r->shape_set, index)->logical.size};
}

static int output_size(const struct tensor_attr *a, bool want_float, uint32_t *ret, struct error *e)
{
    *ret = a->size;
    if (want_float && __builtin_mul_overflow(a->n_elems, (uint32_t)sizeof(float), ret))
        return error_set(e, STATUS_OUTPUT_INVALID, "%u elements are too many for float32",
                         a->n_elems);
    return 0;
}

// Checks the program's buffer, or allocates one, which rknn_outputs_release() frees.
static int find_room(const struct context *c, const struct run *run, rknn_output *o,
                     struct error *e)
{
    uint32_t size = 0;
    const struct tensor_attr *a = &context_output_in(c, run->shape_set, o->index)->logical;
    if (context_bound(c, true, o->index))
        return error_set(e, STATUS_OUTPUT_INVALID,
                         "output %u (%s) lies in the memory that rknn_set_io_mem was given",
                         o->index, a->name);
    int r = output_size(a, o->want_float, &size, e);
    if (r == 0 && o->is_prealloc && o->size < size)
        r = error_set(e, STATUS_OUTPUT_INVALID, "buf has %u bytes, %u are needed%s", o->size, size,
                      o->want_float ? " for float32" : "");
    if (r < 0)
        return error_prefix(e, "output %u (%s)", o->index, a->name);
    if (o->is_prealloc)
        return 0;
    o->buf = malloc(size ? size : 1);
    if (!o->buf)
        return error_no_memory(e, "an output", size);
    o->size = size;
    return 0;
}

static int get_output(const struct context *c, const struct run *run, rknn_output *o,
                      struct error *e)
{
    const struct tensor_attr *a = &context_output_in(c, run->shape_set, o->index)->logical;
    struct bytes from = output_bytes(c, run, o->index);
    if (o->want_float)
        return convert_to_float(a, from.data, from.size, o->buf, a->n_elems, e);
    memcpy(o->buf, from.data, from.size);
    return 0;
}

// ---- outputs that are still in the stream ------------------------------------------------------

// One of the outputs that a program wants.
struct wanted {
    uint32_t index; // as the program gave it
    bool direct;    // it went straight to the program, and is complete
};

// For each of the model's outputs, the program's buffer that it is read straight into, or NULL for
// the run's own buffer: it is wanted as float32, or not at all. False: none goes straight.
static bool choose_places(const struct context *c, uint32_t n, const rknn_output *outputs,
                          const rknn_output *places[FRAME_MAX_SEGMENTS])
{
    bool any = false;
    if (c->info.n_outputs > FRAME_MAX_SEGMENTS)
        return false;
    for (uint32_t i = 0; i < c->info.n_outputs; i++)
        places[i] = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const rknn_output *o = &outputs[i];
        places[o->index] = o->want_float ? NULL : o;
        any |= !o->want_float;
    }
    return any;
}

// Reads the held outputs to where they are wanted. They are contiguous in the stream, so each needs
// a segment, wanted or not.
static int take_held(struct context *c, struct run *run, uint32_t n, const rknn_output *outputs,
                     struct wanted *wanted, struct error *e)
{
    const rknn_output *places[FRAME_MAX_SEGMENTS];
    struct iovec segments[FRAME_MAX_SEGMENTS];
    uint64_t start_us = clock_us();
    if (c->connection->held != &run->request || !choose_places(c, n, outputs, places))
        return connection_wait(c->connection, &run->request, CLOCK_FOREVER, e);
    int n_segments = 0;
    for (uint32_t i = 0; i < c->info.n_outputs; i++) {
        struct bytes own = output_bytes(c, run, i);
        if (!context_bound(c, true, i))
            segments[n_segments++] =
                (struct iovec){places[i] ? places[i]->buf : (void *)(uintptr_t)own.data, own.size};
    }
    int r = connection_take(c->connection, &run->request, segments, n_segments, e);
    c->total_us += run->request.done_us - start_us;
    run->given = true;
    for (uint32_t i = 0; i < n; i++)
        wanted[i].direct = !outputs[i].want_float;
    return r;
}

// Outputs that went straight to the program before are wanted again: the run is repeated, which
// gives the same only if the inputs have not changed since.
static int get_back(struct context *c, struct run **run, struct error *e)
{
    if (!(*run)->given)
        return 0;
    if ((*run)->input_version != c->input_version)
        return error_set(
            e, STATUS_OUTPUT_INVALID,
            "outputs of run %llu were handed over already, and its inputs have changed "
            "since: get all outputs of a run before rknn_inputs_set",
            (unsigned long long)(*run)->frame);
    return run_again(c, run, e);
}

static void outputs_release_all(uint32_t n, rknn_output *outputs)
{
    for (uint32_t i = 0; i < n; i++) {
        if (outputs[i].is_prealloc)
            continue;
        free(outputs[i].buf);
        outputs[i].buf = NULL;
    }
}

// Programs written for older SDKs zero the array and set want_float alone, so that every index is
// 0: they want the outputs in order.
static bool has_repeated_index(uint32_t n, const rknn_output *outputs)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (outputs[i].index == outputs[k].index)
                return true;
    return false;
}

static int check_outputs(const struct context *c, uint32_t n, const rknn_output *outputs,
                         struct error *e)
{
    if (n == 0 || n > c->info.n_outputs || !outputs)
        return error_set(e, STATUS_PARAM_INVALID, "%u outputs wanted%s, the model has %u", n,
                         outputs ? "" : " (and no place for them)", c->info.n_outputs);
    bool by_position = has_repeated_index(n, outputs);
    for (uint32_t i = 0; i < n; i++) {
        const rknn_output *o = &outputs[i];
        if (o->index >= c->info.n_outputs)
            return error_set(e, STATUS_OUTPUT_INVALID, "output %u: the model has %u", o->index,
                             c->info.n_outputs);
        if (o->is_prealloc && !o->buf)
            return error_set(e, STATUS_OUTPUT_INVALID, "output %u: buf is NULL and is_prealloc set",
                             by_position ? i : o->index);
    }
    return 0;
}

// All buffers are ready before the first byte is read: the stream cannot be read twice.
static int outputs_fetch(struct context *c, struct run **ret_run, uint32_t n, rknn_output *outputs,
                         struct wanted *wanted, struct error *e)
{
    int r = get_back(c, ret_run, e);
    struct run *run = *ret_run;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = find_room(c, run, &outputs[i], e);
    if (r == 0)
        r = take_held(c, run, n, outputs, wanted, e);
    for (uint32_t i = 0; i < n && r == 0; i++)
        if (!wanted[i].direct)
            r = get_output(c, run, &outputs[i], e);
    run->fetched = r == 0;
    return r;
}

// On failure everything is as it was: buffers are freed and indices restored.
static int get_outputs(struct context *c, uint32_t n, rknn_output *outputs,
                       rknn_output_extend *extend, struct error *e)
{
    struct run *run = NULL;
    int r = check_outputs(c, n, outputs, e);
    if (r == 0)
        r = outputs_choose(c, &run, e);
    if (r < 0)
        return r;
    cleanup(free_p) struct wanted *wanted = calloc(n, sizeof *wanted);
    if (!wanted)
        return error_no_memory(e, "outputs", n);
    bool by_position = has_repeated_index(n, outputs);
    for (uint32_t i = 0; i < n; i++) {
        wanted[i].index = outputs[i].index;
        outputs[i].index = by_position ? i : outputs[i].index;
        if (!outputs[i].is_prealloc)
            outputs[i].buf = NULL;
    }
    r = outputs_fetch(c, &run, n, outputs, wanted, e);
    if (r == 0 && extend)
        extend->frame_id = run->frame;
    if (r < 0)
        outputs_release_all(n, outputs);
    for (uint32_t i = 0; i < n && r < 0; i++)
        outputs[i].index = wanted[i].index;
    return r;
}

RKNN_EXPORT int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                                 rknn_output_extend *extend)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0)
        r = get_outputs(c, n_outputs, outputs, extend, &e);
    return last_error_keep("rknn_outputs_get", r, &e);
}

// Buffers belong to the program from rknn_outputs_get() on, so they are freed whatever has become
// of the context; but a wrong number is said.
RKNN_EXPORT int rknn_outputs_release(rknn_context context, uint32_t n_outputs,
                                     rknn_output outputs[])
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0 && !outputs && n_outputs > 0)
        r = error_set(&e, STATUS_PARAM_INVALID, "outputs is NULL");
    if (r != STATUS_PARAM_INVALID && outputs)
        outputs_release_all(n_outputs, outputs);
    return last_error_keep("rknn_outputs_release", r, &e);
}
