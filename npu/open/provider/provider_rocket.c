// Mainline's driver for RK3588. It starts each task by itself, on a core that it chooses, and waits
// for the interrupt of a convolution's end alone; a job's failure is in the fence of the memory
// that it writes.
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/ioctl.h>
#include <linux/sync_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "npu/npu_board.h"
#include "npu/open/provider/device_calls.h"
#include "npu/open/provider/device_options.h"
#include "npu/open/provider/provider.h"
#include "npu/open/provider/rocket_abi.h"
#include "npu/open/provider/rocket_expand.h"
#include "npu/stop.h"
#include "tensor/chip.h"

#define PAGE        4096u
#define MAX_BO      (UINT32_MAX / PAGE * PAGE)
#define MAX_HANDLES 8
#define WAIT_NS     120000000000 // for jobs whose end was seen already

static const struct device_nodes nodes[] = {{"/dev/accel/accel", 0, 16}, {0}};

struct rocket {
    struct provider head;
    struct provider_info info;
    struct device_options options;
    char path[DEVICE_PATH];
    int fd;
};

struct rocket_memory {
    struct provider_memory head;
    uint32_t handle;
    bool made, mapped;
    // Of task records: what the driver takes in their place.
    struct rocket_memory *programs;
    struct rocket_task *tasks; // by record; no words: the driver cannot run it
    uint32_t n_tasks;
    uint32_t handles[MAX_HANDLES]; // the first is written
    uint32_t n_handles;
    int written; // a dma-buf of the first, whose fences say how jobs ended
};

static struct rocket *rocket_of(struct provider *p)
{
    return (struct rocket *)p;
}

static int rocket_explain(const struct rocket *r, int error, const char *what, struct error *e)
{
    int code =
        error == ENODEV || error == ENXIO || error == EIO || error == EACCES || error == EPERM
            ? STATUS_DEVICE_UNAVAILABLE
        : error == ENOMEM || error == ENOSPC       ? STATUS_MALLOC_FAIL
        : error == ETIMEDOUT || error == ECANCELED ? STATUS_TIMEOUT
                                                   : STATUS_FAIL;
    return error_set_errno(e, code, error, "%s (rocket): %s", r->path, what);
}

static int rocket_request(const struct rocket *r, enum rocket_request nr, unsigned direction,
                          void *argument, size_t size)
{
    return device_ioctl(r->fd, _IOC(direction, 'd', ROCKET_FIRST + (unsigned)nr, size), argument);
}

// ---- opening ----

static void rocket_close(struct provider *p)
{
    struct rocket *r = rocket_of(p);
    if (!p)
        return;
    if (r->fd >= 0)
        device_calls->close(r->fd);
    free(r);
}

static int rocket_open_node(struct rocket *r, struct error *e)
{
    if (!r->options.device[0])
        r->fd = device_find(ROCKET_NAME, nodes, r->path, e);
    else {
        snprintf(r->path, sizeof r->path, "%s", r->options.device);
        r->fd = device_open_named(r->path, ROCKET_NAME, e);
    }
    return r->fd < 0 ? r->fd : 0;
}

static int rocket_describe(struct rocket *r, struct error *e)
{
    struct board board;
    int s = board_read(r->options.compatible, &board, e);
    if (s < 0)
        return s;
    const struct chip *chip = chip_find_variant(board.chip);
    if (!chip || strcmp(chip->target, "rk3588") != 0)
        return error_set(e, STATUS_DEVICE_UNMATCH,
                         "%s: the driver rocket is known here for RK3588 alone, and this is %s",
                         r->path, board.chip);
    snprintf(r->info.chip, sizeof r->info.chip, "%s", board.chip);
    snprintf(r->info.driver, sizeof r->info.driver, "rocket");
    r->info.n_cores = board.n_cores;
    r->info.timing = NPU_TIMING_DEVICE;
    r->info.one_core_jobs = true;
    r->info.no_import = "the driver rocket gives memory of others no address for the NPU";
    return 0;
}

static int rocket_open(const char *options, struct provider **ret, struct error *e)
{
    struct rocket *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a device", sizeof *r);
    r->head.ops = &provider_rocket;
    r->fd = -1;
    int s = device_options_parse(options, &r->options, e);
    if (s == 0 && r->options.sram)
        s = error_set(e, STATUS_PARAM_INVALID, "the driver rocket gives no SRAM to programs");
    if (s == 0)
        s = rocket_open_node(r, e);
    if (s == 0)
        s = rocket_describe(r, e);
    if (s < 0) {
        rocket_close(&r->head);
        return s;
    }
    *ret = &r->head;
    return 0;
}

static const struct provider_info *rocket_info(const struct provider *p)
{
    return &((const struct rocket *)p)->info;
}

static int rocket_list_paths(const char *options, npu_add_path *add, void *owner, struct error *e)
{
    struct rocket r = {.fd = -1};
    struct error wrong; // is said by open
    if (device_options_parse(options, &r.options, &wrong) < 0)
        return 0;
    int s = rocket_open_node(&r, &wrong);
    if (s == 0)
        device_calls->close(r.fd);
    s = add(owner, s == 0 || r.options.device[0] ? r.path : "/dev/accel", NPU_ACCESS_DEVICE, e);
    return s == 0 ? add(owner, r.options.compatible, NPU_ACCESS_READ, e) : s;
}

// ---- memory ----

static void rocket_memory_free(struct provider *p, struct provider_memory *memory)
{
    struct rocket_memory *m = (struct rocket_memory *)memory;
    if (!m)
        return;
    if (m->mapped)
        device_calls->unmap(m->head.map, (size_t)m->head.size);
    if (m->made) {
        struct drm_gem_close c = {.handle = m->handle};
        device_ioctl(rocket_of(p)->fd, DRM_IOCTL_GEM_CLOSE, &c);
    }
    if (m->written >= 0)
        device_calls->close(m->written);
    if (m->programs)
        rocket_memory_free(p, &m->programs->head);
    free(m->tasks);
    free(m);
}

static int rocket_memory_fill(const struct rocket *r, struct rocket_memory *m, struct error *e)
{
    struct rocket_create_bo c = {.size = (uint32_t)m->head.size};
    char what[96];
    int s = rocket_request(r, ROCKET_CREATE_BO, _IOC_READ | _IOC_WRITE, &c, sizeof c);
    if (s < 0) {
        snprintf(what, sizeof what, "no memory of %" PRIu64 " bytes", m->head.size);
        return rocket_explain(r, -s, what, e);
    }
    m->made = true;
    m->handle = c.handle;
    m->head.address = c.dma_address;
    if (c.dma_address + m->head.size > (uint64_t)UINT32_MAX + 1)
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%s: memory at %#" PRIx64 ", where programs reach what is below 4 GB",
                         r->path, (uint64_t)c.dma_address);
    m->head.map = device_calls->map((size_t)m->head.size, r->fd, c.offset);
    if (m->head.map == MAP_FAILED)
        return rocket_explain(r, errno, "its memory cannot be mapped", e);
    m->mapped = true;
    return 0;
}

static int rocket_memory_alloc(struct provider *p, uint64_t size, enum provider_use use,
                               struct provider_memory **ret, struct error *e)
{
    struct rocket_memory *m = calloc(1, sizeof *m);
    (void)use;
    if (!m)
        return error_no_memory(e, "memory of the NPU", sizeof *m);
    m->written = -1;
    m->head.size = align_up(size ? size : 1, PAGE);
    int s = m->head.size > MAX_BO || m->head.size < size
                ? error_no_memory(e, "memory of the NPU", (size_t)size)
                : rocket_memory_fill(rocket_of(p), m, e);
    if (s < 0) {
        rocket_memory_free(p, &m->head);
        return s;
    }
    *ret = &m->head;
    return 0;
}

// The driver has it of whole memories alone.
static int rocket_sync(struct provider *p, struct provider_memory *memory, uint64_t offset,
                       uint64_t size, enum provider_way way, struct error *e)
{
    struct rocket_memory *m = (struct rocket_memory *)memory;
    struct rocket *r = rocket_of(p);
    int s = 0;
    if (offset > m->head.size || size > m->head.size - offset)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a sync of %" PRIu64 " bytes at %" PRIu64 " of a memory of %" PRIu64, size,
                         offset, m->head.size);
    if (way & PROVIDER_FROM_DEVICE) {
        struct rocket_prep_bo prep = {.handle = m->handle,
                                      .timeout_ns = (int64_t)clock_us() * 1000 + WAIT_NS};
        s = rocket_request(r, ROCKET_PREP_BO, _IOC_WRITE, &prep, sizeof prep);
    }
    if (s == 0 && way & PROVIDER_TO_DEVICE) {
        struct rocket_fini_bo fini = {.handle = m->handle};
        s = rocket_request(r, ROCKET_FINI_BO, _IOC_WRITE, &fini, sizeof fini);
    }
    return s < 0 ? rocket_explain(r, -s, "caches are not written back", e) : 0;
}

// ---- programs ----

static int rocket_judge(const struct provider *p, const uint64_t *commands,
                        struct provider_task *tasks, uint32_t n, struct error *e)
{
    (void)p;
    return rocket_expand_judge(commands, tasks, n, e);
}

static int rocket_load_programs(struct rocket *r, struct rocket_memory *records,
                                const struct provider_chain *chain, struct rocket_program *programs,
                                struct error *e)
{
    cleanup(free_p) uint64_t *words = NULL;
    uint64_t n;
    struct provider_memory *memory = NULL;
    int s = rocket_expand(chain->commands, chain->tasks, chain->n, programs, &words, &n, e);
    if (s == 0)
        s = rocket_memory_alloc(&r->head, n * 8, PROVIDER_DATA, &memory, e);
    if (s != 0)
        return s;
    records->programs = (struct rocket_memory *)memory;
    for (uint64_t i = 0; i < n; i++)
        write_le64(memory->map + 8 * i, words[i]);
    return rocket_sync(&r->head, memory, 0, n * 8, PROVIDER_TO_DEVICE, e);
}

static int rocket_export(const struct rocket *r, struct rocket_memory *records, struct error *e)
{
    struct drm_prime_handle h = {.handle = records->handles[0], .flags = DRM_CLOEXEC | DRM_RDWR};
    int s = device_ioctl(r->fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &h);
    if (s < 0)
        return rocket_explain(r, -s, "its memory cannot be exported", e);
    records->written = h.fd;
    return 0;
}

static int rocket_prepare(struct provider *p, struct provider_memory *memory,
                          const struct provider_chain *chain, struct error *e)
{
    struct rocket_memory *records = (struct rocket_memory *)memory;
    cleanup(free_p) struct rocket_program *programs =
        calloc((size_t)chain->n + 1, sizeof *programs);
    records->n_tasks = (uint32_t)(memory->size / TASK_BYTES);
    records->tasks = calloc((size_t)records->n_tasks + 1, sizeof *records->tasks);
    if (!programs || !records->tasks)
        return error_no_memory(e, "programs", chain->n * sizeof *programs);
    int s = rocket_load_programs(rocket_of(p), records, chain, programs, e);
    if (s < 0)
        return s;
    uint64_t base = records->programs->head.address;
    for (uint32_t i = 0; i < chain->n; i++)
        records->tasks[chain->tasks[i].record] = (struct rocket_task){
            .regcmd = (uint32_t)(base + 8 * programs[i].first), .regcmd_count = programs[i].words};
    for (uint32_t i = 0; i < chain->n_memories && i < MAX_HANDLES - 1; i++)
        records->handles[records->n_handles++] =
            ((const struct rocket_memory *)chain->memories[i])->handle;
    records->handles[records->n_handles++] = records->programs->handle;
    return rocket_export(rocket_of(p), records, e);
}

// ---- jobs ----

static int rocket_check_tasks(const struct rocket_memory *records, const struct provider_job *job,
                              struct error *e)
{
    const struct provider_range *r = &job->ranges[0];
    if (!r->n || r->first > records->n_tasks || r->n > records->n_tasks - r->first)
        return error_set(e, STATUS_PARAM_INVALID, "tasks %u to %u of %u", r->first, r->first + r->n,
                         records->n_tasks);
    for (uint32_t i = r->first; i < r->first + r->n; i++)
        if (!records->tasks[i].regcmd_count)
            return error_set(e, STATUS_PARAM_INVALID, "task %u is none that the driver can run", i);
    return 0;
}

// How the memory's last job ended: its fence is taken before it can have gone.
static int rocket_wait(const struct rocket *r, int fence, uint32_t timeout_ms, struct error *e)
{
    struct sync_file_info info = {0};
    int ready;
    while ((ready = device_calls->wait(fence, (int)timeout_ms)) < 0 && errno == EINTR)
        ;
    if (ready < 0)
        return rocket_explain(r, errno, "its fence cannot be waited for", e);
    if (ready == 0)
        return rocket_explain(r, ETIMEDOUT, "the NPU did not end its tasks in time", e);
    int s = device_ioctl(fence, SYNC_IOC_FILE_INFO, &info);
    if (s < 0)
        return rocket_explain(r, -s, "its fence is not told", e);
    if (info.status < 0)
        return rocket_explain(r, -info.status,
                              "the NPU did not end its tasks, and was reset by the driver", e);
    return 0;
}

static int rocket_submit_tasks(const struct rocket *r, const struct rocket_memory *records,
                               const struct provider_range *range, struct error *e)
{
    struct rocket_job job = {.tasks = (uintptr_t)&records->tasks[range->first],
                             .in_bo_handles = (uintptr_t)&records->handles[1],
                             .out_bo_handles = (uintptr_t)&records->handles[0],
                             .task_count = range->n,
                             .task_struct_size = sizeof(struct rocket_task),
                             .in_bo_handle_count = records->n_handles - 1,
                             .out_bo_handle_count = 1};
    struct rocket_submit submit = {
        .jobs = (uintptr_t)&job, .job_count = 1, .job_struct_size = sizeof job};
    int s = rocket_request(r, ROCKET_SUBMIT, _IOC_WRITE, &submit, sizeof submit);
    return s < 0 ? rocket_explain(r, -s, "tasks were not run", e) : 0;
}

static int rocket_submit(struct provider *p, struct provider_job *job, struct error *e)
{
    struct rocket *r = rocket_of(p);
    const struct rocket_memory *records = (const struct rocket_memory *)job->tasks;
    struct dma_buf_export_sync_file fence = {.flags = DMA_BUF_SYNC_READ, .fd = -1};
    int s = npu_stop_check(job->stop, e);
    if (s == 0)
        s = rocket_check_tasks(records, job, e);
    if (s == 0)
        s = rocket_submit_tasks(r, records, &job->ranges[0], e);
    if (s < 0)
        return s;
    s = device_ioctl(records->written, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &fence);
    if (s < 0)
        return rocket_explain(r, -s, "its fence is not given", e);
    s = rocket_wait(r, fence.fd, job->timeout_ms, e);
    device_calls->close(fence.fd);
    return s;
}

const struct provider_ops provider_rocket = {
    .name = "rocket",
    .list_paths = rocket_list_paths,
    .open = rocket_open,
    .free = rocket_close,
    .info = rocket_info,
    .memory_new = rocket_memory_alloc,
    .memory_free = rocket_memory_free,
    .memory_sync = rocket_sync,
    .judge = rocket_judge,
    .prepare = rocket_prepare,
    .submit = rocket_submit,
};
