// MEMORY_CREATE: makes memory on a thread, because the kernel takes its time to find and clear
// large amounts. (libuv's own threads are waited for where work is given to them, if they have lost
// the processor.)
//
// Bytes are reserved while the thread works, so that several requests at once cannot exceed the
// limits. The client may go meanwhile: `session` is NULL then, and the result is dropped.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/handle_memory.h"
#include "server/handle/services.h"
#include "server/threads.h"

#define MEMORY_FLAGS 7u // RKNN_FLAG_MEMORY_CACHEABLE, NON_CACHEABLE, TRY_ALLOC_SRAM

CLEANUP_DEFINE(struct memory, memory_unref)

struct creation {
    struct request request;
    struct task task;
    struct creations *all;
    struct memories *memories;
    struct session *session; // where the memory is reserved; NULL: it is not any more
    uint64_t size;
    struct npu_buffer buffer;
    struct error error; // code 0: the buffer is there
};

// ---- what is counted while it is made ----------------------------------------------------------

// Takes the bytes from the user's quota and from the session's limit.
static int creation_reserve(struct creation *m, struct session *s, struct error *e)
{
    int r = memory_charge(&s->account, m->size, e);
    if (r < 0)
        return r;
    s->memories.n_reserved++;
    s->memories.reserved += m->size;
    m->session = s;
    return 0;
}

// Ends the reservation. Safe to repeat.
static void creation_give_back(struct creation *m)
{
    struct session *s = steal_ptr(m->session);
    if (!s)
        return;
    memory_refund(&s->account, m->size);
    s->memories.n_reserved--;
    s->memories.reserved -= m->size;
}

static void creation_free(struct creation *m)
{
    m->all->n--;
    npu_buffer_done(&m->buffer);
    free(m);
}

// The reservation must end now, as the session may be freed; the thread may be at work still.
static void on_abandoned(struct request *r)
{
    struct creation *m = container_of(r, struct creation, request);
    creation_give_back(m);
    if (threads_take_back(m->all->threads, &m->task))
        creation_free(m);
}

// ---- the work ----------------------------------------------------------------------------------

// On the thread.
static void creation_make(struct task *t)
{
    struct creation *m = container_of(t, struct creation, task);
    npu_buffer_new(&m->memories->buffers, m->size, &m->buffer, &m->error);
    threads_post(t->threads, t);
}

// Gives the memory a handle and passes a descriptor of it where the client can take one.
static int creation_answer(struct creation *m, struct error *e)
{
    cleanup(memory_unref_p) struct memory *memory = NULL;
    struct connection *c = m->request.connection;
    rknnd_MemoryInfo info = {0};
    int fd = -1, r = memory_adopt(m->memories, &m->buffer, &memory, e);
    if (r < 0)
        return r;
    if (c->features & PROTOCOL_FEATURE_FDS)
        r = passed_add(&c->passed, c->user, transport_passes(c->channel.transport),
                       channel_backlog(&c->channel) > 0, e);
    if (r < 0)
        return r;
    if ((c->features & PROTOCOL_FEATURE_FDS) &&
        (fd = fcntl(memory->buffer.fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "cannot pass memory");
    r = memory_give_handle(c, memory, &info, e);
    if (r == 0)
        request_answer_fd(&m->request, rknnd_MemoryInfo_fields, &info, fd);
    else
        fd_close(fd);
    return r;
}

// On the loop. The reservation is replaced by what the handle counts. The buffer is empty here if a
// memory has adopted it.
static void on_made(struct task *t)
{
    struct creation *m = container_of(t, struct creation, task);
    bool wanted = m->session != NULL;
    creation_give_back(m);
    if (wanted && m->error.code == 0)
        creation_answer(m, &m->error);
    if (wanted && m->error.code < 0)
        request_fail(&m->request, &m->error);
    creation_free(m);
}

// One thread was there from the start; of more there may be none, where the system allows no
// others, and then this one makes them one after the other.
static void creation_begin(struct creations *all, struct creation *m)
{
    m->all = all;
    m->task = (struct task){.work = creation_make, .finish = on_made};
    all->n++;
    if (all->n <= CREATORS_MAX)
        threads_grow(all->threads, all->n, NULL);
    threads_do(all->threads, &m->task);
}

// Limits are checked before anything is allocated.
int handle_memory_create(struct connection *c, const struct frame_header *h,
                         const union message_any *any, struct error *e)
{
    const rknnd_MemoryCreate *request = &any->MEMORY_CREATE_request;
    if (request->flags & ~MEMORY_FLAGS)
        return error_set(e, STATUS_PARAM_INVALID, "memory flags 0x%x are not known",
                         request->flags);
    if (request->size == 0)
        return error_set(e, STATUS_PARAM_INVALID, "a memory of 0 bytes");
    int r = memory_check_room(c, request->size, e);
    if (r < 0)
        return r;
    struct creation *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a memory", sizeof *m);
    m->memories = c->services->memories;
    m->size = request->size;
    m->buffer.fd = -1;
    r = creation_reserve(m, c->session, e);
    if (r < 0) {
        free(m);
        return r;
    }
    request_begin(&m->request, &c->requests, h, on_abandoned);
    creation_begin(c->services->creations, m);
    return 0;
}

int creations_start(struct creations *all, uv_loop_t *loop, struct error *e)
{
    return threads_new(loop, &all->threads, e);
}

static void on_threads_gone(void *owner)
{
    struct creations *all = owner;
    all->threads = NULL;
}

// Those under way may be abandoned still.
void creations_stop(struct creations *all)
{
    if (all->threads)
        threads_free(all->threads, on_threads_gone, all);
}
