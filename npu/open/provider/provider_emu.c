// The emulator in this process (npu/emu), driven as a kernel driver drives the chip.
//
// Memory is there twice, for this process and for the NPU, and only a sync copies: what a runtime
// forgets to sync is seen as it would be on a board whose caches the NPU does not see. Between
// memories are pages that are nobody's: an address that is wrong is a page fault.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "npu/buffer/buffer.h"
#include "npu/emu/emu_job.h"
#include "npu/open/provider/emu_standin.h"
#include "npu/open/provider/provider.h"
#include "npu/stop.h"
#include "tensor/chip.h"

#define PAGE          4096u
#define FIRST_ADDRESS 0x10000u
#define POINTERS      0xeu // S_POINTER: both groups in turn
#define POINTER_CORE  28   // whose
#define CNA_POINTER   0x1004u
#define CORE_POINTER  0x3004u

struct emu_provider {
    struct provider head;
    struct provider_info info;
    pthread_mutex_t lock; // of what follows: one job after another
    struct emu_memory memory;
    struct emu_npu *npu;
    struct emu_standin standin;
    bool new_registers;
};

struct emu_provider_memory {
    struct provider_memory head;
    uint8_t *device;
    bool imported; // the map is another's
};

static struct emu_provider *emu_of(struct provider *p)
{
    return (struct emu_provider *)p;
}

// ---- opening ----

static void emu_close(struct provider *p)
{
    struct emu_provider *emu = emu_of(p);
    if (!p)
        return;
    emu_npu_free(emu->npu);
    emu_memory_done(&emu->memory);
    pthread_mutex_destroy(&emu->lock);
    free(emu);
}

static int emu_open(const char *options, struct provider **ret, struct error *e)
{
    struct emu_standin standin;
    char names[CHIP_NAMES_MAX];
    int s = emu_standin_parse(options, &standin, e);
    if (s < 0)
        return s;
    const struct chip *chip = chip_find(standin.chip);
    if (!chip)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the emulator is of one chip: emu:CHIP, where \"%s\" is none of %s",
                         standin.chip, chip_names(names));
    struct emu_provider *emu = calloc(1, sizeof *emu);
    if (!emu)
        return error_no_memory(e, "the emulator", sizeof *emu);
    emu->head.ops = &provider_emu;
    emu->standin = standin;
    emu->new_registers = chip->generation == CHIP_GEN_RK3576 || chip->generation == CHIP_GEN_RK3562;
    emu->info = (struct provider_info){.driver = "none (register-level emulator)",
                                       .n_cores = chip->n_cores,
                                       .timing = NPU_TIMING_MACHINE};
    snprintf(emu->info.chip, sizeof emu->info.chip, "%s", chip->name);
    pthread_mutex_init(&emu->lock, NULL);
    s = emu_npu_new(chip->name, &emu->memory, &emu->npu, e);
    if (s < 0) {
        emu_close(&emu->head);
        return s;
    }
    emu_standin_choose(&emu->standin, emu->npu);
    *ret = &emu->head;
    return 0;
}

// The chip is the one that was asked for, with all of its cores.
static const struct provider_info *emu_info(const struct provider *p)
{
    return &((const struct emu_provider *)p)->info;
}

// ---- memory ----

// The lowest place with a free page behind it.
static uint64_t find_gap(const struct emu_memory *m, uint64_t size)
{
    uint64_t at = FIRST_ADDRESS;
    for (size_t i = 0; i < m->n && m->regions[i].address < at + size + PAGE; i++)
        at = align_up(m->regions[i].address + m->regions[i].size, PAGE) + PAGE;
    return at;
}

static void emu_memory_free(struct provider *p, struct provider_memory *memory)
{
    struct emu_provider_memory *m = (struct emu_provider_memory *)memory;
    if (!m)
        return;
    pthread_mutex_lock(&emu_of(p)->lock);
    if (m->head.address)
        emu_memory_unmap(&emu_of(p)->memory, m->head.address);
    pthread_mutex_unlock(&emu_of(p)->lock);
    if (!m->imported)
        free(m->head.map);
    free(m->device);
    free(m);
}

// Watched: a core may not touch what another has since they waited for each other.
static int emu_place(struct emu_provider *emu, struct emu_provider_memory *m, bool watched,
                     struct error *e)
{
    pthread_mutex_lock(&emu->lock);
    uint64_t at = find_gap(&emu->memory, m->head.size);
    int s = at + m->head.size > UINT32_MAX
                ? error_no_memory(e, "the emulator's 4 GB", (size_t)m->head.size)
                : emu_memory_map(&emu->memory, at, m->device, (size_t)m->head.size, e);
    if (s == 0 && watched)
        s = emu_memory_watch(&emu->memory, at, e);
    if (s < 0 && watched)
        emu_memory_unmap(&emu->memory, at);
    pthread_mutex_unlock(&emu->lock);
    if (s == 0)
        m->head.address = at;
    return s;
}

static int emu_memory_alloc(struct provider *p, uint64_t size, enum provider_use use,
                            struct provider_memory **ret, struct error *e)
{
    struct emu_provider_memory *m = calloc(1, sizeof *m);
    bool watched = emu_of(p)->standin.races && use == PROVIDER_ARENA;
    if (!m)
        return error_no_memory(e, "memory of the NPU", sizeof *m);
    m->head.size = align_up(size ? size : 1, PAGE);
    m->head.map = calloc(1, (size_t)m->head.size);
    m->device = calloc(1, (size_t)m->head.size);
    int s = m->head.map && m->device
                ? emu_place(emu_of(p), m, watched, e)
                : error_no_memory(e, "memory of the NPU", (size_t)m->head.size);
    if (s < 0) {
        emu_memory_free(p, &m->head);
        return s;
    }
    *ret = &m->head;
    return 0;
}

// Behind caches of its own, as all memory here.
static int emu_memory_import(struct provider *p, const struct npu_buffer *b,
                             struct provider_memory **ret, struct error *e)
{
    struct emu_provider_memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "memory of the NPU", sizeof *m);
    m->imported = true;
    m->head.map = b->map;
    m->head.size = b->size;
    m->device = calloc(1, (size_t)b->size);
    int s = m->device ? emu_place(emu_of(p), m, emu_of(p)->standin.races, e)
                      : error_no_memory(e, "memory of the NPU", (size_t)b->size);
    if (s < 0) {
        emu_memory_free(p, &m->head);
        return s;
    }
    *ret = &m->head;
    return 0;
}

static int emu_sync(struct provider *p, struct provider_memory *memory, uint64_t offset,
                    uint64_t size, enum provider_way way, struct error *e)
{
    struct emu_provider_memory *m = (struct emu_provider_memory *)memory;
    if (offset > m->head.size || size > m->head.size - offset)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a sync of %" PRIu64 " bytes at %" PRIu64 " of a memory of %" PRIu64, size,
                         offset, m->head.size);
    pthread_mutex_lock(&emu_of(p)->lock);
    if (way & PROVIDER_TO_DEVICE)
        memcpy(m->device + offset, m->head.map + offset, (size_t)size);
    if (way & PROVIDER_FROM_DEVICE)
        memcpy(m->head.map + offset, m->device + offset, (size_t)size);
    pthread_mutex_unlock(&emu_of(p)->lock);
    return 0;
}

// ---- jobs ----

// One core of a job: where it stands in its tasks.
struct emu_core {
    unsigned core;
    const uint8_t *records;
    uint32_t next, n;
};

static const uint8_t *record_at(const struct emu_core *c, uint32_t i)
{
    return c->records + (size_t)i * TASK_BYTES;
}

// What a driver writes before it starts the PC.
static void start_core(struct emu_npu *npu, const struct emu_core *c)
{
    const uint8_t *first = record_at(c, 0);
    emu_npu_write(npu, c->core, CNA_POINTER, POINTERS | c->core << POINTER_CORE);
    emu_npu_write(npu, c->core, CORE_POINTER, POINTERS | c->core << POINTER_CORE);
    emu_npu_write(npu, c->core, EMU_PC_TASK_DMA_BASE_ADDR, 0);
    emu_npu_write(npu, c->core, EMU_PC_BASE_ADDRESS, (uint32_t)read_le64(first + TASK_ADDRESS));
    emu_npu_write(npu, c->core, EMU_PC_REGISTER_AMOUNTS,
                  emu_npu_amount(npu, read_le32(first + TASK_AMOUNT)));
    emu_npu_write(npu, c->core, EMU_PC_TASK_CON, 1);
}

// The PC stands at the task's program, where the trailer of the one before led it.
static int check_link(struct emu_npu *npu, const struct emu_core *c, struct error *e)
{
    const uint8_t *record = record_at(c, c->next);
    uint32_t stands = emu_npu_read(npu, c->core, EMU_PC_BASE_ADDRESS);
    if (stands == read_le64(record + TASK_ADDRESS))
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "the program before leads to %#x, and the file's task begins at %#" PRIx64
                     ": its programs and its tasks do not belong together",
                     stands, read_le64(record + TASK_ADDRESS));
}

// One task. The emulator counts tasks as the chip does; they are started one by one, so that a job
// can be stopped between two.
static int run_task(struct emu_npu *npu, struct emu_core *c, struct error *e)
{
    const uint8_t *record = record_at(c, c->next);
    uint32_t wanted = read_le32(record + TASK_INTERRUPTS);
    int s = check_link(npu, c, e);
    if (s < 0)
        return s;
    emu_npu_write(npu, c->core, EMU_PC_INTERRUPT_MASK, wanted);
    emu_npu_write(npu, c->core, EMU_PC_INTERRUPT_CLEAR, read_le32(record + TASK_CLEAR));
    emu_npu_write(npu, c->core, EMU_PC_OPERATION_ENABLE, 1);
    s = emu_npu_run(npu, c->core, e);
    if (s < 0)
        return s;
    if (!emu_npu_read(npu, c->core, EMU_PC_INTERRUPT_STATUS))
        return error_set(e, STATUS_TIMEOUT, "it ends without the interrupt %#x", wanted);
    c->next++;
    return 0;
}

// Whether the core's next task is one that all cores begin together.
static bool is_shared(const struct emu_provider *emu, const struct emu_core *c)
{
    const uint8_t *record = record_at(c, c->next);
    struct emu_task task = {.commands = read_le64(record + TASK_ADDRESS),
                            .words = read_le32(record + TASK_AMOUNT)};
    return emu_task_is_shared(&emu->memory, &task);
}

// A core's tasks up to the next one that it waits for the others in front of.
static int run_part(struct emu_provider *emu, struct provider_job *job, struct emu_core *c,
                    struct error *e)
{
    for (uint32_t first = c->next; c->next < c->n;) {
        if (c->next != first && is_shared(emu, c))
            return 0;
        int s = npu_stop_check(job->stop, e);
        if (s == 0)
            s = run_task(emu->npu, c, e);
        if (s < 0) {
            const uint8_t *records = ((const struct emu_provider_memory *)job->tasks)->device;
            job->failed = (uint32_t)((record_at(c, c->next) - records) / TASK_BYTES);
            return s;
        }
    }
    return 0;
}

static int run_cores(struct emu_provider *emu, struct provider_job *job, struct emu_core *cores,
                     unsigned n, struct error *e)
{
    for (unsigned i = 0; i < n; i++)
        if (cores[i].n)
            start_core(emu->npu, &cores[i]);
    for (bool more = true; more;) {
        more = false;
        emu_memory_meet(&emu->memory);
        for (unsigned i = 0; i < n; i++) {
            int s = run_part(emu, job, &cores[i], e);
            if (s < 0)
                return s;
            more = more || cores[i].next < cores[i].n;
        }
    }
    return 0;
}

static int check_submission(const struct emu_provider *emu, const struct provider_job *job,
                            struct error *e)
{
    uint64_t room = job->tasks->size / TASK_BYTES;
    unsigned n = (unsigned)__builtin_popcount(job->core_mask);
    if (!job->core_mask || job->core_mask >> emu->info.n_cores)
        return error_set(e, STATUS_PARAM_INVALID, "cores %#x of %u", job->core_mask,
                         emu->info.n_cores);
    for (unsigned i = 0; i < n; i++)
        if (job->ranges[i].first > room || job->ranges[i].n > room - job->ranges[i].first)
            return error_set(e, STATUS_PARAM_INVALID, "tasks %u to %u of %" PRIu64,
                             job->ranges[i].first, job->ranges[i].first + job->ranges[i].n, room);
    return 0;
}

// Turns over a bit of what the first task that says where it writes has written.
static void spoil(struct emu_provider *emu, const struct emu_core *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const uint8_t *record = record_at(c, i);
        uint32_t n = read_le32(record + TASK_AMOUNT);
        const uint8_t *commands =
            emu_memory_at(&emu->memory, read_le64(record + TASK_ADDRESS), 8 * (size_t)n, NULL);
        uint64_t at = commands ? emu_standin_output(commands, n, emu->new_registers) : 0;
        uint8_t *written = at ? (uint8_t *)emu_memory_at(&emu->memory, at, 1, NULL) : NULL;
        if (written) {
            *written ^= 1;
            return;
        }
    }
}

static int emu_submit(struct provider *p, struct provider_job *job, struct error *e)
{
    struct emu_provider *emu = emu_of(p);
    const uint8_t *records = ((const struct emu_provider_memory *)job->tasks)->device;
    struct emu_core cores[PROVIDER_MAX_CORES] = {0};
    unsigned n = 0;
    int s = check_submission(emu, job, e);
    if (s < 0)
        return s;
    for (unsigned core = 0; core < emu->info.n_cores; core++)
        if (job->core_mask >> core & 1) {
            const struct provider_range *range = &job->ranges[n];
            cores[n++] = (struct emu_core){.core = core,
                                           .records = records + (size_t)range->first * TASK_BYTES,
                                           .n = range->n};
        }
    pthread_mutex_lock(&emu->lock);
    bool wrong = false;
    s = emu_standin_before(&emu->standin, &wrong, e);
    if (s == 0)
        s = run_cores(emu, job, cores, n, e);
    if (s == 0 && wrong)
        spoil(emu, &cores[0]);
    for (unsigned i = 0; i < n && s < 0; i++) // as a driver does behind a hang
        emu_npu_reset(emu->npu, cores[i].core);
    for (unsigned i = 0; i < n && s == 0 && emu->standin.others; i++)
        emu_npu_disturb(emu->npu, cores[i].core);
    pthread_mutex_unlock(&emu->lock);
    return s;
}

const struct provider_ops provider_emu = {
    .name = "emu",
    .open = emu_open,
    .free = emu_close,
    .info = emu_info,
    .memory_new = emu_memory_alloc,
    .memory_free = emu_memory_free,
    .memory_sync = emu_sync,
    .memory_import = emu_memory_import,
    .submit = emu_submit,
};
