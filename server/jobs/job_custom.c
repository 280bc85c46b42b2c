// Custom operators of a job.
//
// One call at a time goes to the client: `called` is set from job_custom_call() to its CUSTOM_DONE,
// and `number` tells which call an answer is for. When the worker dies during a call, the run
// begins again and reaches the same or another node while the old call is still out: then `stale`
// says that the answer to come is thrown away, and only after it the new call is made. The client
// so never sees two calls of one run at once.
#include "server/jobs/job_custom.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/text/text.h"
#include "server/net/connection.h"

struct job_custom {
    struct runner_job *run;
    struct request *request;
    struct job_hold *hold;
    const struct custom_node *nodes; // of the model
    uint32_t node;                   // that the run waits for
    uint32_t number;                 // of the last call that was made
    bool called;                     // it is not answered
    bool stale;                      // and it is not what the run waits for
    struct connection *receiving;    // the outputs are coming from there; NULL: they are not
};

int job_custom_room(const struct model_info *info, const struct custom_set *set,
                    uint64_t output_room, uint64_t max_payload, uint64_t *ret, struct error *e)
{
    const struct custom_list *l = info->custom;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct custom_node *n = &l->nodes[i];
        if (custom_set_has(set, i) &&
            (custom_input_size(n) > max_payload || custom_output_size(n) > max_payload))
            return error_set(
                e, STATUS_PARAM_INVALID,
                "operator %s (node %s): its inputs or outputs are more than %llu bytes "
                "(max-payload)",
                n->op, n->name, (unsigned long long)max_payload);
    }
    *ret = align_up(output_room, CUSTOM_ALIGNMENT) - output_room +
           custom_input_room(l->nodes, set) + custom_output_room(l->nodes, set);
    return 0;
}

// ---- calls -------------------------------------------------------------------------------------

static void release_buffer(void *owner)
{
    buffer_unref(owner);
}

// Where the node's tensors are in the job's buffer: inputs, then outputs.
static void job_custom_place(const struct job_custom *c, void **tensors)
{
    const struct runner_job *h = c->run;
    custom_place(&c->nodes[c->node], h->buffer->output + h->custom_inputs,
                 h->buffer->output + h->custom_outputs, tensors);
}

// Sends the node's inputs to the client as a partial answer, straight from the buffer, of which the
// frame holds a reference.
static void job_custom_call(struct job_custom *c)
{
    const struct custom_node *n = &c->nodes[c->node];
    rknnd_CustomCall call = {.node = c->node, .number = ++c->number};
    rknnd_InferReply run = {.has_call = true, .call = call};
    rknnd_DumpReply dump = {.has_call = true, .call = call};
    struct request *r = c->request;
    struct buffer *b = c->run->buffer;
    struct iovec inputs[CUSTOM_MAX_TENSORS];
    void *tensors[CUSTOM_MAX_TENSORS];
    job_custom_place(c, tensors);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        inputs[i] = (struct iovec){tensors[i], n->tensors[i].size};
    c->called = true;
    c->stale = false;
    request_answer_part(r, message_row(r->type)->reply,
                        r->type == MESSAGE_INFER ? (void *)&run : (void *)&dump, inputs,
                        (int)n->n_inputs, release_buffer, buffer_ref(b));
}

// From the runner: a node's inputs are ready. With a call still out (its worker died), this one
// waits for that answer.
static void on_call(struct runner_job *run, uint32_t node)
{
    struct job_custom *c = run->call_owner;
    c->node = node;
    c->stale = c->called;
    if (!c->request->connection) {
        runner_job_stop(run);
        return;
    }
    job_hold_begin(c->hold);
    if (!c->called)
        job_custom_call(c);
}

// ---- answers -----------------------------------------------------------------------------------

// Nobody waits for the outputs that are coming: the worker has died, or the job has ended.
static bool is_useless(const struct job_custom *c)
{
    return c->stale || !runner_job_waits(c->run);
}

// The call is over. Either the run continues, or the call that had to wait is made now.
static void on_answered(struct job_custom *c)
{
    bool useless = is_useless(c);
    c->called = false;
    if (!useless)
        job_hold_end(c->hold);
    else if (c->stale)
        job_custom_call(c);
}

static void on_outputs(struct connection *from, void *owner)
{
    struct job_custom *c = owner;
    (void)from;
    c->receiving = NULL;
    on_answered(c);
}

// The client says that its operator failed. Its text is untrusted, and may be empty.
static void job_custom_fail(struct job_custom *c, const rknnd_CustomDone *m)
{
    const struct custom_node *n = &c->nodes[c->node];
    struct error e;
    error_set(&e, status_from_peer(m->status), "%s", m->text);
    text_make_printable(e.text);
    if (!e.text[0])
        error_set(&e, e.code, "operator %s (node %s): its program answered %d", n->op, n->name,
                  (int)m->status);
    runner_job_fail(c->run, &e);
}

static void job_custom_refuse(struct job_custom *c, uint64_t payload_size)
{
    const struct custom_node *n = &c->nodes[c->node];
    struct error e;
    error_set(&e, STATUS_OUTPUT_INVALID,
              "operator %s (node %s): its program sent outputs of %llu bytes, it has %llu", n->op,
              n->name, (unsigned long long)payload_size, (unsigned long long)custom_output_size(n));
    runner_job_fail(c->run, &e);
}

// Lets the connection read the outputs straight into the job's buffer.
static void job_custom_receive(struct job_custom *c, struct connection *from, uint64_t payload_size)
{
    const struct custom_node *n = &c->nodes[c->node];
    struct iovec outputs[CUSTOM_MAX_TENSORS];
    void *tensors[CUSTOM_MAX_TENSORS];
    if (payload_size != custom_output_size(n)) {
        job_custom_refuse(c, payload_size);
        return;
    }
    job_custom_place(c, tensors);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        outputs[i] = (struct iovec){tensors[n->n_inputs + i], n->tensors[n->n_inputs + i].size};
    if (payload_size == 0) {
        on_answered(c);
        return;
    }
    c->receiving = from;
    connection_receive(from, outputs, (int)n->n_outputs, on_outputs, c);
}

void job_custom_done(struct job_custom *c, struct connection *from, const rknnd_CustomDone *m,
                     uint64_t payload_size)
{
    if (!c || !c->called || m->number != c->number)
        return; // the job has ended, or has met an error, meanwhile
    if (is_useless(c))
        on_answered(c);
    else if (m->status < 0)
        job_custom_fail(c, m);
    else
        job_custom_receive(c, from, payload_size);
}

// ---- life --------------------------------------------------------------------------------------

int job_custom_new(struct runner_job *run, struct request *request, struct job_hold *hold,
                   const struct model_info *info, const struct custom_set *set,
                   uint64_t output_room, struct job_custom **ret, struct error *e)
{
    const struct custom_list *l = info->custom;
    struct job_custom *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "custom operators", sizeof *c);
    c->run = run;
    c->request = request;
    c->hold = hold;
    c->nodes = l->nodes;
    run->call = on_call;
    run->call_owner = c;
    run->custom = *set;
    run->custom_inputs = align_up(output_room, CUSTOM_ALIGNMENT);
    run->custom_outputs = run->custom_inputs + custom_input_room(l->nodes, set);
    *ret = c;
    return 0;
}

void job_custom_abandon(struct job_custom *c)
{
    if (c && c->receiving)
        connection_forget_payload(c->receiving);
    if (c)
        c->receiving = NULL;
}

void job_custom_free(struct job_custom *c)
{
    job_custom_abandon(c);
    free(c);
}
