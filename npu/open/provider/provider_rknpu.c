// The maker's kernel driver: its nodes of DRM, and /dev/rknpu, whose memory comes from a dma_heap.
//
// All memory is such as CPUs cache: memory_sync says when. The driver splits long jobs, and resets
// a core that does not end. It runs a job as a whole: a stop is looked at in front of each.
#include <drm.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "npu/buffer/buffer.h"
#include "npu/npu_board.h"
#include "npu/open/provider/device_calls.h"
#include "npu/open/provider/device_options.h"
#include "npu/open/provider/provider.h"
#include "npu/open/provider/rknpu_abi.h"
#include "npu/stop.h"
#include "tensor/chip.h"

#define DRIVER_WAITS 3u // times the timeout it was given
#define PAGE         4096u

static const struct device_nodes nodes[] = {
    {"/dev/dri/renderD", 128, 16}, {"/dev/dri/card", 0, 16}, {0}};

struct rknpu {
    struct provider head;
    struct provider_info info;
    struct device_options options;
    char path[DEVICE_PATH];
    int fd;
    bool misc; // /dev/rknpu
    bool iommu;
    uint32_t version;
    atomic_uint create_bytes; // of MEM_CREATE's structure
    uint32_t domain;          // of the IOMMU
    struct npu_buffers heap;  // of /dev/rknpu
    pthread_mutex_t lock;     // of what follows
    struct list imports;      // of the node of DRM, where a dma-buf has one handle in all
};

struct rknpu_memory {
    struct provider_memory head;
    uint64_t object;
    uint32_t handle;
    bool made, mapped;        // by the driver, here
    struct npu_buffer buffer; // of a heap, when fd is not -1
    int file;                 // of an import: the dma-buf, which is another's; else -1
    struct list link;         // of an import: in rknpu.imports; others of its handle may be, too
};

static struct rknpu *rknpu_of(struct provider *p)
{
    return (struct rknpu *)p;
}

// ---- requests ----

static int rknpu_request(const struct rknpu *n, enum rknpu_request nr, void *argument, size_t size)
{
    unsigned number = (unsigned)nr + (n->misc ? 0 : RKNPU_DRM_FIRST);
    unsigned type = n->misc ? RKNPU_MISC_TYPE : RKNPU_DRM_TYPE;
    return device_ioctl(n->fd, _IOC(_IOC_READ | _IOC_WRITE, type, number, size), argument);
}

static int rknpu_explain(const struct rknpu *n, int error, const char *what, struct error *e)
{
    int code =
        error == ENODEV || error == ENXIO || error == EIO || error == EACCES || error == EPERM
            ? STATUS_DEVICE_UNAVAILABLE
        : error == ENOMEM || error == ENOSPC ? STATUS_MALLOC_FAIL
        : error == ETIMEDOUT                 ? STATUS_TIMEOUT
                                             : STATUS_FAIL;
    return error_set_errno(e, code, error, "%s (rknpu %u.%u.%u): %s", n->path, n->version / 10000,
                           n->version / 100 % 100, n->version % 100, what);
}

static int rknpu_ask(const struct rknpu *n, enum rknpu_action_flags what, uint32_t *ret)
{
    struct rknpu_action a = {.flags = what};
    int s = rknpu_request(n, RKNPU_ACTION, &a, sizeof a);
    if (s == 0)
        *ret = a.value;
    return s;
}

// What not all drivers can tell: `otherwise` if this one cannot.
static int rknpu_ask_perhaps(const struct rknpu *n, enum rknpu_action_flags what, const char *name,
                             uint32_t otherwise, uint32_t *ret, struct error *e)
{
    int s = rknpu_ask(n, what, ret);
    if (s == -EINVAL || s == -ENOTTY)
        *ret = otherwise;
    else if (s < 0)
        return rknpu_explain(n, -s, name, e);
    return 0;
}

// ---- opening ----

static void rknpu_close(struct provider *p)
{
    struct rknpu *n = rknpu_of(p);
    if (!p)
        return;
    if (n->fd >= 0)
        device_calls->close(n->fd);
    npu_buffers_close(&n->heap);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

// By name, or the first node of DRM, or /dev/rknpu.
static int rknpu_open_node(struct rknpu *n, struct error *e)
{
    const char *given = n->options.device;
    struct error words = {0};
    n->misc = strncmp(given, RKNPU_MISC_NODE, strlen(RKNPU_MISC_NODE)) == 0;
    if (given[0]) {
        snprintf(n->path, sizeof n->path, "%s", given);
        n->fd = device_open_named(n->path, n->misc ? NULL : RKNPU_NAME, e);
        return n->fd < 0 ? n->fd : 0;
    }
    n->fd = device_find(RKNPU_NAME, nodes, n->path, &words);
    if (n->fd >= 0)
        return 0;
    n->misc = true;
    snprintf(n->path, sizeof n->path, "%s", RKNPU_MISC_NODE);
    n->fd = device_open_named(n->path, NULL, e);
    return n->fd < 0 ? error_prefix(e, "%s", words.text) : 0;
}

static int rknpu_check_version(struct rknpu *n, struct error *e)
{
    int s = rknpu_ask(n, RKNPU_GET_DRV_VERSION, &n->version);
    uint32_t v = n->version;
    if (s < 0)
        return rknpu_explain(n, -s, "its version is not told", e);
    if (!(v >= RKNPU_VERSION(0, 8, 0) && v <= RKNPU_VERSION(0, 8, 9)) &&
        !(v >= RKNPU_VERSION(0, 9, 0) && v <= RKNPU_VERSION(0, 9, 8)))
        return error_set(e, STATUS_DEVICE_UNMATCH,
                         "%s: version %u.%u.%u of the driver rknpu is not known here; 0.8.0 to "
                         "0.8.9 and 0.9.0 to 0.9.8 are",
                         n->path, v / 10000, v / 100 % 100, v % 100);
    bool newer = v >= RKNPU_VERSION(0, 9, 6);
    n->create_bytes = newer ? sizeof(struct rknpu_mem_create) : RKNPU_MEM_CREATE_OLD;
    return newer ? rknpu_ask_perhaps(n, RKNPU_GET_IOMMU_DOMAIN_ID, "its domain is not told", 0,
                                     &n->domain, e)
                 : 0;
}

static int rknpu_describe(struct rknpu *n, struct error *e)
{
    struct board board;
    uint32_t value;
    int s = board_read(n->options.compatible, &board, e);
    if (s < 0)
        return s;
    const struct chip *chip = chip_find_variant(board.chip);
    snprintf(n->info.chip, sizeof n->info.chip, "%s", board.chip);
    snprintf(n->info.driver, sizeof n->info.driver, "rknpu %u.%u.%u", n->version / 10000,
             n->version / 100 % 100, n->version % 100);
    n->info.n_cores = board.n_cores;
    n->info.timing = NPU_TIMING_DEVICE;
    // Of chips whose driver does not tell, the small ones have no IOMMU.
    s = rknpu_ask_perhaps(n, RKNPU_GET_IOMMU_EN, "whether it has an IOMMU is not told",
                          chip && !chip->small, &value, e);
    n->iommu = s == 0 && value;
    if (s == 0)
        s = rknpu_ask_perhaps(n, RKNPU_GET_TOTAL_SRAM_SIZE, "its SRAM is not told", 0, &value, e);
    n->info.sram_size = s == 0 ? value : 0;
    // The driver tells the address of a dma-buf's first piece, in the domain that is at work.
    n->info.no_import = !n->iommu ? "without an IOMMU nobody says whether a dma-buf is in one piece"
                        : n->domain
                            ? "its memory is in another domain of the IOMMU than dma-bufs of "
                              "others"
                            : NULL;
    return s;
}

static int rknpu_open(const char *options, struct provider **ret, struct error *e)
{
    struct rknpu *n = calloc(1, sizeof *n);
    if (!n)
        return error_no_memory(e, "a device", sizeof *n);
    n->head.ops = &provider_rknpu;
    n->fd = n->heap.device = -1;
    pthread_mutex_init(&n->lock, NULL);
    list_init(&n->imports);
    int s = device_options_parse(options, &n->options, e);
    if (s == 0)
        s = rknpu_open_node(n, e);
    if (s == 0)
        s = rknpu_check_version(n, e);
    if (s == 0)
        s = rknpu_describe(n, e);
    if (s == 0 && n->misc)
        s = npu_buffers_open(&n->heap, n->options.heap, true, e);
    if (s < 0) {
        rknpu_close(&n->head);
        return s;
    }
    *ret = &n->head;
    return 0;
}

static const struct provider_info *rknpu_info(const struct provider *p)
{
    return &((const struct rknpu *)p)->info;
}

// The node alone, not those of other devices; all of them where there is none, for whoever opens it
// to say what is there.
static int rknpu_list_paths(const char *options, npu_add_path *add, void *owner, struct error *e)
{
    struct rknpu n = {.fd = -1};
    struct error wrong; // is said by open
    if (device_options_parse(options, &n.options, &wrong) < 0)
        return 0;
    int s = rknpu_open_node(&n, &wrong);
    if (s == 0)
        device_calls->close(n.fd);
    else if (!n.options.device[0])
        add(owner, "/dev/dri", NPU_ACCESS_DEVICE, e);
    s = add(owner, n.path, NPU_ACCESS_DEVICE, e);
    if (s == 0 && n.misc)
        s = add(owner, "/dev/dma_heap", NPU_ACCESS_DEVICE, e);
    return s == 0 ? add(owner, n.options.compatible, NPU_ACCESS_READ, e) : s;
}

// ---- memory ----

// Nothing is left to be done where that fails: with the device's file all of it goes.
static void rknpu_destroy(const struct rknpu *n, uint32_t handle, uint64_t object)
{
    struct rknpu_mem_destroy d = {.handle = handle, .obj_addr = object};
    rknpu_request(n, RKNPU_MEM_DESTROY, &d, sizeof d);
}

// An import of the same dma-buf, beside `m` itself.
static struct rknpu_memory *rknpu_find_import(struct rknpu *n, const struct rknpu_memory *m,
                                              uint32_t handle)
{
    struct rknpu_memory *other;
    list_for_each (other, &n->imports, link)
        if (other != m && other->handle == handle)
            return other;
    return NULL;
}

// The handle goes with the last import.
static void rknpu_memory_free(struct provider *p, struct provider_memory *memory)
{
    struct rknpu *n = rknpu_of(p);
    struct rknpu_memory *m = (struct rknpu_memory *)memory;
    if (!m)
        return;
    if (m->mapped)
        device_calls->unmap(m->head.map, (size_t)m->head.size);
    pthread_mutex_lock(&n->lock);
    if (m->made && (m->file < 0 || n->misc || !rknpu_find_import(n, m, m->handle)))
        rknpu_destroy(n, m->handle, m->object);
    if (m->made && m->file >= 0)
        list_remove(&m->link);
    pthread_mutex_unlock(&n->lock);
    if (m->buffer.fd >= 0)
        npu_buffer_done(&m->buffer);
    free(m);
}

// The structure is longer in later versions, and some makers' kernels have one version's number and
// the other's structure: what is refused is tried with the other size.
static int rknpu_create(struct rknpu *n, struct rknpu_mem_create *c)
{
    const unsigned sizes[] = {RKNPU_MEM_CREATE_OLD, sizeof *c};
    struct rknpu_mem_create asked = *c;
    unsigned size = n->create_bytes, other = sizes[size == sizes[0]];
    int s = rknpu_request(n, RKNPU_MEM_CREATE, c, size);
    if (s != -ENOTTY && s != -EINVAL)
        return s;
    struct rknpu_mem_create again = asked;
    int t = rknpu_request(n, RKNPU_MEM_CREATE, &again, other);
    if (t < 0)
        return s;
    *c = again;
    n->create_bytes = other;
    return 0;
}

static bool is_reachable(const struct rknpu_mem_create *c, uint64_t size)
{
    return c->dma_addr && c->dma_addr + size <= (uint64_t)UINT32_MAX + 1;
}

// Programs have addresses of 32 bits. Whether the flag for memory below 4 GB says so or the
// opposite depends on the version, so it is tried the other way, too.
static int rknpu_create_reachable(struct rknpu *n, struct rknpu_memory *m,
                                  struct rknpu_mem_create *c, struct error *e)
{
    struct rknpu_mem_create asked = *c;
    char what[96];
    for (int i = 0; i < 2; i++) {
        *c = asked;
        c->flags |= i ? RKNPU_DMA32_BIT : 0;
        int s = rknpu_create(n, c);
        if (s < 0) {
            snprintf(what, sizeof what, "no memory of %" PRIu64 " bytes", m->head.size);
            return rknpu_explain(n, -s, what, e);
        }
        if (is_reachable(c, m->head.size)) {
            m->made = true;
            m->handle = c->handle;
            m->object = c->obj_addr;
            m->head.address = c->dma_addr;
            return 0;
        }
        rknpu_destroy(n, c->handle, c->obj_addr);
        if (m->buffer.fd >= 0)
            break; // it lies where it lies
    }
    return error_set(e, STATUS_MALLOC_FAIL,
                     "%s: memory at %#" PRIx64 ", where programs reach what is below 4 GB", n->path,
                     c->dma_addr);
}

static uint32_t rknpu_memory_flags(const struct rknpu *n, enum provider_use use)
{
    uint32_t flags = RKNPU_CACHEABLE | RKNPU_ZEROING;
    if (n->iommu)
        flags |= RKNPU_NON_CONTIGUOUS | RKNPU_IOMMU;
    if (use == PROVIDER_TASKS)
        flags |= RKNPU_KERNEL_MAPPING;
    return flags;
}

static int rknpu_map(const struct rknpu *n, struct rknpu_memory *m, struct error *e)
{
    struct rknpu_mem_map map = {.handle = m->handle};
    int s = rknpu_request(n, RKNPU_MEM_MAP, &map, sizeof map);
    if (s < 0)
        return rknpu_explain(n, -s, "its memory has no place to be mapped from", e);
    m->head.map = device_calls->map((size_t)m->head.size, n->fd, map.offset);
    if (m->head.map == MAP_FAILED)
        return rknpu_explain(n, errno, "its memory cannot be mapped", e);
    m->mapped = true;
    return 0;
}

// /dev/rknpu takes dma-bufs in place of handles, and has no memory of its own to map.
static int rknpu_memory_fill(struct rknpu *n, struct rknpu_memory *m, enum provider_use use,
                             struct error *e)
{
    struct rknpu_mem_create c = {.flags = rknpu_memory_flags(n, use),
                                 .size = m->head.size,
                                 .iommu_domain_id = (int32_t)n->domain};
    uint32_t free_sram;
    int s = 0;
    if (use == PROVIDER_ARENA && n->options.sram && n->info.sram_size &&
        rknpu_ask(n, RKNPU_GET_FREE_SRAM_SIZE, &free_sram) == 0 && free_sram) {
        c.flags |= RKNPU_SRAM;
        c.sram_size = free_sram < m->head.size ? free_sram / PAGE * PAGE : m->head.size;
    }
    if (n->misc) {
        s = npu_buffer_new(&n->heap, m->head.size, &m->buffer, e);
        c.handle = s == 0 ? (uint32_t)m->buffer.fd : 0;
    }
    if (s == 0)
        s = rknpu_create_reachable(n, m, &c, e);
    if (s == 0 && c.size < m->head.size)
        s = error_set(e, STATUS_MALLOC_FAIL, "%s: %" PRIu64 " bytes of memory instead of %" PRIu64,
                      n->path, c.size, m->head.size);
    if (s == 0 && n->misc)
        m->head.map = m->buffer.map;
    else if (s == 0)
        s = rknpu_map(n, m, e);
    return s;
}

static int rknpu_memory_alloc(struct provider *p, uint64_t size, enum provider_use use,
                              struct provider_memory **ret, struct error *e)
{
    struct rknpu_memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "memory of the NPU", sizeof *m);
    m->buffer.fd = m->file = -1;
    m->head.size = align_up(size ? size : 1, PAGE);
    int s = rknpu_memory_fill(rknpu_of(p), m, use, e);
    if (s < 0) {
        rknpu_memory_free(p, &m->head);
        return s;
    }
    *ret = &m->head;
    return 0;
}

// ---- memory of others ----

// A dma-buf's place, as the driver tells it of a handle; of /dev/rknpu the file is the handle. On
// failure the handle is still the caller's, and m->object what /dev/rknpu has made.
static int rknpu_import_handle(struct rknpu *n, struct rknpu_memory *m, uint32_t handle,
                               struct error *e)
{
    struct rknpu_mem_create c = {.handle = handle,
                                 .flags = rknpu_memory_flags(n, PROVIDER_DATA),
                                 .size = m->head.size,
                                 .iommu_domain_id = (int32_t)n->domain};
    int s = rknpu_create(n, &c);
    if (s < 0)
        return rknpu_explain(n, -s, "a program's dma-buf has no address", e);
    if (c.handle != handle) { // memory of its own
        rknpu_destroy(n, c.handle, c.obj_addr);
        return error_set(e, STATUS_DEVICE_UNMATCH, "%s: the driver knows no dma-bufs by handle",
                         n->path);
    }
    m->handle = handle;
    m->object = c.obj_addr;
    m->head.address = c.dma_addr;
    if (c.size < m->head.size)
        return error_set(e, STATUS_DEVICE_UNMATCH,
                         "%s: %" PRIu64 " of a dma-buf's %" PRIu64 " bytes", n->path,
                         (uint64_t)c.size, m->head.size);
    if (!is_reachable(&c, m->head.size))
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%s: a dma-buf at %#" PRIx64 ", where programs reach what is below 4 GB",
                         n->path, (uint64_t)c.dma_addr);
    return 0;
}

// Each time it is asked the device makes an object of its own, so that nothing is shared.
static int rknpu_import_misc(struct rknpu *n, struct rknpu_memory *m, struct error *e)
{
    int s = rknpu_import_handle(n, m, (uint32_t)m->file, e);
    if (s < 0 && m->object)
        rknpu_destroy(n, m->handle, m->object);
    return s;
}

// The node of DRM gives one dma-buf one handle, however often it is asked.
static int rknpu_import_drm(struct rknpu *n, struct rknpu_memory *m, struct error *e)
{
    struct drm_prime_handle h = {.fd = m->file};
    int s = device_ioctl(n->fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &h);
    if (s < 0)
        return rknpu_explain(n, -s, "a program's dma-buf is not taken", e);
    const struct rknpu_memory *same = rknpu_find_import(n, m, h.handle);
    if (same) {
        m->handle = same->handle;
        m->object = same->object;
        m->head.address = same->head.address;
        return 0;
    }
    s = rknpu_import_handle(n, m, h.handle, e);
    if (s < 0) {
        struct drm_gem_close c = {.handle = h.handle};
        device_ioctl(n->fd, DRM_IOCTL_GEM_CLOSE, &c);
    }
    return s;
}

// Both the handle and the list are looked at under the lock: between the last import's end and the
// next one's begin the kernel may give the same handle to another file.
static int rknpu_memory_import(struct provider *p, const struct npu_buffer *b,
                               struct provider_memory **ret, struct error *e)
{
    struct rknpu *n = rknpu_of(p);
    struct rknpu_memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "memory of the NPU", sizeof *m);
    m->buffer.fd = -1;
    m->file = b->fd;
    m->head.map = b->map;
    m->head.size = b->size;
    pthread_mutex_lock(&n->lock);
    int s = n->misc ? rknpu_import_misc(n, m, e) : rknpu_import_drm(n, m, e);
    m->made = s == 0;
    if (s == 0)
        list_append(&n->imports, &m->link);
    pthread_mutex_unlock(&n->lock);
    if (s < 0) {
        free(m);
        return s;
    }
    *ret = &m->head;
    return 0;
}

// The driver has no caches of dma-bufs of others in hand: their own maker does.
static int rknpu_sync_file(const struct rknpu *n, int file, enum provider_way way, struct error *e)
{
    const struct {
        enum provider_way way;
        uint64_t access;
    } ways[] = {{PROVIDER_TO_DEVICE, DMA_BUF_SYNC_WRITE},
                {PROVIDER_FROM_DEVICE, DMA_BUF_SYNC_READ}};
    int s = 0;
    for (size_t i = 0; i < 2; i++) {
        struct dma_buf_sync begin = {.flags = DMA_BUF_SYNC_START | ways[i].access};
        struct dma_buf_sync end = {.flags = DMA_BUF_SYNC_END | ways[i].access};
        if (way & ways[i].way && s == 0)
            s = device_ioctl(file, DMA_BUF_IOCTL_SYNC, &begin);
        if (way & ways[i].way && s == 0)
            s = device_ioctl(file, DMA_BUF_IOCTL_SYNC, &end);
    }
    return s < 0 ? rknpu_explain(n, -s, "a dma-buf cannot be synchronised", e) : 0;
}

// ---- caches ----

static int rknpu_sync(struct provider *p, struct provider_memory *memory, uint64_t offset,
                      uint64_t size, enum provider_way way, struct error *e)
{
    struct rknpu_memory *m = (struct rknpu_memory *)memory;
    struct rknpu_mem_sync sync = {.flags =
                                      (way & PROVIDER_TO_DEVICE ? RKNPU_SYNC_TO_DEVICE : 0u) |
                                      (way & PROVIDER_FROM_DEVICE ? RKNPU_SYNC_FROM_DEVICE : 0u),
                                  .obj_addr = m->object,
                                  .offset = offset,
                                  .size = size};
    if (offset > m->head.size || size > m->head.size - offset)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a sync of %" PRIu64 " bytes at %" PRIu64 " of a memory of %" PRIu64, size,
                         offset, m->head.size);
    if (!size)
        return 0;
    if (m->file >= 0)
        return rknpu_sync_file(rknpu_of(p), m->file, way, e);
    int s = rknpu_request(rknpu_of(p), RKNPU_MEM_SYNC, &sync, sizeof sync);
    return s < 0 ? rknpu_explain(rknpu_of(p), -s, "caches are not written back", e) : 0;
}

// ---- jobs ----

// Sets of cores that the driver takes, of those that the chip has.
static int rknpu_check_cores(const struct rknpu *n, uint32_t mask, struct error *e)
{
    if (mask && !(mask >> n->info.n_cores) && mask != 5 && mask != 6 && mask <= 7)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "the driver has no cores %#x of %u together; it has one, 0 and 1, or 0 to 2",
                     mask, n->info.n_cores);
}

static int rknpu_fill_tasks(const struct rknpu *n, const struct provider_job *job,
                            struct rknpu_submit *ret, struct error *e)
{
    uint64_t room = job->tasks->size / TASK_BYTES;
    unsigned n_cores = (unsigned)__builtin_popcount(job->core_mask), at = 0;
    int s = rknpu_check_cores(n, job->core_mask, e);
    if (s < 0)
        return s;
    ret->task_start = UINT32_MAX;
    for (unsigned core = 0; core < n->info.n_cores; core++) {
        if (!(job->core_mask >> core & 1))
            continue;
        const struct provider_range *r = &job->ranges[at++];
        if (r->first > room || r->n > room - r->first || !r->n)
            return error_set(e, STATUS_PARAM_INVALID, "tasks %u to %u of %" PRIu64, r->first,
                             r->first + r->n, room);
        ret->subcore[n_cores == 3 ? core + 2 : core].start = r->first;
        ret->subcore[n_cores == 3 ? core + 2 : core].number = r->n;
        ret->task_start = r->first < ret->task_start ? r->first : ret->task_start;
        ret->task_number += r->n;
    }
    return 0;
}

// A job that a signal cut off may have worked off some tasks, and these are not to be repeated.
static int rknpu_run(const struct rknpu *n, struct rknpu_submit *submit)
{
    unsigned number = RKNPU_SUBMIT + (n->misc ? 0 : RKNPU_DRM_FIRST);
    unsigned type = n->misc ? RKNPU_MISC_TYPE : RKNPU_DRM_TYPE;
    unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, type, number, sizeof *submit);
    for (;;) {
        if (device_calls->ioctl(n->fd, request, submit) == 0)
            return 0;
        if ((errno != EINTR && errno != EAGAIN) || submit->task_counter)
            return -errno;
    }
}

static int rknpu_submit(struct provider *p, struct provider_job *job, struct error *e)
{
    struct rknpu *n = rknpu_of(p);
    struct rknpu_submit submit = {.flags = RKNPU_JOB_PC | RKNPU_JOB_PING_PONG,
                                  .timeout = job->timeout_ms / DRIVER_WAITS + 1,
                                  .task_obj_addr =
                                      ((const struct rknpu_memory *)job->tasks)->object,
                                  .iommu_domain_id = n->domain,
                                  .core_mask = job->core_mask,
                                  .fence_fd = -1};
    int s = npu_stop_check(job->stop, e);
    if (s == 0)
        s = rknpu_fill_tasks(n, job, &submit, e);
    if (s < 0)
        return s;
    s = rknpu_run(n, &submit);
    if (s == 0)
        return 0;
    // Which task it was is told of one core alone, if at all.
    bool told = !(job->core_mask & (job->core_mask - 1)) && submit.task_counter < job->ranges[0].n;
    job->failed = told ? job->ranges[0].first + submit.task_counter : UINT32_MAX;
    return rknpu_explain(n, -s,
                         s == -ETIMEDOUT ? "the NPU did not end its tasks in time, and was reset"
                                         : "tasks were not run",
                         e);
}

const struct provider_ops provider_rknpu = {
    .name = "rknpu",
    .list_paths = rknpu_list_paths,
    .open = rknpu_open,
    .free = rknpu_close,
    .info = rknpu_info,
    .memory_new = rknpu_memory_alloc,
    .memory_free = rknpu_memory_free,
    .memory_sync = rknpu_sync,
    .memory_import = rknpu_memory_import,
    .submit = rknpu_submit,
};
