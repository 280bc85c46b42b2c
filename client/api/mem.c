// Memories: rknn_create_mem and its relatives, rknn_destroy_mem, and what servers know of each
// (mem.h).
//
//     mem ── homes ─► mem_home: (session A, handle 3, the same file)
//                     mem_home: (session B, handle 7, a copy)
//
// A program names a memory by the address of its rknn_tensor_mem. The table of all memories makes
// an address that is none, or no longer one, an error instead of a crash. Its lock guards the
// references; m->lock what follows it in the struct. Freed with the last reference: the program's,
// or a binding's.
#include "client/api/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dmabuf.h"
#include "base/fd.h"
#include "client/fork.h"
#include "client/last_error.h"

#define ALLOC_FLAGS                                                                                \
    (RKNN_FLAG_MEMORY_CACHEABLE | RKNN_FLAG_MEMORY_NON_CACHEABLE | RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM)

static struct {
    pthread_mutex_t lock;
    struct list all;
} table = {PTHREAD_MUTEX_INITIALIZER, {&table.all, &table.all}};

// ---- life --------------------------------------------------------------------------------------

// A memory with one reference, the program's; neither file nor mapping yet.
static int mem_new(uint32_t flags, uint64_t size, struct mem **ret, struct error *e)
{
    fork_prepare();
    if (size == 0 || size > UINT32_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "a memory of %llu bytes: 1 to 4294967295",
                         (unsigned long long)size);
    struct mem *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a memory", sizeof *m);
    *m = (struct mem){.program = {.size = (uint32_t)size, .flags = flags, .priv_data = m, .fd = -1},
                      .refs = 1,
                      .fd = -1,
                      .size = (uint32_t)size};
    pthread_mutex_init(&m->lock, NULL);
    list_init(&m->homes);
    list_init(&m->link);
    *ret = m;
    return 0;
}

// Enters a finished memory into the table: from here on the program has it.
static rknn_tensor_mem *mem_publish(struct mem *m)
{
    pthread_mutex_lock(&table.lock);
    list_append(&table.all, &m->link);
    pthread_mutex_unlock(&table.lock);
    return &m->program;
}

// Compares addresses only; *program may be freed memory. table.lock is held.
static struct mem *mem_find(const rknn_tensor_mem *program)
{
    struct mem *m;
    list_for_each (m, &table.all, link)
        if (&m->program == program)
            return m;
    return NULL;
}

static int no_memory_of_ours(struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID,
                     "the memory is none that rknn_create_mem and its relatives made, or was "
                     "destroyed already");
}

// The program's struct is its own to write to. A smaller size is kept to; an offset that is not
// where the data are, or a size beyond their end, would be passed over.
static int check_program(const struct mem *m, struct error *e)
{
    const rknn_tensor_mem *p = &m->program;
    if (p->size <= m->size && p->offset == (int32_t)m->offset)
        return 0;
    return error_set(
        e, STATUS_PARAM_INVALID,
        "the memory was made with offset %d and %u bytes, its struct has offset %d and "
        "%u bytes: make one of that part by rknn_create_mem_from_fd() with its fd",
        (int)m->offset, m->size, p->offset, p->size);
}

struct mem *mem_take(const rknn_tensor_mem *program, struct error *e)
{
    pthread_mutex_lock(&table.lock);
    struct mem *m = mem_find(program);
    int r = m ? check_program(m, e) : no_memory_of_ours(e);
    if (m && r == 0)
        m->refs++;
    pthread_mutex_unlock(&table.lock);
    return r == 0 ? m : NULL;
}

// The server forgets its side, told by any context of the same session. Without one it frees the
// memory at the session's end.
static void free_home(struct mem_home *h)
{
    struct context *c = context_of_session(h->session, h->secret);
    rknnd_MemoryFree message = {.memory = h->handle};
    struct request r = {.type = MESSAGE_MEMORY_FREE};
    struct error unwanted;
    if (c)
        connection_call(c->connection, &r, &message, &unwanted);
    context_leave(c);
    list_remove(&h->link);
    free(h->shadow);
    free(h);
}

// No lock is held: free_home() enters contexts.
static void mem_free(struct mem *m)
{
    while (!list_empty(&m->homes))
        free_home(list_first(&m->homes, struct mem_home, link));
    if (m->map)
        munmap(m->map, m->map_size);
    fd_close(m->fd);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void mem_put(struct mem *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&table.lock);
    bool last = --m->refs == 0;
    pthread_mutex_unlock(&table.lock);
    if (last)
        mem_free(m);
}

// Maps from the file's start, since offset need not be a multiple of the page size.
static int map_file(struct mem *m, struct error *e)
{
    size_t size = (size_t)(m->offset + m->program.size);
    uint8_t *map = fd_map(m->fd, size, e);
    if (!map)
        return STATUS_MALLOC_FAIL;
    m->map = map;
    m->map_size = size;
    return 0;
}

// Maps the file when it is needed first: rknn_create_mem_from_fd() has the program's own mapping,
// which need not start at offset 0.
int mem_data(struct mem *m, uint8_t **ret, struct error *e)
{
    int r = m->map ? 0 : map_file(m, e);
    if (r == 0)
        *ret = m->map + m->offset;
    return r;
}

int mem_to_device(const struct mem *m, struct error *e)
{
    return m->dmabuf ? dmabuf_to_device(m->fd, e) : 0;
}

int mem_from_device(const struct mem *m, struct error *e)
{
    return m->dmabuf ? dmabuf_from_device(m->fd, e) : 0;
}

// A program may have written to a dma-buf by its cached mapping, and a device past the caches: both
// are brought together before the data is read here.
int mem_before_copy(const struct mem *m, struct error *e)
{
    int r = mem_to_device(m, e);
    return r < 0 ? r : mem_from_device(m, e);
}

struct bound *mem_bound_copy(const struct context *c, bool output, uint32_t i)
{
    struct bound *b = context_bound(c, output, i);
    return b && !b->home->shared ? b : NULL;
}

void mem_before_fork(void)
{
    pthread_mutex_lock(&table.lock);
}

void mem_after_fork(bool child)
{
    (void)child;
    pthread_mutex_unlock(&table.lock);
}

// ---- what servers know -------------------------------------------------------------------------

static struct mem_home *find_home(const struct mem *m, const rknnd_HelloReply *peer)
{
    struct mem_home *h;
    list_for_each (h, &m->homes, link)
        if (h->session == peer->session &&
            memcmp(h->secret, peer->session_secret.bytes, sizeof h->secret) == 0)
            return h;
    return NULL;
}

// Notes what a session knows of the memory. In a copy the data is at offset 0.
static int add_home(struct context *c, struct mem *m, uint64_t handle, bool shared,
                    struct mem_home **ret, struct error *e)
{
    const rknnd_HelloReply *peer = &c->connection->peer;
    struct mem_home *h = calloc(1, sizeof *h);
    if (!h)
        return error_no_memory(e, "a memory", sizeof *h);
    h->session = peer->session;
    memcpy(h->secret, peer->session_secret.bytes, sizeof h->secret);
    h->handle = handle;
    h->shared = shared;
    h->offset = shared ? m->offset : 0;
    list_append(&m->homes, &h->link);
    *ret = h;
    return 0;
}

static bool passes_fds(const struct context *c)
{
    return c->connection->peer.features & PROTOCOL_FEATURE_FDS;
}

// The server maps the same file. It refuses (STATUS_PARAM_INVALID) files that could be truncated,
// which would kill whoever touches their mapping.
static int mem_share_file(struct context *c, struct mem *m, struct mem_home **ret, struct error *e)
{
    rknnd_MemoryInfo info;
    struct request r = {.type = MESSAGE_MEMORY_IMPORT, .reply = &info, .send_fd = &m->fd};
    int s = connection_call(c->connection, &r, &(rknnd_Empty){0}, e);
    return s < 0 ? s : add_home(c, m, info.memory, true, ret, e);
}

// Memory of the server's own of the same size, to which mem_copy.c brings what changes.
static int make_copy(struct context *c, struct mem *m, struct mem_home **ret, struct error *e)
{
    rknnd_MemoryCreate message = {.size = m->program.size};
    rknnd_MemoryInfo info;
    struct request r = {.type = MESSAGE_MEMORY_CREATE, .reply = &info};
    uint8_t *data;
    int s = mem_data(m, &data, e);
    if (s == 0)
        s = connection_call(c->connection, &r, &message, e);
    return s == 0 ? add_home(c, m, info.memory, false, ret, e) : s;
}

// A copy where no descriptor passes or the server refuses the file; other errors are reported.
static int make_home(struct context *c, struct mem *m, struct mem_home **ret, struct error *e)
{
    int r = passes_fds(c) ? mem_share_file(c, m, ret, e) : STATUS_PARAM_INVALID;
    return r == STATUS_PARAM_INVALID ? make_copy(c, m, ret, e) : r;
}

int mem_home(struct context *c, struct mem *m, struct mem_home **ret, struct error *e)
{
    pthread_mutex_lock(&m->lock);
    struct mem_home *h = find_home(m, &c->connection->peer);
    int r = h ? 0 : make_home(c, m, &h, e);
    pthread_mutex_unlock(&m->lock);
    if (r == 0)
        *ret = h;
    return r;
}

// As mem_home(), but *ret is NULL where the memory cannot be shared: no copy is made.
int mem_share(struct context *c, struct mem *m, struct mem_home **ret, struct error *e)
{
    pthread_mutex_lock(&m->lock);
    struct mem_home *h = find_home(m, &c->connection->peer);
    int r = h || !passes_fds(c) ? 0 : mem_share_file(c, m, &h, e);
    pthread_mutex_unlock(&m->lock);
    if (r < 0 && r != STATUS_PARAM_INVALID)
        return r;
    *ret = h && h->shared ? h : NULL;
    return 0;
}

// ---- making ------------------------------------------------------------------------------------

// Whether the file reaches to `end`; a mapping beyond it would raise SIGBUS.
static int check_file(int fd, uint64_t end, struct error *e)
{
    uint64_t size;
    int r = fd_size(fd, &size, e);
    if (r == 0 && size < end)
        r = error_set(e, STATUS_PARAM_INVALID,
                      "the file behind descriptor %d has %llu bytes, offset and size need %llu", fd,
                      (unsigned long long)size, (unsigned long long)end);
    return r;
}

// A server may be anybody's. The program writes to what it passes, and would end by a signal where
// that is too short, becomes shorter, or cannot be written.
static int check_passed(const struct context *c, struct mem *m, struct error *e)
{
    int r = m->dmabuf ? 0 : fd_check_stays(m->fd, e);
    if (r == 0)
        r = fd_check_writable(m->fd, STATUS_FAIL, e);
    if (r == 0)
        r = check_file(m->fd, m->program.size, e);
    if (r == 0)
        return 0;
    fd_close_passed(m->fd);
    m->fd = -1;
    e->code = STATUS_FAIL;
    return error_prefix(e, "server %s passed something else than memory", c->connection->uri);
}

// The server allocates (it may have memory that devices can use) and passes the descriptor, which
// is mapped here.
static int create_there(struct context *c, struct mem *m, uint32_t flags, struct error *e)
{
    rknnd_MemoryCreate message = {.size = m->program.size, .flags = flags};
    rknnd_MemoryInfo info;
    struct mem_home *unwanted;
    struct request r = {.type = MESSAGE_MEMORY_CREATE, .reply = &info, .take_fd = &m->fd};
    int s = connection_call(c->connection, &r, &message, e);
    if (s < 0)
        return s;
    s = add_home(c, m, info.memory, true, &unwanted, e);
    if (s < 0)
        return s;
    if (m->fd < 0) // the server's side goes with m
        return error_set(e, STATUS_FAIL,
                         "the memory's file descriptor was lost on its way from server %s: this "
                         "process has as many files open as it may; close some, or raise the "
                         "limit (ulimit -n)",
                         c->connection->uri);
    m->dmabuf = dmabuf_is(m->fd);
    return check_passed(c, m, e);
}

// A sealed memfd: it cannot shrink, so servers may map it.
static int create_here(struct mem *m, struct error *e)
{
    void *map;
    m->fd = fd_memory_sealed("rknn-mem", m->program.size, 0, &map, e);
    if (m->fd < 0)
        return m->fd;
    m->map = map;
    m->map_size = m->program.size;
    return 0;
}

// On the server's side where descriptors pass; else here, and the server will have a copy.
static int mem_create(rknn_context context, uint64_t size, uint64_t flags, struct mem **ret,
                      struct error *e)
{
    cleanup(mem_put_p) struct mem *m = NULL;
    cleanup(context_leave_p) struct context *c = NULL;
    bool alone = flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT;
    flags &= ~(uint64_t)RKNN_MEM_FLAG_ALLOC_NO_CONTEXT;
    if (flags & ~(uint64_t)ALLOC_FLAGS)
        return error_set(e, STATUS_PARAM_INVALID, "allocation flags 0x%llx are not known",
                         (unsigned long long)flags);
    int r = mem_new(RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE, size, &m, e);
    if (r == 0 && !(alone && !context))
        r = context_enter(context, &c, e);
    if (r == 0)
        r = c && passes_fds(c) ? create_there(c, m, (uint32_t)flags, e) : create_here(m, e);
    if (r == 0 && !m->map)
        r = map_file(m, e);
    if (r < 0)
        return r;
    m->program.virt_addr = m->map;
    m->program.fd = m->fd;
    *ret = steal_ptr(m);
    return 0;
}

static rknn_tensor_mem *mem_answer(const char *function, int r, struct mem *m, struct error *e)
{
    last_error_keep(function, r, e);
    return r == 0 ? mem_publish(m) : NULL;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size)
{
    struct error e;
    struct mem *m = NULL;
    int r = mem_create(ctx, size, 0, &m, &e);
    return mem_answer("rknn_create_mem", r, m, &e);
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags)
{
    struct error e;
    struct mem *m = NULL;
    int r = mem_create(ctx, size, alloc_flags, &m, &e);
    return mem_answer("rknn_create_mem2", r, m, &e);
}

// Keeps a duplicate of the descriptor: the program may close its own.
static int from_fd(rknn_context context, int fd, void *virt_addr, uint32_t size, int32_t offset,
                   struct mem **ret, struct error *e)
{
    cleanup(mem_put_p) struct mem *m = NULL;
    cleanup(context_leave_p) struct context *c = NULL;
    if (offset < 0 || !virt_addr)
        return error_set(e, STATUS_PARAM_INVALID, "virt_addr is %p, offset %d", virt_addr, offset);
    int r = check_file(fd, (uint64_t)offset + size, e);
    if (r == 0)
        r = context_enter(context, &c, e);
    if (r == 0)
        r = mem_new(RKNN_TENSOR_MEMORY_FLAGS_FROM_FD, size, &m, e);
    if (r != 0)
        return r;
    m->offset = (uint64_t)offset;
    m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (m->fd < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "file descriptor %d", fd);
    m->dmabuf = dmabuf_is(fd);
    m->program.virt_addr = virt_addr;
    m->program.fd = fd;
    m->program.offset = offset;
    *ret = steal_ptr(m);
    return 0;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr,
                                                     uint32_t size, int32_t offset)
{
    struct error e;
    struct mem *m = NULL;
    int r = from_fd(ctx, fd, virt_addr, size, offset, &m, &e);
    return mem_answer("rknn_create_mem_from_fd", r, m, &e);
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr,
                                                       void *virt_addr, uint32_t size)
{
    struct error e;
    (void)ctx, (void)virt_addr, (void)size;
    int r =
        error_set(&e, STATUS_PARAM_INVALID,
                  "physical address 0x%llx: memory that another process has to reach is named by "
                  "a file descriptor; use rknn_create_mem_from_fd",
                  (unsigned long long)phys_addr);
    return mem_answer("rknn_create_mem_from_phys", r, NULL, &e);
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk,
                                                         int32_t offset)
{
    struct error e;
    (void)ctx, (void)mb_blk, (void)offset;
    int r = error_set(&e, STATUS_FAIL,
                      "media blocks are not known, nor does the vendor's runtime "
                      "know them; use rknn_create_mem_from_fd");
    return mem_answer("rknn_create_mem_from_mb_blk", r, NULL, &e);
}

// ---- the end -----------------------------------------------------------------------------------

// The program gives it up. Tensors that are bound to it keep it until they are unbound, so the
// context does not matter.
static int mem_destroy(rknn_tensor_mem *program, struct error *e)
{
    pthread_mutex_lock(&table.lock);
    struct mem *m = mem_find(program);
    if (m)
        list_remove(&m->link);
    pthread_mutex_unlock(&table.lock);
    if (!m)
        return no_memory_of_ours(e);
    mem_put(m);
    return 0;
}

RKNN_EXPORT int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    struct error e;
    (void)ctx;
    return last_error_keep("rknn_destroy_mem", mem_destroy(mem, &e), &e);
}

RKNN_EXPORT int rknn_destory_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    return rknn_destroy_mem(ctx, mem);
}
