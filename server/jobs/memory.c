// Memories and the handles of sessions.
//
// A memory is known by its file (device and inode) and by how that is open, so that one which is
// imported twice, by one program or by two, is one memory with two handles, and whoever has a file
// for reading alone cannot write to it through another's descriptor. Handles count against the
// session and its user; references (handles, bindings, runs) keep the mapping. When the last
// reference goes, workers that have it mapped are told through memory_user.gone().
#include "server/jobs/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/dmabuf.h"
#include "base/fd.h"
#include "server/clients/user.h"
#include "server/jobs/giveback.h"

void memories_init(struct memories *all)
{
    *all = (struct memories){0};
    list_init(&all->all);
}

// Device and inode, so that importing the file later finds this memory.
static int memory_identify(struct memory_file *f, struct error *e)
{
    struct stat st;
    if (fstat(f->buffer.fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "the file descriptor of the memory");
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->dmabuf = dmabuf_is(f->buffer.fd);
    f->read_only = fd_is_read_only(f->buffer.fd);
    return 0;
}

static int memory_new(struct memories *all, struct memory_file *f, struct memory **ret,
                      struct error *e)
{
    struct memory *m = calloc(1, sizeof *m);
    if (!m) {
        npu_buffer_done(&f->buffer);
        return error_no_memory(e, "a memory", sizeof *m);
    }
    *m = (struct memory){.memories = all,
                         .refs = 1,
                         .id = ++all->last_id,
                         .buffer = f->buffer,
                         .device = f->device,
                         .inode = f->inode,
                         .dmabuf = f->dmabuf,
                         .read_only = f->read_only};
    f->buffer = (struct npu_buffer){.fd = -1};
    list_init(&m->users);
    list_append(&all->all, &m->link);
    all->bytes += m->buffer.size;
    *ret = m;
    return 0;
}

int memory_adopt(struct memories *all, struct npu_buffer *b, struct memory **ret, struct error *e)
{
    struct memory_file f = {.buffer = *b};
    *b = (struct npu_buffer){.fd = -1};
    int r = memory_identify(&f, e);
    if (r < 0) {
        npu_buffer_done(&f.buffer);
        return r;
    }
    if (!f.dmabuf)
        fd_hide(f.buffer.fd);
    return memory_new(all, &f, ret, e);
}

// A file that memory_map() takes has an inode of its own. Those of dma-bufs before Linux 5.3 are
// not their own, as those of other anonymous files are not; it does not take them.
static struct memory *find_file(struct memories *all, const struct memory_file *f)
{
    struct memory *m;
    list_for_each (m, &all->all, link)
        if (m->device == f->device && m->inode == f->inode && m->read_only == f->read_only)
            return m;
    return NULL;
}

// A memfd must not shrink while it is mapped, since access beyond its end raises SIGBUS. A dma-buf
// has a fixed size.
int memory_map(int fd, struct memory_file *ret, struct error *e)
{
    cleanup(fd_close_p) int file = fd;
    struct memory_file f = {.buffer.fd = fd};
    uint64_t size;
    int r = memory_identify(&f, e);
    if (r == 0 && !f.dmabuf)
        r = fd_check_stays(fd, e);
    if (r == 0)
        r = fd_size(fd, &size, e);
    if (r != 0)
        return r;
    if (!f.dmabuf)
        fd_hide(fd); // known to be a memfd: no other file's rights are ours to change
    f.read_only = fd_is_read_only(fd); // its owner may have sealed it meanwhile
    f.buffer.map = fd_map(fd, size, e);
    if (!f.buffer.map)
        return STATUS_MALLOC_FAIL;
    f.buffer.size = size;
    *ret = f;
    steal_fd(&file);
    return 0;
}

int memory_import(struct memories *all, struct memory_file *f, struct memory **ret, struct error *e)
{
    struct memory *known = find_file(all, f);
    if (!known)
        return memory_new(all, f, ret, e);
    npu_buffer_done(&f->buffer);
    *ret = memory_ref(known);
    return 0;
}

struct memory *memory_ref(struct memory *m)
{
    m->refs++;
    return m;
}

// Handles are charged to sessions. What a binding or a run keeps after the last of them is charged
// to the user whose that was: else who binds a memory and frees its handle could have any number.
static void memory_set_payer(struct memory *m, struct user *payer)
{
    if (m->payer)
        account_refund(&m->payer->account, ACCOUNT_BYTES, m->buffer.size);
    user_unref(m->payer);
    m->payer = payer ? user_ref(payer) : NULL;
    if (payer)
        account_count(&payer->account, ACCOUNT_BYTES, &(uint64_t){0}, m->buffer.size);
}

// gone() takes the user out of the list and frees it.
void memory_unref(struct memory *m)
{
    if (!m || --m->refs > 0)
        return;
    while (!list_empty(&m->users)) {
        struct memory_user *u = list_first(&m->users, struct memory_user, in_memory);
        u->gone(u);
    }
    list_remove(&m->link);
    m->memories->bytes -= m->buffer.size;
    give_back(m->memories->givebacks,
              &(struct giveback_memory){m->buffer.map, m->buffer.size, m->buffer.fd}, m->payer,
              ACCOUNT_BYTES);
    memory_set_payer(m, NULL);
    free(m);
}

// ---- handles -----------------------------------------------------------------------------------

static void free_slot(struct memory_table *t, struct memory_slot *s)
{
    t->bytes -= s->memory->buffer.size;
    t->n_memories--;
    if (--s->memory->n_handles == 0)
        memory_set_payer(s->memory, t->user);
    memory_unref(s->memory);
    s->memory = NULL;
}

void memory_table_done(struct memory_table *t)
{
    for (uint32_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].memory)
            free_slot(t, &t->slots[i]);
    free(t->slots);
    *t = (struct memory_table){.user = t->user};
}

static int memory_table_grow(struct memory_table *t, struct error *e)
{
    uint32_t n = t->n_slots;
    int r = array_reserve(t->slots, t->n_slots, n + 1, "a session's memories", e);
    if (r == 0)
        memset(t->slots + n, 0, (t->n_slots - n) * sizeof *t->slots);
    return r;
}

// A handle is, from high to low, a generation that never repeats soon (32 bits) and the slot's
// index plus one (32 bits). So 0 is no handle, and a stale handle does not hit the slot's next
// owner.
int memory_table_add(struct memory_table *t, struct memory *m, uint64_t *ret_handle,
                     struct error *e)
{
    uint32_t i = 0;
    while (i < t->n_slots && t->slots[i].memory)
        i++;
    int r = i == t->n_slots ? memory_table_grow(t, e) : 0;
    if (r < 0)
        return r;
    uint64_t handle = (uint64_t)++t->generation << 32 | (i + 1);
    t->slots[i] = (struct memory_slot){memory_ref(m), handle};
    if (m->n_handles++ == 0)
        memory_set_payer(m, NULL);
    t->n_memories++;
    t->bytes += m->buffer.size;
    *ret_handle = handle;
    return 0;
}

static struct memory_slot *memory_table_slot(const struct memory_table *t, uint64_t handle,
                                             struct error *e)
{
    uint32_t i = (uint32_t)handle - 1;
    struct memory_slot *s = (uint32_t)handle && i < t->n_slots ? &t->slots[i] : NULL;
    if (s && s->memory && s->handle == handle)
        return s;
    error_set(e, STATUS_PARAM_INVALID, "there is no memory 0x%llx in this session",
              (unsigned long long)handle);
    return NULL;
}

struct memory *memory_table_find(const struct memory_table *t, uint64_t handle, struct error *e)
{
    struct memory_slot *s = memory_table_slot(t, handle, e);
    return s ? s->memory : NULL;
}

int memory_table_free(struct memory_table *t, uint64_t handle, struct error *e)
{
    struct memory_slot *s = memory_table_slot(t, handle, e);
    if (!s)
        return STATUS_PARAM_INVALID;
    free_slot(t, s);
    return 0;
}
