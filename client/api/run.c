// rknn_run, rknn_wait: sending runs and waiting for them (run.h has the rules, the states are those
// of enum run_state).
//
//     FREE ──run_start()──► PENDING ──run_select(): answered well──► SELECTED ──► FREE
//                              └──answered with an error──► FREE
//
// A selected run becomes free when a later one is selected or its slot is needed for the next run.
//
// INFER carries all inputs that are not in shared memory; the answer carries the outputs, in order.
// Large outputs stay in the socket (request.hold) until rknn_outputs_get() says where they go,
// which saves a copy. Called with the context's lock.
#include "client/api/run.h"

#include <string.h>

#include "base/log.h"
#include "client/api/callbacks.h"
#include "client/api/fence.h"
#include "client/api/mem_copy.h"
#include "client/debug/perf_text.h"
#include "client/last_error.h"

// clock_ms() for a program's timeout_ms: no limit when it is not positive.
static uint64_t run_deadline(int32_t timeout_ms)
{
    return timeout_ms > 0 ? clock_ms() + (uint64_t)timeout_ms : CLOCK_FOREVER;
}

struct run *run_find(struct context *c, enum run_state state)
{
    struct run *oldest = NULL;
    for (size_t i = 0; i < LIMIT_RUNS; i++) {
        struct run *r = &c->runs[i];
        if (r->state == state && (!oldest || r->frame < oldest->frame))
            oldest = r;
    }
    return oldest;
}

// Bytes of outputs in a run's answer: those not bound to memory, and those bound to memory that the
// server has only a copy of (*ret_copied: there is one of these).
static uint64_t answer_size(const struct context *c, uint32_t shape_set, bool *ret_copied)
{
    uint64_t size = 0;
    *ret_copied = false;
    for (uint32_t i = 0; i < c->info.n_outputs; i++) {
        const struct bound *copy = mem_bound_copy(c, true, i);
        if (!context_bound(c, true, i))
            size += context_output_in(c, shape_set, i)->logical.size;
        else if (copy)
            size += copy->size;
        *ret_copied |= copy != NULL;
    }
    return size;
}

// request.payload: where an answer's outputs go. The run's buffer has the unbound outputs
// contiguously; copies go straight into the program's memory. A part (FRAME_MORE) is a call of a
// custom operator.
static int take_outputs(struct request *request, uint64_t size, struct iovec *segments,
                        struct error *e)
{
    struct run *r = request->owner;
    struct context *c = r->context;
    bool more = c->connection->reader.header.flags & FRAME_MORE;
    if (more != r->reply.has_call)
        return error_set(e, STATUS_FAIL,
                         "a part of an answer that is not a custom operator's call");
    if (more)
        return callbacks_take_inputs(c, &r->reply.call, size, segments, e);
    bool copied;
    uint64_t expected = answer_size(c, r->shape_set, &copied);
    uint8_t *at = r->outputs;
    int n = 0;
    if (size != expected)
        return error_set(e, STATUS_FAIL, "%llu bytes of outputs, the model has %llu",
                         (unsigned long long)size, (unsigned long long)expected);
    if (!copied) {
        segments[0] = (struct iovec){at, (size_t)size};
        return 1;
    }
    for (uint32_t i = 0; i < c->info.n_outputs; i++) {
        const struct bound *copy = mem_bound_copy(c, true, i);
        size_t own =
            context_bound(c, true, i) ? 0 : context_output_in(c, r->shape_set, i)->logical.size;
        if (copy)
            segments[n++] = (struct iovec){copy->mem->map + copy->mem->offset, (size_t)copy->size};
        else if (own)
            segments[n++] = (struct iovec){at, own};
        at += own;
    }
    return n;
}

// Outputs from this size on are left in the stream until it is known where they are wanted. Copying
// smaller ones costs less than stopping the stream.
#define HOLD_BYTES (64u << 10)

#define INTERNAL_OUTSIDE (RKNN_FLAG_MEM_ALLOC_OUTSIDE | RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE)

// ---- starting ----------------------------------------------------------------------------------

// Segments for inputs that are not bound to memory. Returns how many; fails if one was never set.
static int gather_set(const struct context *c, rknnd_Infer *m, struct iovec *segments,
                      struct error *e)
{
    int n = 0;
    m->inputs_count = (pb_size_t)c->info.n_inputs;
    for (uint32_t i = 0; i < c->info.n_inputs; i++) {
        const struct input *in = &c->inputs[i];
        if (context_bound(c, false, i))
            continue;
        if (!in->form.size && context_input(c, i)->logical.size)
            return error_set(e, STATUS_INPUT_INVALID, "input %u (%s) has not been set", i,
                             context_input(c, i)->logical.name);
        segments[n++] = (struct iovec){in->rooms[in->in_use].data, (size_t)in->form.size};
        m->inputs[i] = in->form;
    }
    return n;
}

// Refused here with words, instead of a lost connection there.
static int check_payload(const struct context *c, const struct iovec *segments, int n,
                         struct error *e)
{
    const rknnd_Limits *l = &c->connection->peer.limits;
    uint64_t total = 0;
    for (int i = 0; i < n; i++)
        total += segments[i].iov_len;
    if (total <= l->payload_size)
        return 0;
    return error_set(e, STATUS_INPUT_INVALID, "inputs of %llu bytes, the server takes %llu at once",
                     (unsigned long long)total, (unsigned long long)l->payload_size);
}

// The order in the payload: changed parts of copied memory, then the inputs that were set. On
// failure the server's copies count as unknown again: what mem_copy_changes() took down was never
// sent.
int run_gather(struct context *c, rknnd_Infer *m, struct iovec *segments, struct error *e)
{
    struct iovec set[FRAME_MAX_SEGMENTS];
    int n = 0;
    if (c->flags & RKNN_FLAG_COLLECT_MODEL_INFO_ONLY)
        return error_set(e, STATUS_CTX_INVALID,
                         "the context was opened for RKNN_QUERY_MEM_SIZE only "
                         "(RKNN_FLAG_COLLECT_MODEL_INFO_ONLY)");
    if (context_check_free(c, e) < 0)
        return e->code;
    if ((c->flags & INTERNAL_OUTSIDE) && !c->internal && c->info.internal_size > 0)
        return error_set(e, STATUS_FAIL,
                         "the context was opened for internal memory from outside (flag 0x%x): "
                         "rknn_set_internal_mem comes before rknn_run",
                         c->flags & INTERNAL_OUTSIDE);
    if (c->info.n_inputs > FRAME_MAX_SEGMENTS)
        return error_set(e, STATUS_FAIL, "a model with %u inputs cannot be run, %d are possible",
                         c->info.n_inputs, FRAME_MAX_SEGMENTS);
    int n_set = gather_set(c, m, set, e);
    int r = n_set < 0 ? n_set : mem_copy_changes(c, m, segments, &n, e);
    if (r == 0) {
        memcpy(segments + n, set, (size_t)n_set * sizeof *set);
        n += n_set;
        r = check_payload(c, segments, n, e);
    }
    m->shape_set = c->shape_set;
    m->core_mask = c->core_mask;
    m->batch_cores = c->batch_cores;
    m->timeout_ms = c->timeout_ms;
    m->admit = c->admit;
    m->samples = c->samples;
    if (r < 0)
        mem_copy_ran(c, false);
    return r < 0 ? r : n;
}

// Reads a selected run's outputs to their end without anybody wanting them, so that its slot and
// buffer are free. Held outputs are skipped in the stream. NULL is fine.
static void give_up(struct context *c, struct run *r)
{
    struct error unwanted; // the next request meets it again
    if (r && c->connection->held == &r->request)
        connection_drop(c->connection, &r->request, &unwanted);
    else if (r)
        connection_wait(c->connection, &r->request, CLOCK_FOREVER, &unwanted);
}

// A slot for the next run: a free one, else the selected one (its outputs are given up), else the
// oldest pending one, which is waited for. That one's error is reported here: there is no later
// place for it.
static int find_room(struct context *c, struct run **ret, struct error *e)
{
    struct run *r = run_find(c, RUN_FREE);
    if (!r) {
        r = run_find(c, RUN_SELECTED);
        give_up(c, r);
    }
    if (!r) {
        r = run_find(c, RUN_PENDING);
        int s = connection_wait(c->connection, &r->request, CLOCK_FOREVER, e);
        r->state = RUN_FREE;
        mem_copy_ran(c, s == 0);
        if (s < 0)
            return error_prefix(e, "run %llu, which nobody waited for",
                                (unsigned long long)r->frame);
    }
    r->state = RUN_FREE;
    if (!r->outputs && c->output_room <= PTRDIFF_MAX)
        r->outputs = malloc(c->output_room ? (size_t)c->output_room : 1);
    if (!r->outputs)
        return error_no_memory(e, "outputs", c->output_room);
    *ret = r;
    return 0;
}

static void serve_call(struct request *request)
{
    struct run *r = request->owner;
    callbacks_compute(r->context, request, &r->reply.call);
}

// The program may write to bound memory at any time, so such a run's inputs cannot be reproduced.
static bool reads_memory(const struct context *c)
{
    for (uint32_t i = 0; i < c->info.n_inputs; i++)
        if (context_bound(c, false, i))
            return true;
    return false;
}

// Sends INFER. A slot is taken only when the inputs are complete: taking it may give up the outputs
// of the run before.
static int run_start(struct context *c, struct run **ret, struct error *e)
{
    struct run *r = NULL;
    struct iovec segments[FRAME_MAX_SEGMENTS];
    rknnd_Infer m = {.context = c->info.context,
                     .collect_perf = c->flags & RKNN_FLAG_COLLECT_PERF_MASK};
    bool copied;
    int n = run_gather(c, &m, segments, e);
    if (n < 0)
        return n;
    int s = find_room(c, &r, e);
    if (s < 0) {
        mem_copy_ran(c, false);
        return s;
    }
    bool calls = callbacks_announce(c, &m);
    mem_copy_results(c, &m);
    r->request =
        (struct request){.type = MESSAGE_INFER,
                         .reply = &r->reply,
                         .payload = take_outputs,
                         .owner = r,
                         .hold = answer_size(c, c->shape_set, &copied) >= HOLD_BYTES && !copied,
                         .in_parts = calls,
                         .serve = calls ? serve_call : NULL};
    r->shape_set = c->shape_set;
    r->input_version = reads_memory(c) ? RUN_INPUTS_UNKNOWN : c->input_version;
    r->given = false;
    r->sent_us = clock_us();
    s = connection_send(c->connection, &r->request, &m, segments, n, e);
    if (s < 0)
        return s;
    r->frame = ++c->last_frame;
    r->state = RUN_PENDING;
    *ret = r;
    return 0;
}

// ---- waiting -----------------------------------------------------------------------------------

// Only finished ones: a request must not go while its answer may still come.
static void drop_older(struct context *c, uint64_t frame)
{
    for (size_t i = 0; i < LIMIT_RUNS; i++) {
        struct run *r = &c->runs[i];
        if (r->frame < frame && r->request.done)
            r->state = RUN_FREE;
    }
}

// A run that was answered counts as selected even if its outputs are still in the stream.
int run_select(struct context *c, struct run *r, uint64_t until, struct error *e)
{
    int s = context_check_free(c, e);
    if (s < 0)
        return s;
    s = connection_wait_answer(c->connection, &r->request, until, e);
    if (!r->request.answered)
        return s;
    mem_copy_ran(c, s == 0);
    drop_older(c, r->frame);
    if (s < 0) {
        r->state = RUN_FREE;
        return s;
    }
    r->state = RUN_SELECTED;
    r->fetched = false;
    c->times = r->reply;
    c->times.attempts = r->reply.attempts ? r->reply.attempts : 1;
    c->total_us = r->request.done_us - r->sent_us;
    if (log_level_now() >= LOG_DEBUG)
        perf_text_log(c);
    return 0;
}

// Without blocking, operators of the program still have to be served, so the reader is started.
static int run_run(struct context *c, rknn_run_extend *extend, struct error *e)
{
    struct run *r = NULL;
    bool async = c->flags & RKNN_FLAG_ASYNC_MASK;
    int s = fence_wait(c, extend, run_deadline(extend ? extend->timeout_ms : 0), e);
    if (s == 0)
        s = run_start(c, &r, e);
    if (s != 0)
        return s;
    if (extend)
        extend->frame_id = r->frame;
    if (async || (extend && extend->non_block))
        return callbacks_start_reader(c, e);
    return run_select(c, r, run_deadline(extend ? extend->timeout_ms : 0), e);
}

int run_again(struct context *c, struct run **ret, struct error *e)
{
    struct run *r = NULL;
    int s = run_start(c, &r, e);
    if (s == 0)
        s = run_select(c, r, CLOCK_FOREVER, e);
    if (s == 0)
        *ret = r;
    return s;
}

RKNN_EXPORT int rknn_run(rknn_context context, rknn_run_extend *extend)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0)
        r = run_run(c, extend, &e);
    return last_error_keep("rknn_run", r, &e);
}

// Frame 0, which no run has, means the last one.
static int wait_for(struct context *c, const rknn_run_extend *extend, struct error *e)
{
    uint64_t frame = extend && extend->frame_id ? extend->frame_id : c->last_frame;
    if (c->last_frame == 0)
        return error_set(e, STATUS_FAIL, "nothing was run yet");
    for (size_t i = 0; i < LIMIT_RUNS; i++) {
        struct run *r = &c->runs[i];
        if (r->frame != frame || r->state == RUN_FREE)
            continue;
        if (r->state == RUN_SELECTED)
            return 0;
        connection_look(c->connection); // else poll() would be asked whether it is there
        return run_select(c, r, run_deadline(extend ? extend->timeout_ms : 0), e);
    }
    return error_set(e, frame > c->last_frame ? STATUS_PARAM_INVALID : STATUS_FAIL,
                     "run %llu: %s (the last one is %llu)", (unsigned long long)frame,
                     frame > c->last_frame ? "there was none"
                                           : "it failed or a later one replaced it",
                     (unsigned long long)c->last_frame);
}

RKNN_EXPORT int rknn_wait(rknn_context context, rknn_run_extend *extend)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0)
        r = wait_for(c, extend, &e);
    return r == STATUS_TIMEOUT ? last_error_keep_expected("rknn_wait", r, &e)
                               : last_error_keep("rknn_wait", r, &e);
}
