// Contexts: opening, closing, and what closing waits for.
//
//     context_open()         the model is loaded     the runner has opened its own
//          v                       v                         v
//       waits for the model --> on_ready() ------------> on_opened(): has a handle, is answered
//          |                       | fails                   |
//          +-----------------------+-------------------------+--> context_close()
//
// context_close() makes it unknown to its client at once (`connection` is NULL, the handle is
// free); what runs on the device continues, and context_check_idle() frees the context behind the
// last of it. Until then it keeps its references to session and model.
#include "server/jobs/context.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/jobs/job_timer.h"
#include "server/jobs/sram_use.h"
#include "server/metrics/metrics.h"
#include "server/models/model_users.h"
#include "server/net/connection.h"

#define ENABLE_SRAM   0x800u // RKNN_FLAG_ENABLE_SRAM
#define PRIORITY_MASK 3u     // of RKNN_FLAG_*: PRIOR_HIGH, PRIOR_MEDIUM, PRIOR_LOW

// For request_answer(): the reply has been sent.
static void release_model(void *owner)
{
    model_unref(owner);
}

// Answers CONTEXT_OPEN or CONTEXT_DUP with what the client needs to know of the model.
static void answer_opening(struct context *x)
{
    const struct model_info *info = runner_info(x->model->runner);
    rknnd_ContextInfo m = {
        .context = x->handle,
        .n_inputs = info->n_inputs,
        .n_outputs = info->n_outputs,
        .n_shape_sets = info->n_shape_sets,
        .native_attrs = info->native_attrs,
        .no_custom = info->no_custom,
        .weight_size = info->weight_size,
        .internal_size = info->internal_size,
        .memory_size = info->memory_size,
        .context_size = info->context_size,
        .sram_total = x->contexts->sram->total,
        .sram_free = x->contexts->sram->total - x->contexts->sram->used,
        .core_limit = info->core_limit,
        .batch = info->batch,
        .n_custom = info->custom->n,
        .estimate_assumed = info->estimate_assumed,
        .n_unestimated = info->n_unestimated,
    };
    message_set_text(m.custom_string, info->custom_string);
    message_set_text(m.estimate_chip, info->estimate_chip);
    // The tensors are in the model, which stays until they have been sent.
    struct iovec payload = {x->model->tensors, x->model->tensors_size};
    request_answer(&x->opening, rknnd_ContextInfo_fields, &m, &payload, 1, release_model,
                   model_ref(x->model));
}

static void fail_opening(struct context *x, const struct error *e)
{
    request_fail(&x->opening, e);
    context_close(x);
}

// From the runner, once. SRAM is taken only now, as a context that fails to open should not hold
// any.
static void on_opened(void *owner, const struct error *why)
{
    struct context *x = owner;
    struct error e;
    if (!why && session_add(x->session, x, &x->handle, &e) < 0)
        why = &e;
    if (why) {
        fail_opening(x, why);
        return;
    }
    if (x->flags & ENABLE_SRAM)
        x->sram = sram_take(x->contexts->sram, runner_info(x->model->runner)->internal_size);
    answer_opening(x);
}

// A small file may want much: what a context takes is known only when its model is loaded.
static int context_begin(struct context *x, struct error *e)
{
    uint64_t size = runner_info(x->model->runner)->context_size;
    int r = account_charge(&x->session->account, ACCOUNT_INTERNAL, size, e);
    if (r < 0)
        return r;
    x->charged = size;
    return runner_context_new(x->model->runner, on_opened, x, &x->runner, e);
}

// From the model: it is loaded, or loading failed. May come from inside of model_use_begin().
static void on_ready(struct model_use *use, const struct error *why)
{
    struct context *x = container_of(use, struct context, use);
    struct error e;
    if (!why && context_begin(x, &e) < 0)
        why = &e;
    if (why)
        fail_opening(x, why);
}

// The client has gone or has cancelled before the context was open.
static void on_abandoned(struct request *r)
{
    context_close(container_of(r, struct context, opening));
}

// The quota of the session is checked first, then that of the user. After request_begin() the
// request is answered through the context, also with errors. The runner's context is opened when
// the model is loaded.
int context_open(struct contexts *all, struct connection *c, const struct frame_header *h,
                 struct model *m, uint32_t flags, struct error *e)
{
    if ((flags & PRIORITY_MASK) >= SCHEDULER_PRIORITIES)
        return error_set(e, STATUS_PARAM_INVALID, "flags 0x%x have no such priority", flags);
    if (c->session->n_contexts >= all->options->max_contexts)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "the session has %u contexts, the server allows no more (max-contexts)",
                         c->session->n_contexts);
    int r = account_charge(&c->session->account, ACCOUNT_CONTEXTS, 1, e);
    if (r < 0)
        return r;
    struct context *x = calloc(1, sizeof *x);
    r = x ? model_hold(m, c->session->user, e) : 0;
    if (!x || r < 0) {
        account_refund(&c->session->account, ACCOUNT_CONTEXTS, 1);
        r = x ? r : error_no_memory(e, "a context", sizeof *x);
        free(x);
        return r;
    }
    x->contexts = all;
    x->connection = c;
    x->session = session_ref(c->session);
    x->model = m;
    x->flags = flags;
    scheduler_queue_init(&x->queue, &x->session->scheduling, (uint8_t)(flags & PRIORITY_MASK));
    x->series = metrics_find(all->metrics, m->file.name, m->sha256, c->session->user->name,
                             flags & PRIORITY_MASK);
    list_init(&x->jobs);
    list_init(&x->profiles);
    list_append(&c->contexts, &x->link);
    list_append(&all->all, &x->link_all);
    all->n++;
    x->session->n_contexts++;
    request_begin(&x->opening, &c->requests, h, on_abandoned);
    model_use_begin(&x->use, m, x->session->user, on_ready);
    return 0;
}

void context_close(struct context *x)
{
    struct context_work *w, *after;
    struct error e;
    if (!x->connection)
        return;
    x->connection = NULL;
    list_remove(&x->link);
    x->session->n_contexts--;
    account_refund(&x->session->account, ACCOUNT_CONTEXTS, 1);
    if (x->handle)
        session_remove(x->session, x->handle);
    error_set(&e, STATUS_CTX_INVALID, "the context was closed");
    x->n_running++; // not to be freed inside
    list_for_each_safe (w, after, &x->jobs, link)
        w->closed(w, &e);
    runner_profile_cancel(x->runner); // the context may stay for what runs
    while ((w = list_first(&x->profiles, struct context_work, link)))
        w->closed(w, &e);
    x->n_running--;
    context_check_idle(x);
}

// Jobs of a model whose worker is being replaced stay queued. Scheduling happens later, from the
// loop, as this may come in the middle of a job's end.
void contexts_hold(struct contexts *all, const struct model *m, bool held)
{
    struct context *x;
    list_for_each (x, &all->all, link_all)
        if (x->model == m)
            scheduler_hold(all->scheduler, &x->queue, held);
    job_timer_wake(all->timer);
}

// References go in the reverse order of their need: the runner's context before the model that it
// runs.
void context_check_idle(struct context *x)
{
    if (x->connection || x->n_running > 0)
        return;
    runner_context_free(steal_ptr(x->runner));
    binding_unref(x->binding);
    account_refund(&x->session->account, ACCOUNT_INTERNAL, x->charged);
    sram_give(x->contexts->sram, x->sram);
    model_use_end(&x->use);
    model_release(x->model, x->session->user);
    list_remove(&x->link_all);
    x->contexts->n--;
    session_unref(x->session);
    free(x);
}
