// What the open runtime takes of the processor for a segment, beside the driver's request that
// starts it: bench_open MODEL [OPTIONS]. OPTIONS as behind `open:`, "rknpu:,compatible=FILE";
// without them a kernel that does nothing is in place of the driver (silent_kernel.h).
//
// A run is measured with all nodes in as few segments as can be, and with as many as can be; the
// last request of a run is repeated by itself. Processor time of this process, best of several.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "npu/open/provider/rknpu_abi.h"
#include "tests/bench/open/silent_kernel.h"
#include "tests/support/sim_run.h"

#define ROUNDS   7
#define MAX_PORT 64

// ---- requests, counted on their way ----

static const struct device_calls *below;
static struct {
    unsigned submits, syncs;
    uint64_t synced; // bytes
    int fd;
    unsigned long request;
    struct rknpu_submit submit;
} seen;

static int count_ioctl(int fd, unsigned long request, void *argument)
{
    unsigned nr = (unsigned)(request & 0xff) % RKNPU_DRM_FIRST;
    if (nr == RKNPU_SUBMIT && ((request >> 16) & 0x3fff) == sizeof seen.submit) {
        seen.submits++;
        seen.fd = fd;
        seen.request = request;
        memcpy(&seen.submit, argument, sizeof seen.submit);
    }
    if (nr == RKNPU_MEM_SYNC && ((request >> 16) & 0x3fff) == sizeof(struct rknpu_mem_sync)) {
        seen.syncs++;
        seen.synced += ((const struct rknpu_mem_sync *)argument)->size;
    }
    return below->ioctl(fd, request, argument);
}

// ---- runs ----

static double processor_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct ports {
    struct npu_input inputs[MAX_PORT];
    struct npu_output outputs[MAX_PORT];
};

static void make_ports(const struct sim_run *s, struct ports *p)
{
    for (uint32_t i = 0; i < s->info->n_inputs; i++) {
        size_t size = s->info->inputs[i].logical.size;
        p->inputs[i] = (struct npu_input){.data = calloc(1, size), .size = size, .converted = true};
    }
    for (uint32_t i = 0; i < s->info->n_outputs; i++) {
        size_t size = s->info->outputs[i].logical.size;
        p->outputs[i] = (struct npu_output){.data = malloc(size), .size = size};
    }
}

static int no_wait(struct npu_slices *slices, struct error *e)
{
    (void)slices;
    (void)e;
    return 0;
}

static const atomic_bool never;

// Us of a run, and what it asked for.
static int measure_runs(struct sim_run *s, const struct ports *p, unsigned n_runs, double *ret,
                        struct error *e)
{
    double best = 1e300;
    for (int round = 0; round < ROUNDS; round++) {
        double start = processor_us();
        for (unsigned i = 0; i < n_runs; i++) {
            seen.submits = seen.syncs = 0;
            seen.synced = 0;
            int r = sim_run_once(s, p->inputs, p->outputs, e);
            if (r < 0)
                return r;
        }
        double us = (processor_us() - start) / n_runs;
        best = us < best ? us : best;
    }
    *ret = best;
    return 0;
}

// The last run's last request, by itself.
static double measure_request(unsigned n)
{
    double best = 1e300;
    for (int round = 0; round < ROUNDS; round++) {
        double start = processor_us();
        for (unsigned i = 0; i < n; i++) {
            struct rknpu_submit again = seen.submit;
            again.task_counter = 0;
            again.hw_elapse_time = 0;
            if (below->ioctl(seen.fd, seen.request, &again) < 0)
                return -1;
        }
        double us = (processor_us() - start) / n;
        best = us < best ? us : best;
    }
    return best;
}

static int bench(struct sim_run *s, unsigned n_runs, struct error *e)
{
    struct npu_slices slices = {.us = 1, .wanted = &never, .wait = no_wait};
    static struct ports p;
    double few = 0, many = 0;
    make_ports(s, &p);
    int r = measure_runs(s, &p, n_runs, &few, e);
    unsigned n_few = seen.submits, syncs = seen.syncs;
    uint64_t synced = seen.synced;
    s->slices = &slices;
    if (r == 0)
        r = measure_runs(s, &p, n_runs, &many, e);
    s->slices = NULL;
    if (r < 0)
        return r;
    unsigned n_many = seen.submits;
    double bare = measure_request(n_runs * 10);
    printf("%u segments: %.1f us a run, %u syncs of %llu bytes\n", n_few, few, syncs,
           (unsigned long long)synced);
    printf("%u segments: %.1f us a run, %u syncs of %llu bytes\n", n_many, many, seen.syncs,
           (unsigned long long)seen.synced);
    if (n_many <= n_few)
        return error_set(e, STATUS_FAIL, "the model has no more segments: nothing to compare");
    double each = (many - few) / (n_many - n_few);
    printf("a segment: %.2f us, its request by itself %.2f us: %.2f us beside it, ratio %.2f\n",
           each, bare, each - bare, each / bare);
    return 0;
}

int main(int n, char **words)
{
    struct device_calls counting;
    struct sim_run s;
    struct error e = {0};
    char options[128] = "", chip[] = "/tmp/bench-open-XXXXXX";
    if (n < 2) {
        fprintf(stderr, "bench_open MODEL [OPTIONS]\n");
        return 2;
    }
    int fd = mkstemp(chip);
    if (fd < 0 || write(fd, "our,board\0rockchip,rk3588", 26) != 26)
        return 1;
    close(fd);
    below = n > 2 ? device_calls : &silent_kernel;
    counting = *below;
    counting.ioctl = count_ioctl;
    device_calls = &counting;
    snprintf(options, sizeof options, "%s%s",
             n > 2 ? words[2] : "rknpu:,compatible=", n > 2 ? "" : chip);
    int r = sim_run_init_with(&s, options, words[1], &e);
    if (r == 0)
        r = bench(&s, n > 2 ? 20 : 2000, &e);
    if (r < 0)
        fprintf(stderr, "%s\n", e.text);
    sim_run_done(&s);
    remove(chip);
    return r < 0;
}
