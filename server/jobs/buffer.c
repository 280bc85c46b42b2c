// Buffers of jobs.
//
// Allocating and zeroing shared memory costs more than a small inference, so buffers are kept: the
// last one that was used comes first, its pages are still in the caches. Nobody is charged for
// those that are idle, so of all pools only the last ones stay. The pool outlives its owner while
// buffers are in use, because a reply may still be on its way out of one.
#include "server/jobs/buffer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "server/jobs/giveback.h"

#define SMALLEST 4096u
#define LARGEST  ((uint64_t)PTRDIFF_MAX / 2)

struct buffer_pool {
    bool shared, freed;
    struct list idle; // the last used one last
    unsigned n_idle, n_buffers;
    uint32_t last_id;
    struct buffer_totals *totals;
    void (*forget)(struct buffer *b, void *owner);
    void *owner;
};

// Rounds up to a quarter of the power of two below, at least SMALLEST, so that jobs of nearly the
// same size share buffers and at most a fifth is wasted: 33 KB to 40 KB, 65 KB to 80 KB. 0: too
// large for any buffer.
static uint64_t size_class(uint64_t size)
{
    if (size > LARGEST)
        return 0;
    if (size <= SMALLEST)
        return SMALLEST;
    uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(size - 1)); // below size
    uint64_t step = power / 4 > SMALLEST ? power / 4 : SMALLEST;
    return align_up(size, step);
}

struct buffer_pool *buffer_pool_new(bool shared, struct buffer_totals *totals)
{
    struct buffer_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->shared = shared;
    p->totals = totals;
    list_init(&p->idle);
    return p;
}

// One listener is enough: the runner that the pool belongs to.
void buffer_pool_on_forget(struct buffer_pool *p, void (*forget)(struct buffer *b, void *owner),
                           void *owner)
{
    p->forget = forget;
    p->owner = owner;
}

// ---- one buffer --------------------------------------------------------------------------------

// Inputs get F_SEAL_FUTURE_WRITE as their last seal, which kernels before 5.1 lack. Workers map
// them read-only in any case.
static int map_shared(const char *name, uint64_t size, int last_seal, int *ret_fd, uint8_t **ret,
                      struct error *e)
{
    void *memory;
    int fd = fd_memory_sealed(name, size, last_seal, &memory, e);
    if (fd < 0)
        return fd;
    *ret = memory;
    *ret_fd = fd;
    return 0;
}

static int map_private(uint64_t size, uint8_t **ret, struct error *e)
{
    void *memory = MAP_FAILED;
    errno = ENOMEM;
    if (size <= PTRDIFF_MAX)
        memory =
            mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "%llu bytes for a job",
                               (unsigned long long)size);
    *ret = memory;
    return 0;
}

// Also of a buffer that is half mapped: what is missing is NULL or -1.
static void buffer_unmap(struct buffer *b)
{
    struct givebacks *to = b->pool->totals->givebacks;
    give_back(to, &(struct giveback_memory){b->input, b->input_size, b->input_fd}, NULL, 0);
    give_back(to, &(struct giveback_memory){b->output, b->output_size, b->output_fd}, NULL, 0);
}

static int buffer_map(struct buffer *b, bool shared, struct error *e)
{
    int r;
    if (shared) {
        r = map_shared("rknnd-in", b->input_size, F_SEAL_FUTURE_WRITE, &b->input_fd, &b->input, e);
        if (r == 0)
            r = map_shared("rknnd-out", b->output_size, 0, &b->output_fd, &b->output, e);
    } else {
        r = map_private(b->input_size, &b->input, e);
        if (r == 0)
            r = map_private(b->output_size, &b->output, e);
    }
    if (r < 0)
        buffer_unmap(b);
    return r;
}

static uint64_t buffer_size(const struct buffer *b)
{
    return b->input_size + b->output_size;
}

// Sizes are those of the class, not of the job, so that any job of the class can use the buffer.
static int buffer_new(struct buffer_pool *p, uint64_t input_size, uint64_t output_size,
                      struct buffer **ret, struct error *e)
{
    struct buffer *b = malloc(sizeof *b);
    if (!b)
        return error_no_memory(e, "a buffer", sizeof *b);
    *b = (struct buffer){.pool = p,
                         .id = ++p->last_id,
                         .input_fd = -1,
                         .output_fd = -1,
                         .input_size = input_size,
                         .output_size = output_size};
    list_init(&b->link);
    list_init(&b->in_totals);
    int r = buffer_map(b, p->shared, e);
    if (r < 0) {
        free(b);
        return r;
    }
    p->n_buffers++;
    p->totals->bytes += input_size + output_size;
    *ret = b;
    return 0;
}

// The listener first, while the buffer still has its number.
static void buffer_free(struct buffer *b)
{
    struct buffer_pool *p = b->pool;
    if (p->forget)
        p->forget(b, p->owner);
    buffer_unmap(b);
    p->totals->bytes -= buffer_size(b);
    p->n_buffers--;
    free(b);
}

// ---- the pool ----------------------------------------------------------------------------------

static void take_idle(struct buffer *b)
{
    struct buffer_totals *t = b->pool->totals;
    list_remove(&b->link);
    list_remove(&b->in_totals);
    b->pool->n_idle--;
    t->n_idle--;
    t->idle_bytes -= buffer_size(b);
}

static void put_idle(struct buffer *b)
{
    struct buffer_totals *t = b->pool->totals;
    list_append(&b->pool->idle, &b->link);
    list_append(&t->idle, &b->in_totals);
    b->pool->n_idle++;
    t->n_idle++;
    t->idle_bytes += buffer_size(b);
}

void buffer_totals_init(struct buffer_totals *t, unsigned most, uint64_t bytes)
{
    *t = (struct buffer_totals){.most_idle = most, .most_idle_bytes = bytes};
    list_init(&t->idle);
}

// Of all pools, also of those that are not used now: a worker that stays loaded would else keep as
// many as it ever had runs at the same time, and nobody is charged for them.
static void totals_trim(struct buffer_totals *t)
{
    while (t->n_idle > t->most_idle || t->idle_bytes > t->most_idle_bytes) {
        struct buffer *b = list_first(&t->idle, struct buffer, in_totals);
        take_idle(b);
        buffer_free(b);
    }
}

void buffer_pool_trim(struct buffer_pool *p, unsigned keep)
{
    while (p->n_idle > keep) {
        struct buffer *b = list_first(&p->idle, struct buffer, link);
        take_idle(b);
        buffer_free(b);
    }
}

// Buffers that are in use keep the pool; buffer_unref() frees it with the last of them.
void buffer_pool_free(struct buffer_pool *p)
{
    if (!p)
        return;
    p->forget = NULL;
    p->freed = true;
    buffer_pool_trim(p, 0);
    if (p->n_buffers == 0)
        free(p);
}

// From the end of the list, where the buffers are that were used last.
static struct buffer *find_idle(struct buffer_pool *p, uint64_t input_size, uint64_t output_size)
{
    for (struct list *l = p->idle.prev; l != &p->idle; l = l->prev) {
        struct buffer *b = container_of(l, struct buffer, link);
        if (b->input_size == input_size && b->output_size == output_size)
            return b;
    }
    return NULL;
}

int buffer_get(struct buffer_pool *p, uint64_t input_size, uint64_t output_size,
               struct buffer **ret, struct error *e)
{
    uint64_t in = size_class(input_size), out = size_class(output_size);
    if (!in || !out)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%llu bytes of inputs and %llu of outputs: a job "
                         "can have %llu of each",
                         (unsigned long long)input_size, (unsigned long long)output_size,
                         (unsigned long long)LARGEST);
    struct buffer *b = find_idle(p, in, out);
    if (b) {
        take_idle(b);
    } else {
        int r = buffer_new(p, in, out, &b, e);
        if (r < 0)
            return r;
    }
    b->refs = 1;
    *ret = b;
    return 0;
}

struct buffer *buffer_ref(struct buffer *b)
{
    assert(b->refs > 0);
    b->refs++;
    return b;
}

// An idle buffer goes to the end of the list, so that it is used next and the others age at the
// front.
void buffer_unref(struct buffer *b)
{
    if (!b)
        return;
    assert(b->refs > 0);
    if (--b->refs > 0)
        return;
    struct buffer_pool *p = b->pool;
    if (!p->freed) {
        put_idle(b);
        totals_trim(p->totals);
        return;
    }
    buffer_free(b);
    if (p->n_buffers == 0)
        free(p);
}
