// What memories are used for: rknn_set_io_mem, rknn_set_internal_mem, rknn_set_weight_mem,
// rknn_mem_sync.
//
// A binding is a reference to the memory in c->bound, and CONTEXT_BIND at the server. All functions
// here that replace a memory return the old one, whose reference their callers drop after the
// connection's lock: freeing a memory enters a context.
#include <string.h>

#include "base/fd.h"
#include "client/api/mem.h"
#include "client/api/run.h"
#include "client/last_error.h"

// ---- inputs and outputs ------------------------------------------------------------------------

static bool is_named(const struct tensor_io *io, const rknn_tensor_attr *attr)
{
    return strncmp(io->logical.name, attr->name, sizeof attr->name) == 0;
}

// Attributes have no field for the direction: an input and an output of the same index are told
// apart by name, else by their number of elements.
static int find_tensor(const struct context *c, const rknn_tensor_attr *attr, bool *ret_output,
                       struct error *e)
{
    uint32_t i = attr->index;
    bool input = i < c->info.n_inputs && is_named(context_input(c, i), attr);
    bool output = i < c->info.n_outputs && is_named(context_output(c, i), attr);
    if (input && output)
        output = context_output(c, i)->logical.n_elems == attr->n_elems &&
                 context_input(c, i)->logical.n_elems != attr->n_elems;
    if (!input && !output)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "neither input %u nor output %u is called \"%.*s\"; use the attributes that "
            "rknn_query gives",
            i, i, (int)sizeof attr->name, attr->name);
    *ret_output = output;
    return 0;
}

// Waits for runs whose answers would no longer fit: binding changes which outputs they carry (`now`
// NULL), and a run may still be writing to copied memory that is given up.
static void settle_runs(struct context *c, const struct bound *now, bool copied)
{
    struct error unwanted;
    for (size_t i = 0; i < LIMIT_RUNS; i++) {
        struct run *r = &c->runs[i];
        if (r->state != RUN_FREE && (!now || copied))
            connection_wait(c->connection, &r->request, CLOCK_FOREVER, &unwanted);
        if (!now)
            r->state = RUN_FREE;
    }
}

// Tells the server where a tensor lies: in memory `home`, or (NULL) no longer in any. *ret_size:
// bytes of the memory that a run uses, in the layout and with the pitch that attr asks for.
int mem_place(struct context *c, const rknn_tensor_attr *attr, bool output,
              const struct mem_home *home, uint64_t *ret_size, struct error *e)
{
    rknnd_ContextBindReply reply;
    rknnd_ContextBind m = {.context = c->info.context,
                           .output = output,
                           .index = attr->index,
                           .memory = home ? home->handle : 0,
                           .offset = home ? home->offset : 0,
                           .type = (uint32_t)attr->type,
                           .layout = (uint32_t)attr->fmt,
                           .w_stride = attr->w_stride,
                           .h_stride = c->old_attrs ? 0 : attr->h_stride,
                           .pass_through = attr->pass_through,
                           .shape_set = c->shape_set};
    struct request r = {.type = MESSAGE_CONTEXT_BIND, .reply = &reply};
    int s = connection_call(c->connection, &r, &m, e);
    if (s == 0)
        *ret_size = reply.size;
    return s;
}

static int check_size(const struct mem *m, uint64_t size, bool output, struct error *e)
{
    if (size <= m->program.size)
        return 0;
    return error_set(e, output ? STATUS_OUTPUT_INVALID : STATUS_INPUT_INVALID,
                     "the memory has %u bytes, the tensor needs %llu", m->program.size,
                     (unsigned long long)size);
}

// Binds a tensor. If the memory turns out to be too small the server's binding is undone. *mem
// comes back as the memory that was bound before.
static int bind_tensor(struct context *c, const rknn_tensor_attr *attr, struct mem **mem,
                       struct error *e)
{
    bool output;
    struct bound b = {.mem = *mem};
    int r = find_tensor(c, attr, &output, e);
    if (r == 0)
        r = mem_home(c, b.mem, &b.home, e);
    if (r < 0)
        return r;
    struct bound *old = context_bound(c, output, attr->index);
    if (output)
        r = fd_check_writable(b.mem->fd, STATUS_OUTPUT_INVALID, e);
    if (r < 0)
        return r;
    if (output)
        settle_runs(c, old, old && !old->home->shared);
    r = mem_place(c, attr, output, b.home, &b.size, e);
    if (r == 0 && (r = check_size(b.mem, b.size, output, e)) < 0)
        mem_place(c, attr, output, NULL, &b.size, NULL);
    if (r < 0)
        return r;
    *mem = old ? old->mem : NULL;
    c->bound[output ? c->info.n_inputs + attr->index : attr->index] = b;
    c->input_version++;
    return 0;
}

int mem_unbind_input(struct context *c, uint32_t index, struct mem **ret, struct error *e)
{
    uint64_t size;
    struct bound *b = &c->bound[index];
    int r = mem_place(c, &(rknn_tensor_attr){.index = index}, false, NULL, &size, e);
    if (r < 0)
        return r;
    *ret = b->mem;
    *b = (struct bound){0};
    return 0;
}

RKNN_EXPORT int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    struct error e;
    cleanup(mem_put_p) struct mem *m = mem_take(mem, &e);
    cleanup(context_leave_p) struct context *c = NULL;
    int r = m ? context_enter_model(ctx, &c, &e) : e.code;
    if (r == 0 && !attr)
        r = error_set(&e, STATUS_PARAM_INVALID, "attr is NULL");
    if (r == 0)
        r = bind_tensor(c, attr, &m, &e);
    return last_error_keep("rknn_set_io_mem", r, &e);
}

// ---- internal memory and weights ---------------------------------------------------------------

static int bind_internal(struct context *c, struct mem **mem, struct error *e)
{
    struct mem *m = *mem;
    struct mem_home *home = NULL;
    if (m->program.size < c->info.internal_size)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the memory has %u bytes, the model's internal memory takes %llu "
                         "(RKNN_QUERY_MEM_SIZE)",
                         m->program.size, (unsigned long long)c->info.internal_size);
    int r = mem_home(c, m, &home, e);
    if (r < 0)
        return r;
    rknnd_ContextInternal message = {
        .context = c->info.context, .memory = home->handle, .offset = home->offset};
    struct request request = {.type = MESSAGE_CONTEXT_INTERNAL};
    settle_runs(c, c->bound, true);
    r = connection_call(c->connection, &request, &message, e);
    if (r < 0)
        return r;
    *mem = c->internal;
    c->internal = m;
    return 0;
}

RKNN_EXPORT int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    struct error e;
    cleanup(mem_put_p) struct mem *m = mem_take(mem, &e);
    cleanup(context_leave_p) struct context *c = NULL;
    int r = m ? context_enter_model(ctx, &c, &e) : e.code;
    if (r == 0)
        r = bind_internal(c, &m, &e);
    return last_error_keep("rknn_set_internal_mem", r, &e);
}

// Weights are in the server's worker, which serves all contexts of the model, whoever owns them:
// one program's memory cannot replace them. So the memory is checked and left alone.
RKNN_EXPORT int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    struct error e;
    cleanup(mem_put_p) struct mem *m = mem_take(mem, &e);
    cleanup(context_leave_p) struct context *c = NULL;
    if (!m)
        return last_error_keep("rknn_set_weight_mem", e.code, &e);
    int r = context_enter_model(ctx, &c, &e);
    if (r == 0 && m->program.size < c->info.weight_size)
        r = error_set(
            &e, STATUS_PARAM_INVALID,
            "the memory has %u bytes, the model's weights take %llu (RKNN_QUERY_MEM_SIZE)",
            m->program.size, (unsigned long long)c->info.weight_size);
    return last_error_keep("rknn_set_weight_mem", r, &e);
}

// ---- caches ------------------------------------------------------------------------------------

// Shared memory without devices is coherent, and copies are sent with each run, so only a dma-buf
// has caches to care for.
static int sync_caches(const struct mem *m, rknn_mem_sync_mode mode, struct error *e)
{
    if ((int)mode < RKNN_MEMORY_SYNC_TO_DEVICE || mode > RKNN_MEMORY_SYNC_BIDIRECTIONAL)
        return error_set(e, STATUS_PARAM_INVALID, "mode %d is none of rknn_mem_sync_mode",
                         (int)mode);
    int r = mode & RKNN_MEMORY_SYNC_TO_DEVICE ? mem_to_device(m, e) : 0;
    return r == 0 && mode & RKNN_MEMORY_SYNC_FROM_DEVICE ? mem_from_device(m, e) : r;
}

RKNN_EXPORT int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode)
{
    struct error e;
    cleanup(mem_put_p) struct mem *m = mem_take(mem, &e);
    cleanup(context_leave_p) struct context *c = NULL;
    int r = m ? context_enter(context, &c, &e) : e.code;
    if (r == 0)
        r = sync_caches(m, mode, &e);
    return last_error_keep("rknn_mem_sync", r, &e);
}
