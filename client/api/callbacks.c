// Custom operators of the program: registered with a context, then called in the middle of its
// runs.
//
//     INFER names the nodes ─► part (FRAME_MORE): inputs of one node ─► take_inputs()
//                              the program's compute(), the context lent
//                          ◄─ CUSTOM_DONE: its outputs, or its error
//
// The caller of compute() is whichever thread reads the connection: one in rknn_run() or
// rknn_wait(), or the background reader. The context's lock is held but for the program's
// functions.
#include "client/api/callbacks.h"

#include "base/array.h"
#include "base/log.h"
#include "client/link/background_reader.h"
#include "client/link/payload.h"

struct callbacks {
    struct custom_list *list;
    struct custom_ops ops;
    struct registrations registered;
    struct background_reader *reader; // NULL: no run went without blocking yet
};

// ---- registering -------------------------------------------------------------------------------

bool callbacks_leave_to_reader(struct callbacks *b, void (*finish)(struct context *c))
{
    return b && background_reader_inherit(b->reader, finish);
}

void callbacks_stop(struct callbacks *b)
{
    if (b)
        background_reader_free(steal_ptr(b->reader));
}

void callbacks_free(struct callbacks *b)
{
    if (!b)
        return;
    custom_ops_done(&b->ops);
    custom_list_free(b->list);
    free(b->registered.ops);
    free(b);
}

CLEANUP_DEFINE(struct callbacks, callbacks_free)

// The server knows which nodes of the model a program could compute.
static int fetch_list(struct context *c, struct custom_list **ret, struct error *e)
{
    rknnd_CustomList m = {.context = c->info.context};
    rknnd_CustomListReply reply;
    struct payload p = {.limit = LIMIT_LIST_BYTES};
    struct request r = {
        .type = MESSAGE_CUSTOM_LIST, .reply = &reply, .payload = payload_take, .owner = &p};
    int s = connection_call(c->connection, &r, &m, e);
    struct bytes list = {p.data, p.size};
    if (s == 0)
        s = custom_list_decode(&list, reply.n_nodes, ret, e);
    payload_done(&p);
    return s;
}

// Makes c->callbacks with the first registration.
static int callbacks_prepare(struct context *c, struct error *e)
{
    if (c->callbacks)
        return 0;
    cleanup(callbacks_free_p) struct callbacks *b = calloc(1, sizeof *b);
    if (!b)
        return error_no_memory(e, "custom operators", sizeof *b);
    int r = fetch_list(c, &b->list, e);
    if (r == 0)
        r = custom_ops_init(&b->ops, b->list->nodes, b->list->n, e);
    if (r == 0)
        c->callbacks = steal_ptr(b);
    return r;
}

static int callbacks_remember(struct registrations *all, const rknn_custom_op *op, struct error *e)
{
    int r = array_reserve(all->ops, all->room, all->n + 1, "custom operators", e);
    if (r == 0)
        all->ops[all->n++] = *op;
    return r;
}

// Adds one operator to all nodes of its type. Its init() is the program's code and may use the
// context, so the context is lent. A type that the model lacks is worth a warning only.
static int callbacks_add(struct context *c, const rknn_custom_op *op, struct error *e)
{
    context_lend(c);
    int r = custom_ops_add(&c->callbacks->ops, op, true, e);
    context_take_back(c);
    if (r < 0)
        return r;
    if (r == 0)
        log_warn("the model has no node of type %s that a program could compute", op->op_type);
    return callbacks_remember(&c->callbacks->registered, op, e);
}

// A run that failed counts as none: it may have done so for want of this very operator.
static int callbacks_check(const struct context *c, struct error *e)
{
    if (c->lent)
        return error_set(e, STATUS_FAIL, "operators cannot be registered by one's own callbacks");
    if (c->times.attempts > 0 || context_has_pending(c))
        return error_set(e, STATUS_FAIL,
                         "operators are registered before the first run of a context: open it "
                         "again, and register them before it runs");
    return 0;
}

int callbacks_register(rknn_context context, const rknn_custom_op *ops, uint32_t n, struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    if (!ops || n == 0)
        return error_set(e, STATUS_PARAM_INVALID, "no operators are given");
    int r = context_enter_model(context, &c, e);
    if (r == 0)
        r = callbacks_check(c, e);
    if (r == 0)
        r = callbacks_prepare(c, e);
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = callbacks_add(c, &ops[i], e);
    return r;
}

int callbacks_copy_registrations(const struct callbacks *b, struct registrations *ret,
                                 struct error *e)
{
    struct registrations copy = {0};
    if (b && b->registered.n) {
        copy.n = b->registered.n;
        int r = array_reserve(copy.ops, copy.room, copy.n, "custom operators", e);
        if (r < 0)
            return r;
        memcpy(copy.ops, b->registered.ops, copy.n * sizeof *copy.ops);
    }
    *ret = copy;
    return 0;
}

// ---- running -----------------------------------------------------------------------------------

bool callbacks_announce(const struct context *c, rknnd_Infer *m)
{
    if (!c->callbacks)
        return false;
    struct custom_set nodes = custom_ops_nodes(&c->callbacks->ops);
    custom_set_to_message(&nodes, m->custom_nodes);
    return m->custom_nodes.size > 0;
}

static struct custom_op *callbacks_find(const struct context *c, uint32_t node)
{
    const struct callbacks *b = c->callbacks;
    return b && node < b->list->n ? b->ops.ops[node] : NULL;
}

// Checks the server's call against the list of nodes and points the segments at the operator's own
// input buffers.
int callbacks_take_inputs(const struct context *c, const rknnd_CustomCall *call, uint64_t size,
                          struct iovec *segments, struct error *e)
{
    const struct custom_op *op = callbacks_find(c, call->node);
    if (!op)
        return error_set(e, STATUS_FAIL,
                         "a call for node %u, which this program did not offer to compute",
                         call->node);
    const struct custom_node *n = &c->callbacks->list->nodes[call->node];
    if (size != custom_input_size(n))
        return error_set(e, STATUS_FAIL, "inputs of %llu bytes for node %s, it has %llu",
                         (unsigned long long)size, n->name,
                         (unsigned long long)custom_input_size(n));
    for (uint32_t i = 0; i < n->n_inputs; i++)
        segments[i] = (struct iovec){custom_op_tensors(op)[i], n->tensors[i].size};
    return (int)n->n_inputs;
}

static void callbacks_answer(struct context *c, const rknnd_CustomDone *m, uint32_t node)
{
    const struct custom_node *n = &c->callbacks->list->nodes[node];
    void *const *tensors = custom_op_tensors(callbacks_find(c, node)) + n->n_inputs;
    struct iovec outputs[CUSTOM_MAX_TENSORS];
    uint32_t count = m->status < 0 ? 0 : n->n_outputs;
    for (uint32_t i = 0; i < count; i++)
        outputs[i] = (struct iovec){tensors[i], n->tensors[n->n_inputs + i].size};
    connection_tell(c->connection, MESSAGE_CUSTOM_DONE, m, outputs, (int)count);
}

// Runs one call and answers it. The run may have ended while the program computed (cancelled, or
// the connection was lost): then nobody waits for the outputs.
void callbacks_compute(struct context *c, struct request *r, const rknnd_CustomCall *call)
{
    struct error e = {0};
    rknnd_CustomDone m = {.request = r->id, .number = call->number};
    uint32_t node = call->node;
    struct custom_op *op = callbacks_find(c, node);
    context_lend(c);
    m.status = custom_op_run(op, &e);
    context_take_back(c);
    if (m.status < 0)
        message_set_text(m.text, e.text);
    r->part = false;
    if (!r->done)
        callbacks_answer(c, &m, node);
}

// Nothing to do without operators of the program: answers can wait in the socket.
int callbacks_start_reader(struct context *c, struct error *e)
{
    struct callbacks *b = c->callbacks;
    int r = 0;
    if (!b || custom_ops_empty(&b->ops))
        return 0;
    if (!b->reader)
        r = background_reader_new(c, &b->reader, e);
    if (r == 0)
        background_reader_wake(b->reader);
    return r;
}
