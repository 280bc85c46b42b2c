// Which memories a worker knows, and where it believes a context's tensors to be. Only what differs
// from the last run is sent. A worker that replaces another knows nothing and is told everything
// again.
//
//   memory.users:           all workers that have this memory mapped
//   worker_memories.users:  all memories that this worker has mapped
//                           a memory_user is in both lists
//
// None of these messages has an answer; messages arrive in order, so they take effect before the
// next run.
#include "server/runner/worker_binding.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"

// Takes over the fd. Request number 0, as no answer comes.
static void send_message(struct worker_memories *w, uint16_t type, const void *message, int fd)
{
    struct frame_out *f =
        message_frame(type, 0, 0, message_row(type)->request, message, NULL, 0, NULL, NULL);
    if (f && fd >= 0)
        f->fds[f->n_fds++] = fd;
    else
        fd_close(fd);
    worker_process_send(w->process, f);
}

// ---- memories ----------------------------------------------------------------------------------

void worker_memories_init(struct worker_memories *w)
{
    *w = (struct worker_memories){0};
    list_init(&w->users);
}

static void user_free(struct memory_user *u)
{
    list_remove(&u->in_memory);
    list_remove(&u->in_owner);
    free(u);
}

// The old worker's mappings went with its process, so nothing is sent to it.
void worker_memories_reset(struct worker_memories *w, struct worker_process *process)
{
    struct memory_user *u;
    while ((u = list_first(&w->users, struct memory_user, in_owner)))
        user_free(u);
    w->process = process;
}

// A worker that reads and writes a memory has it mapped twice. Nobody can forbid that a dma-buf is
// written, and devices may want one descriptor for both.
static bool is_writable(const struct memory *m, bool output)
{
    return output || m->dmabuf;
}

// The memory in messages to workers.
static uint32_t worker_number(const struct memory *m, bool writes)
{
    return m->id * 2 + writes;
}

// The memory's last reference has gone: the worker unmaps it.
static void on_gone(struct memory_user *u)
{
    struct worker_memories *w = (struct worker_memories *)(uintptr_t)u->owner;
    send_message(w, MESSAGE_WORKER_MEMORY_FREE,
                 &(rknnd_WorkerMemory){.memory = worker_number(u->memory, u->writes)}, -1);
    user_free(u);
}

static bool is_known(const struct worker_memories *w, const struct memory *m, bool writes)
{
    struct memory_user *u;
    list_for_each (u, &m->users, in_memory)
        if (u->owner == w && u->writes == writes)
            return true;
    return false;
}

// Lets the worker map a memory that it does not know yet. NULL memory: nothing to do. What is only
// an input it cannot write, because another model or program may read it, too.
static int worker_pass_memory(struct worker_memories *w, struct memory *m, bool output,
                              struct error *e)
{
    bool writes = m && is_writable(m, output);
    if (!m || is_known(w, m, writes))
        return 0;
    struct memory_user *u = malloc(sizeof *u);
    int fd = writes ? fcntl(m->buffer.fd, F_DUPFD_CLOEXEC, 3) : fd_open_read_only(m->buffer.fd);
    if (!u || fd < 0) {
        int why = errno;
        fd_close(fd);
        free(u);
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, why,
                               "cannot pass memory to a worker%s",
                               why == EWOULDBLOCK ? ", as a program has a lease on it" : "");
    }
    *u = (struct memory_user){.memory = m, .writes = writes, .owner = w, .gone = on_gone};
    list_append(&m->users, &u->in_memory);
    list_append(&w->users, &u->in_owner);
    send_message(w, MESSAGE_WORKER_MEMORY,
                 &(rknnd_WorkerMemory){worker_number(m, writes), m->buffer.size}, fd);
    return 0;
}

// ---- bindings ----------------------------------------------------------------------------------

// Compares what the message would contain. `shape_set` is the daemon's business only.
static bool are_equal(const struct bound *a, const struct bound *b)
{
    if (!a || !b)
        return a == b;
    return a->memory == b->memory && a->offset == b->offset && a->size == b->size &&
           a->form.type == b->form.type && a->form.layout == b->form.layout &&
           a->form.w_stride == b->form.w_stride && a->form.h_stride == b->form.h_stride &&
           a->pass_through == b->pass_through && a->stored == b->stored;
}

// Sends one tensor's binding; without one the message has memory 0, which unbinds it.
static void bind_tensor(struct worker_memories *w, uint32_t context, const struct binding *b,
                        uint32_t n_inputs, uint32_t tensor)
{
    const struct bound *p = binding_find(b, tensor);
    bool output = tensor >= n_inputs;
    rknnd_WorkerBind m = {
        .context = context, .output = output, .index = output ? tensor - n_inputs : tensor};
    if (p) {
        m.memory = worker_number(p->memory, is_writable(p->memory, output));
        m.offset = p->offset;
        m.size = p->size;
        m.type = p->form.type;
        m.layout = p->form.layout;
        m.w_stride = p->form.w_stride;
        m.h_stride = p->form.h_stride;
        m.c2 = p->form.c2;
        m.pass_through = p->pass_through;
        m.stored = p->stored;
    }
    send_message(w, MESSAGE_WORKER_BIND, &m, -1);
}

// Memory for intermediate results, from its offset to its end.
static void bind_internal(struct worker_memories *w, uint32_t context, const struct binding *before,
                          const struct binding *now)
{
    struct memory *old = before ? before->internal : NULL, *new = now ? now->internal : NULL;
    if (old == new && (!new || before->internal_offset == now->internal_offset))
        return;
    rknnd_WorkerInternal m = {.context = context};
    if (new) {
        m.memory = worker_number(new, true);
        m.offset = now->internal_offset;
        m.size = new->buffer.size - now->internal_offset;
    }
    send_message(w, MESSAGE_WORKER_INTERNAL, &m, -1);
}

static int pass_all(struct worker_memories *w, const struct binding *b, struct error *e)
{
    int r = b ? worker_pass_memory(w, b->internal, true, e) : 0;
    for (uint32_t i = 0; b && i < b->n_inputs + b->n_outputs && r == 0; i++)
        r = worker_pass_memory(w, b->tensors[i].memory, i >= b->n_inputs, e);
    return r;
}

// All memories are passed first: if that fails, no binding has changed in the worker.
int worker_memories_bind(struct worker_memories *w, uint32_t context, const struct binding *before,
                         const struct binding *now, struct error *e)
{
    const struct binding *any = now ? now : before;
    if (before == now)
        return 0;
    int r = pass_all(w, now, e);
    if (r < 0)
        return r;
    bind_internal(w, context, before, now);
    for (uint32_t i = 0; i < any->n_inputs + any->n_outputs; i++)
        if (!are_equal(binding_find(before, i), binding_find(now, i)))
            bind_tensor(w, context, now, any->n_inputs, i);
    return 0;
}
