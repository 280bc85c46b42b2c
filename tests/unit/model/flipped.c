// A program may have its intermediate results in memory of its own (rknn_set_internal_mem), and
// write there while they are computed: indices, shapes and counts are others when they are used
// than when they were looked at. Whatever comes out, nothing outside of that memory is read or
// written, and all ends: a worker runs other programs, too. ONNX's own tests of operators (Debian:
// libonnx-testdata), run again and again while a signal handler writes numbers.
//
// onnx_flipped [MS [NAME]]: so long with each case whose name has NAME in it. With a sanitizer it
// sees more.
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "npu/npu.h"
#include "onnx_case.h"

#define ROOT   "/usr/share/libonnx-testdata/data/node"
#define MEMORY (64ul << 20)
#define BESIDE (4ul << 30) // where nothing is

#define EVERY_US 37
#define MOST     16 // numbers at once
#define LATE_US  1000000

static struct flip {
    uint8_t *memory; // MEMORY bytes
    size_t size;     // that the model uses
    uint64_t end_us, state;
    atomic_bool stop;
    uint64_t us; // of each case
    unsigned n_runs, n_failed;
} flip = {.state = 88172645463325252u};

int __wrap_sim_run(const struct npu_backend *b, struct npu_model *m, const struct npu_input *inputs,
                   void **outputs, struct error *e);

static uint64_t next_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t any_value(uint64_t *state)
{
    static const uint64_t ends[] = {0,          1,          2,       UINT64_MAX, INT64_MAX,
                                    UINT32_MAX, INT32_MAX,  1 << 20, 1ull << 40, 1ull << 63,
                                    0x7f800000, 0x7fc00000, 255,     1000000007, 1u << 31};
    uint64_t n = next_number(state);
    return n & 3 ? ends[(n >> 2) % (sizeof ends / sizeof *ends)] : n >> (n >> 58);
}

// Between any two instructions of the run, also where a machine has one processor. A loop's count
// is changed as well: a run that goes on is told to end, as those of clients.
static void write_numbers(int number)
{
    (void)number;
    for (size_t i = 0; i < MOST && i < flip.size / 4; i++) {
        uint64_t v = any_value(&flip.state), at = next_number(&flip.state) % flip.size;
        if (v & 1)
            *(volatile uint64_t *)(flip.memory + at / 8 * 8) = v;
        else
            *(volatile uint32_t *)(flip.memory + at / 4 * 4) = (uint32_t)v;
    }
    if (clock_us() > flip.end_us + LATE_US)
        atomic_store(&flip.stop, true);
}

static void write_every(suseconds_t us)
{
    setitimer(ITIMER_REAL, &(struct itimerval){{0, us}, {0, us}}, NULL);
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

static void run_once(struct npu_context *c, const struct npu_input *inputs,
                     const struct npu_output *outputs, struct error *e)
{
    int status = 0;
    struct npu_job job = {.inputs = inputs,
                          .outputs = outputs,
                          .core_mask = 1,
                          .stop = &flip.stop,
                          .done = note_done,
                          .owner = &status};
    flip.n_runs++;
    flip.n_failed += npu_backend.context_submit(c, &job, e) < 0 || status < 0;
    if (status < 0 && !job.error.text[0])
        abort();
}

// In place of onnx_case.c's: its results are nobody's then.
int __wrap_sim_run(const struct npu_backend *b, struct npu_model *m, const struct npu_input *inputs,
                   void **outputs, struct error *e)
{
    const struct npu_model_info *info = b->model_info(m);
    struct npu_output out[64];
    struct npu_context *c;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        out[i] = (struct npu_output){.size = info->outputs[i].logical.size};
        out[i].data = outputs[i] = calloc(1, out[i].size + 1);
    }
    int r = b->context_new(m, &c, e);
    if (r < 0)
        return r;
    flip.size = info->internal_size > 64 ? info->internal_size : 64;
    flip.size = flip.size < MEMORY ? flip.size : MEMORY;
    b->context_set_internal(c, flip.memory, MEMORY, NULL, e);
    flip.stop = false;
    flip.end_us = clock_us() + flip.us;
    write_every(EVERY_US);
    while (clock_us() < flip.end_us)
        run_once(c, inputs, out, e);
    write_every(0);
    b->context_free(c);
    return 0;
}

static int is_test(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct npu_device *device;
    struct error e;
    struct dirent **list;
    char folder[512];
    uint8_t *all = mmap(NULL, 2 * BESIDE + MEMORY, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    flip.us = 1000u * (argc > 1 ? (unsigned)atoi(argv[1]) : 20);
    flip.memory = all + BESIDE;
    signal(SIGALRM, write_numbers);
    if (all == MAP_FAILED || mprotect(flip.memory, MEMORY, PROT_READ | PROT_WRITE) < 0 ||
        npu_backend.device_open("", &device, &e) < 0)
        return 1;
    int count = scandir(ROOT, &list, is_test, alphasort);
    if (count < 0) {
        printf("skipped: " ROOT " is not there (Debian: libonnx-testdata)\n");
        return 77;
    }
    for (int i = 0; i < count; i++) {
        snprintf(folder, sizeof folder, ROOT "/%s", list[i]->d_name);
        if (argc < 3 || strstr(folder, argv[2])) {
            fprintf(stderr, "%s\r\n", list[i]->d_name); // the last one is where it ended
            onnx_case_run(device, folder, &e);
        }
        free(list[i]);
    }
    free(list);
    npu_backend.device_free(device);
    printf("%u runs, %u of them failed\n", flip.n_runs, flip.n_failed);
    return 0;
}
