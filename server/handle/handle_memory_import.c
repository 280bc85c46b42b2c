// MEMORY_IMPORT: memory that the client has made.
//
//   loop: MEMORY_IMPORT --> thread: memory_map(), which may hang --> loop: memory_import(), answer
//
// The file may be anything, and its owner may let us wait for ever: in fstat() if it is of a file
// system of his (FUSE), in fcntl() while he writes to it. So it is looked at on threads, one for
// each, so that those that hang hinder nobody. Who lets them hang has his part of them in use
// (ACCOUNT_IMPORTS), also when he has gone, and others have theirs.
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/net/discard.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/handle_memory.h"
#include "server/handle/services.h"
#include "server/threads.h"

CLEANUP_DEFINE(struct memory, memory_unref)

struct import {
    struct request request;
    struct task task;
    struct list link; // in imports.all
    struct imports *all;
    struct session *session; // who is charged for it; one reference
    struct memories *memories;
    int fd;
    struct memory_file file;
    struct error error; // code 0: the file is there
};

// On a thread. Closing the file after a failure may hang as well, and may do so here.
static void import_map(struct task *t)
{
    struct import *i = container_of(t, struct import, task);
    i->error.code = memory_map(i->fd, &i->file, &i->error);
    threads_post(t->threads, t);
}

static int import_answer(struct import *i, struct error *e)
{
    cleanup(memory_unref_p) struct memory *memory = NULL;
    rknnd_MemoryInfo info = {0};
    int r = memory_import(i->memories, &i->file, &memory, e);
    if (r == 0)
        r = memory_give_handle(i->request.connection, memory, &info, e);
    if (r == 0)
        request_answer(&i->request, rknnd_MemoryInfo_fields, &info, NULL, 0, NULL, NULL);
    return r;
}

// It does not hang, or nobody counts it any more.
static void import_refund(struct import *i)
{
    i->all->n--;
    list_remove(&i->link);
    account_refund(&i->session->account, ACCOUNT_IMPORTS, 1);
    session_unref(i->session);
}

// On the loop. The client may have gone meanwhile.
static void import_mapped(struct task *t)
{
    struct import *i = container_of(t, struct import, task);
    bool wanted = i->request.connection != NULL;
    import_refund(i);
    if (!wanted && i->error.code == 0)
        npu_buffer_done(&i->file.buffer);
    if (wanted && i->error.code == 0)
        i->error.code = import_answer(i, &i->error);
    if (wanted && i->error.code < 0)
        request_fail(&i->request, &i->error);
    free(i);
}

// Each import under way has a thread.
static int import_charge(const struct connection *c, struct error *e)
{
    struct imports *all = c->services->imports;
    int r = account_charge(&c->session->account, ACCOUNT_IMPORTS, 1, e);
    if (r < 0)
        return r;
    r = threads_grow(all->threads, all->n + 1, e);
    if (r < 0)
        account_refund(&c->session->account, ACCOUNT_IMPORTS, 1);
    return r;
}

// The descriptor came with the frame, which Unix sockets allow only.
int handle_memory_import(struct connection *c, const struct frame_header *h,
                         const union message_any *any, struct error *e)
{
    struct imports *all = c->services->imports;
    (void)any;
    int fd = c->features & PROTOCOL_FEATURE_FDS ? frame_reader_take_fd(&c->channel.reader) : -1;
    if (fd < 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "no file descriptor came with MEMORY_IMPORT, none was agreed on, or the "
                         "server has as many files open as it may");
    int r = import_charge(c, e);
    struct import *i = r == 0 ? calloc(1, sizeof *i) : NULL;
    if (!i) {
        if (r == 0) {
            account_refund(&c->session->account, ACCOUNT_IMPORTS, 1);
            r = error_no_memory(e, "a memory", sizeof *i);
        }
        discard_fd(fd);
        return r;
    }
    *i = (struct import){.all = all,
                         .session = session_ref(c->session),
                         .memories = c->services->memories,
                         .fd = fd,
                         .task = {.work = import_map, .finish = import_mapped}};
    request_begin(&i->request, &c->requests, h, NULL);
    all->n++;
    list_append(&all->all, &i->link);
    threads_do(all->threads, &i->task);
    return 0;
}

void imports_init(struct imports *all)
{
    list_init(&all->all);
}

int imports_start(struct imports *all, uv_loop_t *loop, struct error *e)
{
    return threads_new(loop, &all->threads, e);
}

// What hangs is left alone, with what it uses, and is nobody's any more.
void imports_stop(struct imports *all)
{
    struct threads *threads = steal_ptr(all->threads);
    bool hangs = all->n > 0;
    struct import *i;
    while ((i = list_first(&all->all, struct import, link)))
        import_refund(i);
    if (threads && hangs)
        threads_abandon(threads, NULL, NULL);
    else if (threads)
        threads_free(threads, NULL, NULL);
}
