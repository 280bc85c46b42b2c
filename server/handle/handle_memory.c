// MEMORY_FREE, CONTEXT_BIND and CONTEXT_INTERNAL: memory that clients share with the
// NPU, and what contexts use it for.
//
// Memory counts three times: against the session (max-memories, max-memory), against the user's
// quota, and in memories.bytes for the statistics. How they are made is in
// handle_memory_create.c and handle_memory_import.c.
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/handle_memory.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "tensor/chip.h"

// Counts memory that is being created (reserved), too. Written so that the sum cannot overflow.
int memory_check_room(const struct connection *c, uint64_t size, struct error *e)
{
    const struct options *o = c->services->options;
    const struct memory_table *t = &c->session->memories;
    uint32_t n = t->n_memories + t->n_reserved;
    uint64_t bytes = t->bytes + t->reserved;
    if (n >= o->max_memories)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "the session has %u memories, the server allows no more (max-memories)",
                         n);
    if (size > o->max_memory || bytes > o->max_memory - size)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%llu bytes of memory besides the session's %llu, the server allows %llu "
                         "(max-memory)",
                         (unsigned long long)size, (unsigned long long)bytes,
                         (unsigned long long)o->max_memory);
    return 0;
}

int memory_charge(struct account *a, uint64_t size, struct error *e)
{
    return account_charge_sized(a, ACCOUNT_MEMORIES, ACCOUNT_BYTES, size, e);
}

void memory_refund(struct account *a, uint64_t size)
{
    account_refund_sized(a, ACCOUNT_MEMORIES, ACCOUNT_BYTES, size);
}

// The handle takes its own reference of the memory; the caller keeps its own.
int memory_give_handle(const struct connection *c, struct memory *memory, rknnd_MemoryInfo *ret,
                       struct error *e)
{
    uint64_t size = memory->buffer.size;
    int r = memory_check_room(c, size, e);
    if (r == 0)
        r = memory_charge(&c->session->account, size, e);
    if (r < 0)
        return r;
    r = memory_table_add(&c->session->memories, memory, &ret->memory, e);
    if (r < 0)
        memory_refund(&c->session->account, size);
    else
        ret->size = size;
    return r;
}

// Bindings and runs keep the memory; the handle's bytes are given back at once.
int handle_memory_free(struct connection *c, const struct frame_header *h,
                       const union message_any *any, struct error *e)
{
    struct memory_table *t = &c->session->memories;
    uint64_t before = t->bytes;
    int r = memory_table_free(t, any->MEMORY_FREE_request.memory, e);
    if (r < 0)
        return r;
    memory_refund(&c->session->account, before - t->bytes);
    connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return 0;
}

// ---- bindings ----------------------------------------------------------------------------------

// Whether `size` bytes from `offset` on are inside the memory; cannot overflow.
static int check_fits(const struct memory *m, uint64_t offset, uint64_t size, const char *what,
                      int code, struct error *e)
{
    if (offset <= m->buffer.size && size <= m->buffer.size - offset)
        return 0;
    return error_set(e, code, "%.64s needs %llu bytes from offset %llu on, the memory has %llu",
                     what, (unsigned long long)size, (unsigned long long)offset,
                     (unsigned long long)m->buffer.size);
}

// Chips without float32 outputs (chip.small).
static bool is_small_chip(const struct npu_device_info *d)
{
    const struct chip *chip = chip_find_variant(d->chip);
    return chip && chip->small;
}

// Which of the context's tensors a request means: inputs first, then outputs. outputs_back has
// FRAME_MAX_SEGMENTS bits, which bounds the outputs of a model that can be bound.
static int find_tensor(const struct model_info *info, const rknnd_ContextBind *m, uint32_t *ret,
                       struct error *e)
{
    uint32_t n = m->output ? info->n_outputs : info->n_inputs;
    if (m->shape_set >= info->n_shape_sets)
        return error_set(e, STATUS_PARAM_INVALID, "shape set %u, the model has %u", m->shape_set,
                         info->n_shape_sets);
    if (info->n_outputs > FRAME_MAX_SEGMENTS)
        return error_set(e, STATUS_FAIL, "a model with %u outputs cannot be bound to memory",
                         info->n_outputs);
    if (m->index >= n)
        return error_set(e, m->output ? STATUS_OUTPUT_INVALID : STATUS_INPUT_INVALID,
                         "index %u: the model has %u %s", m->index, n,
                         m->output ? "outputs" : "inputs");
    *ret = m->output ? info->n_inputs + m->index : m->index;
    return 0;
}

// The place in memory that a binding describes, checked: handle, form, size, and that outputs can
// be written. A tensor that may shrink uses what the memory has.
static int make_place(struct connection *c, const struct model_info *info, uint32_t tensor,
                      const rknnd_ContextBind *m, struct bound *ret, struct error *e)
{
    const struct tensor_io *io = &model_info_shape_set(info, m->shape_set)[tensor];
    struct bound b = {0};
    struct memory *memory = memory_table_find(&c->session->memories, m->memory, e);
    if (!memory)
        return STATUS_PARAM_INVALID;
    int r = m->output ? binding_check_output(io, m, is_small_chip(&info->device), &b, e)
                      : binding_check_input(io, m, &b, e);
    if (io->shrinks && m->offset <= memory->buffer.size && b.size > memory->buffer.size - m->offset)
        b.size = memory->buffer.size - m->offset;
    if (m->output && r == 0)
        r = fd_check_writable(memory->buffer.fd, STATUS_OUTPUT_INVALID, e);
    if (r == 0)
        r = check_fits(memory, m->offset, b.size, io->logical.name,
                       m->output ? STATUS_OUTPUT_INVALID : STATUS_INPUT_INVALID, e);
    if (r < 0)
        return r;
    b.memory = memory;
    b.offset = m->offset;
    b.shape_set = m->shape_set;
    *ret = b;
    return 0;
}

// Memory 0 unbinds the tensor. Jobs that have come already keep the old binding (binding.c).
int handle_context_bind(struct connection *c, const struct frame_header *h,
                        const union message_any *any, struct error *e)
{
    const rknnd_ContextBind *m = &any->CONTEXT_BIND_request;
    struct context *x = session_context(c->session, m->context, e);
    struct bound place = {0};
    uint32_t tensor = 0;
    if (!x)
        return STATUS_CTX_INVALID;
    const struct model_info *info = runner_info(x->model->runner);
    int r = find_tensor(info, m, &tensor, e);
    if (r == 0 && m->memory)
        r = make_place(c, info, tensor, m, &place, e);
    if (r == 0)
        r = binding_set(&x->binding, info, tensor, &place, e);
    if (r == 0)
        connection_reply(c, h, rknnd_ContextBindReply_fields,
                         &(rknnd_ContextBindReply){.size = place.size});
    return r;
}

// Runs whose intermediate results share a memory must not overlap in time. So their jobs share a
// queue, which belongs to one session: another session's jobs would be charged to it.
static int take_queue(struct context *x, struct memory *memory, struct error *e)
{
    if (!memory->queue_session)
        scheduler_queue_init(&memory->queue, &x->session->scheduling, x->queue.priority);
    else if (memory->queue_session != x->session)
        return error_set(e, STATUS_PARAM_INVALID,
                         "another program uses this memory for intermediate results");
    memory->queue_session = x->session;
    return 0;
}

// Only between runs: jobs of the context would otherwise be in two queues.
int handle_context_internal(struct connection *c, const struct frame_header *h,
                            const union message_any *any, struct error *e)
{
    const rknnd_ContextInternal *m = &any->CONTEXT_INTERNAL_request;
    struct context *x = session_context(c->session, m->context, e);
    struct memory *memory = NULL;
    if (!x)
        return STATUS_CTX_INVALID;
    const struct model_info *info = runner_info(x->model->runner);
    if (m->memory && !(memory = memory_table_find(&c->session->memories, m->memory, e)))
        return STATUS_PARAM_INVALID;
    if (!list_empty(&x->jobs))
        return error_set(e, STATUS_FAIL, "wait for the context's runs first");
    int r = 0;
    if (memory)
        r = check_fits(memory, m->offset, info->internal_size, "the model's internal memory",
                       STATUS_PARAM_INVALID, e);
    if (r == 0 && memory)
        r = fd_check_writable(memory->buffer.fd, STATUS_PARAM_INVALID, e);
    if (r == 0 && memory)
        r = take_queue(x, memory, e);
    if (r == 0)
        r = binding_set_internal(&x->binding, info, memory, m->offset, e);
    if (r == 0)
        connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return r;
}
