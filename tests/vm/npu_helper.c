// Computes the jobs of the module's nodes (tests/vm/module) on the emulator of a chip: usage
// npu_helper CHIP [WATCHED]. While there is a file WATCHED, each job's memory is looked through for
// its bytes, and how many memories have them is written to WATCHED.found, a line for each job.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/support/emu/emu_records.h"
#include "tests/vm/module/npu_module.h"

#define ROOM (1u << 20)

struct helper {
    struct emu_memory memory;
    struct emu_npu *npu;
};

static int fail(const char *what)
{
    perror(what);
    return -EIO;
}

// The job's memory, at the NPU's addresses; all files are closed. How many were mapped.
static uint32_t map_files(struct helper *h, const struct npu_message *job,
                          const struct npu_file *files)
{
    uint32_t mapped = 0;
    struct error e = {0};
    for (uint32_t i = 0; i < job->n_files; i++) {
        const struct npu_file *f = &files[i];
        void *at = MAP_FAILED;
        if (mapped == i)
            at = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
        if (at != MAP_FAILED && emu_memory_map(&h->memory, f->address, at, f->size, &e) == 0)
            mapped++;
        else
            fprintf(stderr, "file %u of %llu bytes is not mapped: %s\n", i, f->size, e.text);
        close(f->fd);
    }
    return mapped;
}

static void unmap_files(struct helper *h)
{
    for (size_t i = 0; i < h->memory.n; i++)
        munmap(h->memory.regions[i].host, h->memory.regions[i].size);
    emu_memory_done(&h->memory);
    h->memory = (struct emu_memory){0};
}

// The maker's driver: chains of tasks, each core's, by their records.
static int run_records(struct helper *h, const struct npu_message *job, uint32_t *done,
                       struct error *e)
{
    struct emu_records_core cores[NPU_CORES];
    unsigned n = 0;
    uint32_t end = 0;
    for (unsigned core = 0; core < NPU_CORES; core++)
        if (job->core_mask >> core & 1) {
            cores[n] = (struct emu_records_core){core, job->first[n], job->n[n]};
            end = job->first[n] + job->n[n] > end ? job->first[n] + job->n[n] : end;
            n++;
        }
    const uint8_t *records = emu_memory_at(&h->memory, job->records, (size_t)end * 40, e);
    return records ? emu_records_run(h->npu, &h->memory, records, cores, n, done, e) : STATUS_FAIL;
}

// Mainline's: each task is a start of its own, and its end is that of the DPU alone.
static int run_tasks(struct helper *h, const struct npu_message *job, const struct npu_task *tasks,
                     uint32_t *done, struct error *e)
{
    int s = 0;
    for (uint32_t i = 0; i < job->n_tasks && s == 0; i++) {
        struct emu_task task = {tasks[i].commands, tasks[i].words - EMU_TRAILER_WORDS,
                                EMU_INTERRUPT_DPU};
        struct emu_job one = {.tasks = &task, .n = 1};
        struct emu_result result;
        s = emu_job_run(h->npu, &one, &result, e);
        *done += s == 0;
    }
    if (s < 0)
        emu_npu_reset(h->npu, 0);
    return s;
}

static void look_for_copies(const struct helper *h, const char *watched)
{
    char path[256];
    unsigned found = 0;
    FILE *f = fopen(watched, "rb");
    if (!f)
        return;
    static uint8_t bytes[1 << 16];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i < h->memory.n && n; i++)
        found += memmem(h->memory.regions[i].host, h->memory.regions[i].size, bytes, n) != NULL;
    snprintf(path, sizeof path, "%s.found", watched);
    f = fopen(path, "a");
    if (f) {
        fprintf(f, "%u\n", found);
        fclose(f);
    }
}

static struct npu_answer run_job(struct helper *h, const struct npu_message *job,
                                 const char *watched)
{
    const struct npu_file *files = (const void *)(job + 1);
    const struct npu_task *tasks = (const void *)(files + job->n_files);
    struct npu_answer answer = {.id = job->id};
    struct error e = {0};
    int s = STATUS_FAIL;
    bool mapped = map_files(h, job, files) == job->n_files;
    if (mapped && watched)
        look_for_copies(h, watched);
    if (mapped)
        s = job->kind == NPU_RKNPU ? run_records(h, job, &answer.done, &e)
                                   : run_tasks(h, job, tasks, &answer.done, &e);
    unmap_files(h);
    if (s < 0)
        fprintf(stderr, "job %llu: %s\n", job->id, e.text);
    answer.status = s < 0 ? -ETIMEDOUT : 0;
    return answer;
}

int main(int n, char **words)
{
    static uint64_t room[ROOM / 8];
    struct helper h = {0};
    struct error e = {0};
    int fd = open(NPU_HELPER_NODE, O_RDWR | O_CLOEXEC);
    if (n < 2 || n > 3 || fd < 0 || emu_npu_new(words[1], &h.memory, &h.npu, &e) < 0) {
        fprintf(stderr, "npu_helper CHIP [WATCHED]: %s\n", e.text);
        return 1;
    }
    for (;;) {
        ssize_t got = read(fd, room, sizeof room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail("read");
        struct npu_answer answer = run_job(&h, (const void *)room, n > 2 ? words[2] : NULL);
        if (write(fd, &answer, sizeof answer) < 0 && errno != ENOENT)
            return fail("write");
    }
}
