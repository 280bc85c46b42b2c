#include "tests/unit/npu/open/kernel_standin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "tests/support/emu/emu_records.h"
#include "tests/unit/npu/open/standin_npu.h"

#define FIRST_FD    5000
#define MAX_OBJECTS 32
#define OBJECT_BASE 0xffff800012340000u
#define HANDLE_BASE 71u

struct object {
    uint8_t *map, *device;
    uint64_t size, address;
    uint32_t flags;
    bool used, imported, begun; // begun: a CPU accesses the dma-buf
    int file;                   // of an import
    ino_t inode;
};

static struct standin_settings set;
static struct standin_counts counts;
static struct object objects[MAX_OBJECTS];

// ---- the tables ----

// A field of a structure: what it may hold when a request is made.
struct field {
    const char *name;
    unsigned at, bytes;
    enum { ANY, ZERO, BITS, OUT } kind; // OUT: the driver writes it; 0 before
    uint64_t bits;                      // that may be set
};

static const struct field action[] = {{"flags", 0, 4, BITS, 0x1f}, {"value", 4, 4, OUT, 0}, {0}};
static const struct field create[] = {
    {"handle", 0, 4, ANY, 0},     {"flags", 4, 4, BITS, 0x1bb},  {"size", 8, 8, ANY, 0},
    {"obj_addr", 16, 8, OUT, 0},  {"dma_addr", 24, 8, OUT, 0},   {"sram_size", 32, 8, ANY, 0},
    {"domain", 40, 4, BITS, 0xf}, {"core_mask", 44, 4, ZERO, 0}, {0}};
static const struct field map_at[] = {
    {"handle", 0, 4, ANY, 0}, {"reserved", 4, 4, ZERO, 0}, {"offset", 8, 8, OUT, 0}, {0}};
static const struct field destroy[] = {
    {"handle", 0, 4, ANY, 0}, {"reserved", 4, 4, ZERO, 0}, {"obj_addr", 8, 8, ANY, 0}, {0}};
static const struct field sync_of[] = {{"flags", 0, 4, BITS, 3},   {"reserved", 4, 4, ZERO, 0},
                                       {"obj_addr", 8, 8, ANY, 0}, {"offset", 16, 8, ANY, 0},
                                       {"size", 24, 8, ANY, 0},    {0}};
static const struct field submit[] = {
    {"flags", 0, 4, BITS, 5},         {"timeout", 4, 4, ANY, 0},
    {"task_start", 8, 4, ANY, 0},     {"task_number", 12, 4, ANY, 0},
    {"task_counter", 16, 4, OUT, 0},  {"priority", 20, 4, ZERO, 0},
    {"task_obj_addr", 24, 8, ANY, 0}, {"domain", 32, 4, BITS, 0xf},
    {"reserved", 36, 4, ZERO, 0},     {"task_base_addr", 40, 8, ZERO, 0},
    {"elapsed", 48, 8, OUT, 0},       {"core_mask", 56, 4, BITS, 7},
    {"fence_fd", 60, 4, ANY, 0},      {0}};

static const struct request {
    const char *name;
    unsigned old_bytes, new_bytes;
    const struct field *fields;
} requests[] = {{"ACTION", 8, 8, action},         {"SUBMIT", 104, 104, submit},
                {"MEM_CREATE", 40, 48, create},   {"MEM_MAP", 16, 16, map_at},
                {"MEM_DESTROY", 16, 16, destroy}, {"MEM_SYNC", 32, 32, sync_of}};

static bool is_newer(void)
{
    return set.version >= 906;
}

static uint32_t domain(void)
{
    return is_newer() ? set.domain : 0;
}

static uint64_t field_value(const uint8_t *b, const struct field *f)
{
    return f->bytes == 4 ? read_le32(b + f->at) : read_le64(b + f->at);
}

static int check_fields(const struct request *r, const uint8_t *b, unsigned size)
{
    for (const struct field *f = r->fields; f->name; f++) {
        if (f->at >= size)
            continue;
        uint64_t v = field_value(b, f);
        if ((f->kind == ZERO || f->kind == OUT) && v)
            return standin_npu_wrong("%s: %s holds %#llx", r->name, f->name, (unsigned long long)v);
        if (f->kind == BITS && v & ~f->bits)
            return standin_npu_wrong("%s: %s holds %#llx of %#llx", r->name, f->name,
                                     (unsigned long long)v, (unsigned long long)f->bits);
    }
    return 0;
}

// ---- objects ----

static ino_t inode_of(int file)
{
    struct stat st;
    return fstat(file, &st) < 0 ? 0 : st.st_ino;
}

static struct object *object_by(uint64_t value, uint64_t base)
{
    uint64_t i = value - base;
    return i < MAX_OBJECTS && objects[i].used ? &objects[i] : NULL;
}

static struct object *object_of(uint64_t address)
{
    return object_by(address, OBJECT_BASE);
}

static uint64_t place(uint64_t size, uint32_t flags)
{
    bool low = ((flags & 0x80) != 0) == set.flag_means_low;
    return standin_npu_place(size) + (set.starts_high && !low ? 1ull << 33 : 0);
}

static struct object *free_object(void)
{
    for (struct object *o = objects; o < objects + MAX_OBJECTS; o++)
        if (!o->used)
            return o;
    return NULL;
}

static void tell_object(const struct object *o, uint8_t *b)
{
    write_le64(b + 8, o->size);
    write_le64(b + 16, OBJECT_BASE + (uint64_t)(o - objects));
    write_le64(b + 24, o->address);
}

// Of a dma-buf that has a handle already; a driver that does not know it makes other memory.
static int tell_import(uint8_t *b)
{
    struct object *o = object_by(read_le32(b), HANDLE_BASE);
    if (!o || !o->imported)
        return standin_npu_wrong("MEM_CREATE with handle %u", read_le32(b));
    tell_object(o, b);
    return 0;
}

// drm_prime_handle: handle, flags, fd. One handle for one file.
static int do_prime(uint8_t *b)
{
    struct stat st;
    struct error e = {0};
    int fd = (int)read_le32(b + 8);
    if (read_le32(b) || read_le32(b + 4) || fstat(fd, &st) < 0)
        return standin_npu_wrong("PRIME_FD_TO_HANDLE of %d", fd);
    for (struct object *o = objects; o < objects + MAX_OBJECTS; o++)
        if (o->used && o->imported && o->inode == st.st_ino) {
            write_le32(b, HANDLE_BASE + (uint32_t)(o - objects));
            return 0;
        }
    struct object *o = free_object();
    if (!o)
        return -ENOMEM;
    *o = (struct object){.size = (uint64_t)st.st_size,
                         .used = true,
                         .imported = true,
                         .file = fd,
                         .inode = st.st_ino};
    o->address = place(o->size, set.flag_means_low ? 0 : 0x80);
    o->device = calloc(1, o->size);
    o->map = mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!o->device || o->map == MAP_FAILED ||
        emu_memory_map(&standin.memory, o->address, o->device, o->size, &e))
        return standin_npu_wrong("PRIME_FD_TO_HANDLE: %s", e.text);
    counts.objects++;
    counts.imports++;
    write_le32(b, HANDLE_BASE + (uint32_t)(o - objects));
    return 0;
}

static int do_create(uint8_t *b, unsigned size)
{
    uint64_t bytes = read_le64(b + 8);
    uint32_t handle = read_le32(b), flags = read_le32(b + 4);
    struct object *o = free_object();
    struct error e = {0};
    if (handle && !set.misc && !set.ignores_handles)
        return tell_import(b);
    if (!o)
        return -ENOMEM;
    if (!bytes || bytes % 4096 || ((handle != 0) != set.misc && !set.ignores_handles))
        return standin_npu_wrong("MEM_CREATE of %llu bytes, handle %u", (unsigned long long)bytes,
                                 handle);
    if (((flags & 0x11) == 0x11) == set.no_iommu || !(flags & 2))
        return standin_npu_wrong("MEM_CREATE with flags %#x", flags);
    if ((flags & 0x100) != 0) {
        if (read_le64(b + 32) > bytes || read_le64(b + 32) > 0x60000)
            return standin_npu_wrong("SRAM of %llu bytes", (unsigned long long)read_le64(b + 32));
        counts.sram += read_le64(b + 32);
    }
    if (size == 48 && read_le32(b + 40) != domain())
        return standin_npu_wrong("domain %u", read_le32(b + 40));
    *o = (struct object){
        .size = bytes - set.lacks, .flags = flags, .used = true, .file = (int)handle};
    o->address = place(bytes, flags);
    o->inode = set.misc ? inode_of((int)handle) : 0;
    o->device = calloc(1, bytes);
    if (set.misc)
        o->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)handle, 0);
    else
        o->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!o->device || o->map == MAP_FAILED ||
        emu_memory_map(&standin.memory, o->address, o->device, bytes, &e))
        return standin_npu_wrong("MEM_CREATE: %s", e.text);
    counts.objects++;
    write_le32(b, set.misc ? handle : HANDLE_BASE + (uint32_t)(o - objects));
    tell_object(o, b);
    return 0;
}

static void drop(struct object *o)
{
    counts.imports -= o->imported;
    emu_memory_unmap(&standin.memory, o->address);
    free(o->device);
    munmap(o->map, o->size + (o->imported ? 0 : set.lacks));
    *o = (struct object){0};
    counts.objects--;
}

static int do_destroy(uint8_t *b)
{
    struct object *o = object_of(read_le64(b + 8));
    if (!o || (!set.misc && read_le32(b) != HANDLE_BASE + (unsigned)(o - objects)))
        return standin_npu_wrong("MEM_DESTROY of what is not there");
    drop(o);
    return 0;
}

static int do_sync(const uint8_t *b)
{
    struct object *o = object_of(read_le64(b + 8));
    uint64_t at = read_le64(b + 16), n = read_le64(b + 24);
    if (!o || o->imported || !n || at > o->size || n > o->size - at || !read_le32(b))
        return standin_npu_wrong("MEM_SYNC of %llu bytes at %llu", (unsigned long long)n,
                                 (unsigned long long)at);
    if (read_le32(b) & 1)
        memcpy(o->device + at, o->map + at, n);
    if (read_le32(b) & 2)
        memcpy(o->map + at, o->device + at, n);
    counts.syncs++;
    counts.synced += n;
    return 0;
}

// DMA_BUF_IOCTL_SYNC of a file: flags (1 read, 2 write, 4 end).
static int do_file_sync(int fd, const uint8_t *b)
{
    uint64_t flags = read_le64(b);
    int n = 0;
    for (struct object *o = objects; o < objects + MAX_OBJECTS; o++) {
        if (!o->used || o->file != fd || (!o->imported && !set.misc))
            continue;
        if (!(flags & 3) || flags & ~7ull || o->begun != ((flags & 4) != 0))
            return standin_npu_wrong("DMA_BUF_IOCTL_SYNC %llu", (unsigned long long)flags);
        if (flags == 6)
            memcpy(o->device, o->map, o->size);
        if (flags == 1)
            memcpy(o->map, o->device, o->size);
        o->begun = !(flags & 4);
        n++;
    }
    counts.syncs++;
    return n ? 0 : standin_npu_wrong("DMA_BUF_IOCTL_SYNC of file %d", fd);
}

static int do_gem_close(const uint8_t *b)
{
    struct object *o = object_by(read_le32(b), HANDLE_BASE);
    if (!o || !o->imported || read_le32(b + 4))
        return standin_npu_wrong("GEM_CLOSE of %u", read_le32(b));
    drop(o);
    return 0;
}

static const void *watched;
static ino_t watched_file;
static size_t n_watched;
static unsigned copies;

void standin_watch(int file, const void *bytes, size_t n)
{
    watched_file = inode_of(file);
    watched = bytes;
    n_watched = n;
    copies = 0;
}

unsigned standin_copies(void)
{
    return copies;
}

static void look_for_copies(void)
{
    unsigned found = 0;
    for (const struct object *o = objects; o < objects + MAX_OBJECTS && n_watched; o++)
        found += o->used && o->inode != watched_file &&
                 memmem(o->map, o->size, watched, n_watched) != NULL;
    copies = found > copies ? found : copies;
}

// ---- jobs ----

static int do_submit(uint8_t *b)
{
    struct object *o = object_of(read_le64(b + 24));
    uint32_t mask = read_le32(b + 56), done, sum = 0;
    struct emu_records_core cores[3] = {0};
    struct error e = {0};
    unsigned n = 0, n_cores = (unsigned)__builtin_popcount(mask);
    if (set.submit_errno)
        return -set.submit_errno;
    if (!o || !(o->flags & 8) || (read_le32(b) & 1) == 0 || !read_le32(b + 4))
        return standin_npu_wrong("SUBMIT without records, or not by the PC");
    if (!mask || mask == 5 || mask == 6)
        return standin_npu_wrong("SUBMIT to cores %#x", mask);
    if (read_le32(b + 32) != domain())
        return standin_npu_wrong("SUBMIT in domain %u", read_le32(b + 32));
    for (unsigned core = 0; core < 3; core++) {
        const uint8_t *sub = b + 64 + 8 * (n_cores == 3 ? core + 2 : core);
        if (!(mask >> core & 1))
            continue;
        cores[n] = (struct emu_records_core){core, read_le32(sub), read_le32(sub + 4)};
        sum += cores[n].n;
        if ((uint64_t)cores[n].first + cores[n].n > o->size / 40 || !cores[n].n)
            return standin_npu_wrong("SUBMIT of records behind their end");
        n++;
    }
    if (sum != read_le32(b + 12) || cores[0].first != read_le32(b + 8))
        return standin_npu_wrong("SUBMIT of %u tasks, of all cores %u", read_le32(b + 12), sum);
    look_for_copies();
    counts.submits++;
    counts.cores |= mask;
    int s = emu_records_run(standin.npu, &standin.memory, o->device, cores, n, &done, &e);
    write_le32(b + 16, done);
    write_le64(b + 48, 1000);
    if (s < 0)
        fprintf(stderr, "stand-in: %s\n", e.text);
    return s == 0                                                  ? 0
           : s == STATUS_TIMEOUT || s == STATUS_DEVICE_UNAVAILABLE ? -ETIMEDOUT
                                                                   : -EINVAL;
}

static int do_action(uint8_t *b)
{
    uint32_t values[] = {[0] = 0x46495245, [1] = set.version, [18] = !set.no_iommu,
                         [22] = 0x80000,   [23] = 0x60000,    [24] = domain()};
    uint32_t what = read_le32(b);
    if (what != 0 && what != 1 && what != 18 && what != 22 && what != 23 && what != 24)
        return standin_npu_wrong("ACTION %u", what);
    if (what == 24 && !is_newer())
        return standin_npu_wrong("ACTION 24 of an old driver");
    write_le32(b + 4, values[what]);
    return 0;
}

static int do_request(unsigned nr, uint8_t *b, unsigned size)
{
    bool newer = is_newer() != set.other_size;
    if (nr >= sizeof requests / sizeof *requests)
        return standin_npu_wrong("request %u", nr);
    if (size != (newer ? requests[nr].new_bytes : requests[nr].old_bytes))
        return nr == 2 && set.other_size
                   ? -ENOTTY
                   : standin_npu_wrong("%s of %u bytes", requests[nr].name, size);
    int s = check_fields(&requests[nr], b, size);
    if (s < 0)
        return s;
    switch (nr) {
    case 0:
        return do_action(b);
    case 1:
        return do_submit(b);
    case 2:
        return do_create(b, size);
    case 3: {
        struct object *o = object_by(read_le32(b), HANDLE_BASE);
        if (!o || set.misc)
            return standin_npu_wrong("MEM_MAP of what is not there");
        write_le64(b + 8, 0x100000000u + (uint64_t)(o - objects) * 0x10000000u);
        return 0;
    }
    case 4:
        return do_destroy(b);
    default:
        return do_sync(b);
    }
}

// ---- the calls ----

static int call_open(const char *path, int flags)
{
    (void)flags;
    errno = set.denies_nodes ? EACCES : ENOENT;
    if (strcmp(path, set.misc ? STANDIN_MISC : STANDIN_DRM) != 0 || set.denies_nodes)
        return -1;
    counts.open_files++;
    return FIRST_FD;
}

static int call_close(int fd)
{
    if (fd != FIRST_FD)
        return standin_npu_wrong("close of %d", fd);
    counts.open_files--;
    return 0;
}

// struct drm_version: name_len at 16, name at 24.
static int drm_version(uint8_t *b)
{
    char *name;
    memcpy(&name, b + 24, sizeof name);
    memcpy(name, "rknpu", 5);
    write_le64(b + 16, 5);
    return 0;
}

static int call_ioctl(int fd, unsigned long request, void *argument)
{
    unsigned type = request >> 8 & 0xff, nr = request & 0xff, size = request >> 16 & 0x3fff;
    unsigned direction = (unsigned)(request >> 30);
    int s;
    if (fd == FIRST_FD && direction != (type == 'd' && nr == 9 ? 1 : 3))
        s = standin_npu_wrong("request %#lx of file %d", request, fd);
    else if (counts.requests++ >= set.fail_at && set.fail_times > 0) {
        set.fail_times--;
        counts.kept += (nr == (set.misc ? 4 : 0x44) || (nr == 9 && type == 'd')) &&
                       set.fail_errno != EINTR && set.fail_errno != EAGAIN;
        s = -set.fail_errno;
    } else if (type == 'd' && nr == 0 && !set.misc)
        s = drm_version(argument);
    else if (fd != FIRST_FD)
        s = type == 'b' && nr == 0 && size == 8 && direction == 1
                ? do_file_sync(fd, argument)
                : standin_npu_wrong("request %#lx of file %d", request, fd);
    else if (type == 'd' && nr == 0x2e && size == 12 && !set.misc)
        s = do_prime(argument);
    else if (type == 'd' && nr == 9 && size == 8 && !set.misc)
        s = do_gem_close(argument);
    else if (type == (set.misc ? 'r' : 'd') && nr >= (set.misc ? 0u : 0x40u))
        s = do_request(nr - (set.misc ? 0u : 0x40u), argument, size);
    else
        s = standin_npu_wrong("request %#lx", request);
    errno = -s;
    return s < 0 ? -1 : 0;
}

static void *call_map(size_t size, int fd, uint64_t offset)
{
    struct object *o = object_by((offset - 0x100000000u) / 0x10000000u, 0);
    errno = ENOMEM;
    if (set.map_fails)
        return MAP_FAILED;
    if (fd != FIRST_FD || !o || size != o->size) {
        standin_npu_wrong("map of %zu bytes", size);
        return MAP_FAILED;
    }
    counts.maps++;
    return o->map;
}

static int call_unmap(void *map, size_t size)
{
    (void)map;
    (void)size;
    counts.maps--;
    return 0;
}

static const struct device_calls calls = {call_open, call_close, call_ioctl,
                                          call_map,  call_unmap, NULL};

void standin_begin(const struct standin_settings *settings)
{
    set = *settings;
    counts = (struct standin_counts){0};
    standin_npu_begin(&calls, 0x10000, &counts.wrong);
}

struct standin_counts standin_counts(void)
{
    return counts;
}

struct standin_counts standin_end(void)
{
    struct standin_counts ret = counts;
    for (struct object *o = objects; o < objects + MAX_OBJECTS; o++)
        if (o->used)
            drop(o);
    standin_npu_end();
    return ret;
}
