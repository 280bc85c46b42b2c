// Loading and unloading of models.
//
//            first use           loaded
//     COLD ------------> LOADING ------> LOADED
//      ^                    | fails        |
//      |                    v              | no uses for worker_idle_s
//      +----------------- FAILED           |
//      |   at once, from the loop          |
//      +-----------------------------------+
//
// There are two counts. References (model_ref) keep the file: its clients, the contexts, and the
// runner have them. Uses (model_use) keep it loaded: one for each context that is open or waits to
// be. A model that is not COLD has a runner, and the runner's reference keeps the model.
#include "server/models/model.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/tensor_message.h"
#include "server/clients/user.h"
#include "server/observe/trace.h"

// The first reference takes the model out of the cache, the last one puts it back: see store.c.
struct model *model_ref(struct model *m)
{
    if (m->refs++ == 0)
        m->keeper->on_used(m);
    return m;
}

void model_unref(struct model *m)
{
    if (m && --m->refs == 0)
        m->keeper->on_unused(m);
}

// Encodes inputs and outputs once: they are the payload of every ContextInfo of this model.
static int encode_tensors(struct model *m, struct error *e)
{
    const struct model_info *info = runner_info(m->runner);
    size_t n = info->n_shape_sets * model_info_count(info);
    cleanup(free_p) const struct tensor_io **tensors = calloc(n + 1, sizeof *tensors);
    if (!tensors)
        return error_no_memory(e, "a model's tensors", n * sizeof *tensors);
    for (size_t i = 0; i < n; i++)
        tensors[i] = &info->tensors[i];
    m->tensors = tensor_list_encode(tensors, n, &m->tensors_size);
    return m->tensors ? 0 : error_no_memory(e, "a model's tensors", n * sizeof **tensors);
}

// Tells all who wait for the model. After a failure a use has ended before its owner hears of it.
static void tell_waiting(struct model *m, const struct error *e)
{
    struct model_use *use;
    while ((use = list_first(&m->waiting, struct model_use, link))) {
        list_remove(&use->link);
        if (e)
            model_use_end(use);
        use->ready(use, e);
    }
}

static void model_trace(const struct model *m, enum trace_kind kind, uint64_t value)
{
    trace_add(m->keeper->trace, kind, 0, trace_model_id(m->sha256), value, m->file.name);
}

// From the runner. The reference keeps the model through the callbacks, which may drop all others.
static void on_loaded(void *owner, const struct error *why)
{
    struct model *m = owner;
    struct error e;
    if (!why && encode_tensors(m, &e) < 0)
        why = &e;
    m->state = why ? MODEL_FAILED : MODEL_LOADED;
    m->keeper->n_loaded += !why;
    model_trace(m, TRACE_LOADED, why ? (uint64_t)-why->code : 0);
    if (why)
        log_warn("model %s: %s", m->file.name, why->text);
    else
        log_info("model %s is loaded", m->file.name);
    model_ref(m);
    tell_waiting(m, why);
    m->keeper->on_idle(m->keeper);
    model_unref(m);
}

// While a worker is being replaced, its model's jobs leave the device to others.
static void on_ready(void *owner, bool ready)
{
    struct model *m = owner;
    m->keeper->on_held(m->keeper, m, !ready);
}

// The runner's reference is taken here and given up by model_unload().
static int model_load(struct model *m, struct error *e)
{
    static const struct runner_events events = {.on_loaded = on_loaded, .on_ready = on_ready};
    m->keeper->make_room(m->keeper, m);
    int r = runner_new(m->keeper->runner_options, &m->file, &events, m, &m->runner, e);
    if (r < 0)
        return r;
    m->keeper->n_runners++;
    m->state = MODEL_LOADING;
    model_trace(m, TRACE_LOAD, 0);
    model_ref(m);
    return 0;
}

// Whose next use is the first one pays.
static int pay_worker(struct model *m, struct user *u, struct error *e)
{
    if (m->worker_payer)
        return 0;
    int r = account_charge(&u->account, ACCOUNT_WORKERS, 1, e);
    if (r == 0)
        m->worker_payer = u;
    return r;
}

// A use has ended. If it was the payer's last one, somebody else's goes on; an idle worker costs
// nobody anything.
static void pass_payment(struct model *m, struct user *u)
{
    struct model_use *use;
    if (m->worker_payer != u)
        return;
    list_for_each (use, &m->uses, in_model)
        if (use->user == u)
            return;
    use = list_first(&m->uses, struct model_use, in_model);
    m->worker_payer = use ? use->user : NULL;
    if (use)
        account_move(&u->account, &use->user->account, ACCOUNT_WORKERS, 1);
    else
        account_refund(&u->account, ACCOUNT_WORKERS, 1);
}

// A model that failed to load is tried again by its next use.
void model_use_begin(struct model_use *use, struct model *m, struct user *user,
                     void (*ready)(struct model_use *use, const struct error *e))
{
    struct error e;
    *use = (struct model_use){.model = m, .user = user, .ready = ready};
    list_init(&use->link);
    list_init(&use->in_model);
    if (m->state == MODEL_FAILED && m->n_uses == 0)
        model_unload(m);
    int r = pay_worker(m, user, &e);
    if (r == 0 && m->state == MODEL_COLD)
        r = model_load(m, &e);
    if (r < 0) {
        use->model = NULL;
        pass_payment(m, user);
        ready(use, &e);
        return;
    }
    list_append(&m->uses, &use->in_model);
    m->n_uses++;
    if (m->state == MODEL_LOADED)
        ready(use, NULL);
    else
        list_append(&m->waiting, &use->link);
}

// The model stays loaded for worker_idle_s, as clients often come back at once.
void model_use_end(struct model_use *use)
{
    struct model *m = use->model;
    if (!m)
        return;
    use->model = NULL;
    list_remove(&use->link);
    list_remove(&use->in_model);
    pass_payment(m, use->user);
    if (--m->n_uses == 0) {
        m->idle_since_ms = uv_now(m->keeper->loop);
        m->keeper->on_idle(m->keeper);
    }
}

// The runner goes first, because it uses the file that the reference keeps.
void model_unload(struct model *m)
{
    assert(m->n_uses == 0 && m->runner);
    log_debug("model %s is unloaded", m->file.name);
    model_trace(m, TRACE_UNLOADED, 0);
    m->keeper->n_loaded -= m->state == MODEL_LOADED;
    m->state = MODEL_COLD;
    free(steal_ptr(m->tensors));
    m->keeper->n_runners--;
    runner_free(steal_ptr(m->runner));
    model_unref(m);
}
