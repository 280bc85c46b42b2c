#include "tests/unit/npu/open/rocket_standin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "npu/emu/emu_job.h"
#include "tests/unit/npu/open/standin_npu.h"

#define NODE_FD     6000 // of dma-bufs: + 1 + object; of fences: FENCE_FD
#define FENCE_FD    7000
#define MAX_OBJECTS 64
#define FIRST       11u // handle
#define MAP_STEP    0x10000000u

static struct rocket_standin_settings set;
static struct rocket_standin_counts counts;
static struct rocket_object {
    uint8_t *map, *device;
    uint64_t size, address;
} objects[MAX_OBJECTS];
static int last_fence; // of the last job

static struct rocket_object *object_of(uint32_t handle)
{
    return handle - FIRST < MAX_OBJECTS && objects[handle - FIRST].map ? &objects[handle - FIRST]
                                                                       : NULL;
}

static void object_drop(struct rocket_object *o)
{
    emu_memory_unmap(&standin.memory, o->address);
    free(o->map);
    free(o->device);
    *o = (struct rocket_object){0};
    counts.objects--;
}

// ---- requests: nr -> bytes, direction (1 write, 3 both) ----

// size, handle, dma_address, offset
static int do_create(uint8_t *b)
{
    struct error e = {0};
    uint32_t size = read_le32(b), i = 0;
    if (!size || size % 4096 || read_le32(b + 4) || read_le64(b + 8) || read_le64(b + 16))
        return standin_npu_wrong("CREATE_BO of %u bytes", size);
    while (i < MAX_OBJECTS && objects[i].map)
        i++;
    if (i == MAX_OBJECTS)
        return -ENOMEM;
    objects[i] =
        (struct rocket_object){calloc(1, size), calloc(1, size), size, standin_npu_place(size)};
    if (emu_memory_map(&standin.memory, objects[i].address, objects[i].device, size, &e) < 0)
        return standin_npu_wrong("%s", e.text);
    counts.objects++;
    write_le32(b + 4, FIRST + i);
    write_le64(b + 8, objects[i].address);
    write_le64(b + 16, 0x100000000u + (uint64_t)i * MAP_STEP);
    return 0;
}

// Registers that any of the job's programs writes hold something in both groups, as if others had
// left it there.
static void poison(const uint8_t *tasks, uint32_t n)
{
    struct error e;
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t words = read_le32(tasks + 8 * (i / 2) + 4);
        const uint8_t *p =
            emu_memory_at(&standin.memory, read_le32(tasks + 8 * (i / 2)), words * 8, &e);
        for (uint32_t block = 1; block < 8; block++)
            emu_npu_write(standin.npu, 0, block << 12 | 4, i & 1);
        for (uint32_t k = 0; p && k + EMU_TRAILER_WORDS < words; k++) {
            uint32_t reg = (uint32_t)read_le64(p + 8 * k) & 0xffff;
            if ((reg & 0xfff) > 8 && (reg & ~4u) != 0x4100)
                emu_npu_write(standin.npu, 0, reg, 0x01010101u);
        }
    }
    for (uint32_t block = 1; block < 8; block++) {
        emu_npu_write(standin.npu, 0, block << 12 | 4, 0);
        emu_npu_write(standin.npu, 0, block << 12 | 4, 0xe);
    }
}

static int run_task(uint32_t address, uint32_t words)
{
    struct emu_task task = {address, words - EMU_TRAILER_WORDS, EMU_INTERRUPT_DPU};
    struct emu_job job = {.tasks = &task, .n = 1};
    struct emu_result result;
    struct error e = {0};
    if (words < 5)
        return standin_npu_wrong("a task of %u words", words);
    counts.tasks++;
    if (emu_job_run(standin.npu, &job, &result, &e) == 0)
        return 0;
    fprintf(stderr, "stand-in: task at %#x: %s\n", address, e.text);
    emu_npu_reset(standin.npu, 0);
    return -ETIMEDOUT;
}

static int check_handles(uint64_t list, uint32_t n)
{
    const uint32_t *handles = (const void *)(uintptr_t)list;
    for (uint32_t i = 0; i < n; i++)
        if (!object_of(handles[i]))
            return standin_npu_wrong("handle %u", handles[i]);
    return 0;
}

// jobs, job_count, job_struct_size, reserved; a job: tasks, in, out, task_count, task_struct_size,
// in count, out count
static int do_submit(const uint8_t *b)
{
    const uint8_t *job = (const void *)(uintptr_t)read_le64(b);
    if (read_le32(b + 8) != 1 || read_le32(b + 12) != 40 || read_le64(b + 16))
        return standin_npu_wrong("SUBMIT of %u jobs of %u bytes", read_le32(b + 8),
                                 read_le32(b + 12));
    const uint8_t *tasks = (const void *)(uintptr_t)read_le64(job);
    uint32_t n = read_le32(job + 24);
    if (!n || read_le32(job + 28) != 8 || read_le32(job + 32) < 2 || read_le32(job + 36) != 1)
        return standin_npu_wrong("a job of %u tasks of %u bytes", n, read_le32(job + 28));
    if (check_handles(read_le64(job + 8), read_le32(job + 32)) ||
        check_handles(read_le64(job + 16), 1))
        return -EINVAL;
    last_fence = set.fence;
    for (uint32_t i = 0; i < n && last_fence == 0; i++) {
        emu_npu_reset(standin.npu, 0);
        if (set.poisoned)
            poison(tasks, n);
        last_fence = run_task(read_le32(tasks + 8 * i), read_le32(tasks + 8 * i + 4));
    }
    return 0;
}

// handle, reserved, timeout_ns
static int do_prepare(const uint8_t *b)
{
    struct rocket_object *o = object_of(read_le32(b));
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!o || read_le32(b + 4) || (int64_t)read_le64(b + 8) < now.tv_sec * 1000000000)
        return standin_npu_wrong("PREP_BO of %u", read_le32(b));
    memcpy(o->map, o->device, o->size);
    return 0;
}

static int do_finish(const uint8_t *b)
{
    struct rocket_object *o = object_of(read_le32(b));
    if (!o || read_le32(b + 4))
        return standin_npu_wrong("FINI_BO of %u", read_le32(b));
    memcpy(o->device, o->map, o->size);
    return 0;
}

// DRM's own: version (name_len at 16, name at 24), gem_close (handle, pad), prime (handle, flags,
// fd).
static int do_drm(unsigned nr, uint8_t *b)
{
    char *name;
    if (nr == 0) {
        memcpy(&name, b + 24, sizeof name);
        memcpy(name, "rocket", 6);
        write_le64(b + 16, 6);
        return 0;
    }
    struct rocket_object *o = object_of(read_le32(b));
    if (!o || (nr != 9 && nr != 0x2d))
        return standin_npu_wrong("request %#x of DRM, handle %u", nr, read_le32(b));
    if (nr == 9) {
        object_drop(o);
        return 0;
    }
    write_le32(b + 8, NODE_FD + 1 + (uint32_t)(o - objects));
    counts.open_files++;
    return 0;
}

static const struct {
    unsigned bytes, direction;
} shapes[] = {{24, 3}, {24, 1}, {16, 1}, {8, 1}};

static int node_request(unsigned long request, uint8_t *b)
{
    unsigned nr = request & 0xff, size = request >> 16 & 0x3fff,
             direction = (unsigned)(request >> 30);
    if ((request >> 8 & 0xff) != 'd')
        return standin_npu_wrong("request %#lx", request);
    if (nr < 0x40)
        return do_drm(nr, b);
    nr -= 0x40;
    if (nr > 3 || size != shapes[nr].bytes || direction != shapes[nr].direction)
        return standin_npu_wrong("request %#lx", request);
    return nr == 0 ? do_create(b) : nr == 1 ? do_submit(b) : nr == 2 ? do_prepare(b) : do_finish(b);
}

// Of a dma-buf: EXPORT_SYNC_FILE, 'b' 2 (flags, fd). Of a fence: SYNC_IOC_FILE_INFO, '>' 4 (status
// at 32: 1 when it ended well).
static int file_request(int fd, unsigned long request, uint8_t *b)
{
    unsigned type = request >> 8 & 0xff, nr = request & 0xff;
    if (fd != FENCE_FD && type == 'b' && nr == 2 && read_le32(b) == 1) {
        write_le32(b + 4, FENCE_FD);
        counts.fences++;
        return 0;
    }
    if (fd != FENCE_FD || type != '>' || nr != 4)
        return standin_npu_wrong("request %#lx of file %d", request, fd);
    write_le32(b + 32, last_fence ? (uint32_t)last_fence : 1);
    return 0;
}

// ---- the calls ----

static int call_open(const char *path, int flags)
{
    (void)flags;
    errno = ENOENT;
    if (strcmp(path, STANDIN_ACCEL) != 0)
        return -1;
    counts.open_files++;
    return NODE_FD;
}

static int call_close(int fd)
{
    if (fd == FENCE_FD)
        counts.fences--;
    else
        counts.open_files--;
    return 0;
}

static int call_ioctl(int fd, unsigned long request, void *argument)
{
    int s;
    if (counts.requests++ >= set.fail_at && set.fail_times > 0) {
        set.fail_times--;
        counts.kept += (request & 0xffff) == ('d' << 8 | 9) && set.fail_errno != EINTR;
        s = -set.fail_errno;
    } else {
        s = fd == NODE_FD ? node_request(request, argument) : file_request(fd, request, argument);
    }
    errno = -s;
    return s < 0 ? -1 : 0;
}

static void *call_map(size_t size, int fd, uint64_t offset)
{
    struct rocket_object *o = object_of(FIRST + (uint32_t)((offset - 0x100000000u) / MAP_STEP));
    if (fd != NODE_FD || !o || size != o->size)
        standin_npu_wrong("map of %zu bytes", size);
    counts.maps++;
    return o ? o->map : NULL;
}

static int call_unmap(void *map, size_t size)
{
    (void)map;
    (void)size;
    counts.maps--;
    return 0;
}

static int call_wait(int fd, int ms)
{
    if (fd != FENCE_FD || ms <= 0)
        standin_npu_wrong("waits for %d, %d ms", fd, ms);
    return !set.hangs;
}

static const struct device_calls calls = {call_open, call_close, call_ioctl,
                                          call_map,  call_unmap, call_wait};

void rocket_standin_begin(const struct rocket_standin_settings *settings)
{
    set = *settings;
    counts = (struct rocket_standin_counts){0};
    standin_npu_begin(&calls, 0, &counts.wrong); // the driver's first address
}

struct rocket_standin_counts rocket_standin_end(void)
{
    struct rocket_standin_counts ret = counts;
    for (struct rocket_object *o = objects; o < objects + MAX_OBJECTS; o++)
        if (o->map)
            object_drop(o);
    standin_npu_end();
    return ret;
}
