// Backend "null": takes any bytes for a model and repeats its input. For benchmarks and tests of
// the service itself.
//
// Options: "IN_BYTES:OUT_BYTES" (default 64:64), then any of
//   ,delay_us=N   every job takes N microseconds, unless it is stopped
//   ,crash=N      the N-th job of the process aborts it (first: 1)
//   ,hang=N       the N-th job of the process never ends
//   ,cores=N      the device has N cores (default 3)
//   ,log=N        every job logs N lines, as details
//   ,fill=N       only the first N bytes of the output are written (default: all): with 0, what is
//                 measured is the service alone
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "npu/npu.h"
#include "npu/pace.h"

#define MAX_BYTES (1u << 30)
#define MAX_CORES 32

// Everything is set by the options and constant afterwards: any thread.
struct npu_device {
    struct npu_device_info info;
    uint64_t in_bytes, out_bytes, delay_us, crash_at, hang_at, fill, n_lines;
};

struct npu_model {
    const struct npu_device *device;
    struct tensor_io input, output;
    struct npu_model_info info;
};

struct npu_context {
    const struct npu_model *model;
    struct npu_layer layer;
    size_t n_layers;
};

// Counts jobs over all contexts, so that "the N-th job" means the same however clients share it.
static atomic_ullong n_jobs;

// A decimal number of at most `max`; advances *text. -1: none, or too large.
static int parse_number(const char **text, uint64_t max, uint64_t *ret)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    errno = 0;
    unsigned long long n = strtoull(*text, &end, 10);
    if (errno || n > max)
        return -1;
    *text = end;
    *ret = n;
    return 0;
}

// One ",key=N" at *text.
static int parse_extra(struct npu_device *d, const char **text)
{
    uint64_t cores = 0;
    const struct {
        const char *key;
        uint64_t max, *value;
    } keys[] = {{",delay_us=", 60000000, &d->delay_us}, {",crash=", UINT64_MAX, &d->crash_at},
                {",hang=", UINT64_MAX, &d->hang_at},    {",log=", UINT32_MAX, &d->n_lines},
                {",cores=", MAX_CORES, &cores},         {",fill=", MAX_BYTES, &d->fill}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n = strlen(keys[i].key);
        if (strncmp(*text, keys[i].key, n) != 0)
            continue;
        *text += n;
        int r = parse_number(text, keys[i].max, keys[i].value);
        if (cores)
            d->info.n_cores = (uint32_t)cores;
        return r;
    }
    return -1;
}

// "IN:OUT" may be missing; the rest are ",key=N" in any order.
static int parse_options(struct npu_device *d, const char *options, struct error *e)
{
    const char *p = options;
    if (*p && *p != ',') {
        if (parse_number(&p, MAX_BYTES, &d->in_bytes) < 0 || *p++ != ':' ||
            parse_number(&p, MAX_BYTES, &d->out_bytes) < 0 || !d->in_bytes || !d->out_bytes)
            goto bad;
    }
    while (*p)
        if (parse_extra(d, &p) < 0)
            goto bad;
    return 0;
bad:
    return error_set(e, STATUS_PARAM_INVALID,
                     "backend null: options \"%s\" are not IN_BYTES:OUT_BYTES[,delay_us=N]"
                     "[,crash=N][,hang=N][,log=N][,cores=N][,fill=N]",
                     options);
}

// never_blocks promises that context_submit() returns at once, which a delay or a hang would break.
static int device_open(const char *options, struct npu_device **ret, struct error *e)
{
    cleanup(free_p) struct npu_device *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a device", sizeof *d);
    *d = (struct npu_device){
        .info = {.chip = "null",
                 .backend = "null",
                 .runtime_version = RKNND_VERSION,
                 .driver_version = "none",
                 .n_cores = 3},
        .in_bytes = 64,
        .out_bytes = 64,
        .fill = MAX_BYTES,
    };
    int r = parse_options(d, options, e);
    if (r < 0)
        return r;
    d->info.replaces = true;
    d->info.never_blocks = !d->delay_us && !d->hang_at;
    *ret = steal_ptr(d);
    return 0;
}

static void device_free(struct npu_device *d)
{
    free(d);
}

static const struct npu_device_info *device_info(const struct npu_device *d)
{
    return &d->info;
}

// A tensor of n bytes without structure; its three forms are the same.
static void describe_bytes(struct tensor_io *io, const char *name, uint32_t n)
{
    struct tensor_attr a = {.n_dims = 1,
                            .dims = {n},
                            .n_elems = n,
                            .size = n,
                            .size_with_stride = n,
                            .scale = 1,
                            .type = TENSOR_UINT8,
                            .layout = TENSOR_UNDEFINED};
    snprintf(a.name, sizeof a.name, "%s", name);
    *io = (struct tensor_io){.logical = a, .native = a, .native_nhwc = a};
}

// Any bytes are a model; only their number is looked at.
static int model_load(struct npu_device *d, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e)
{
    struct npu_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->device = d;
    describe_bytes(&m->input, "input", (uint32_t)d->in_bytes);
    describe_bytes(&m->output, "output", (uint32_t)d->out_bytes);
    m->info = (struct npu_model_info){.n_inputs = 1,
                                      .n_outputs = 1,
                                      .inputs = &m->input,
                                      .outputs = &m->output,
                                      .weight_size = source->file.size,
                                      .internal_size = d->in_bytes + d->out_bytes,
                                      .memory_size = sizeof *m,
                                      .core_limit = d->info.n_cores,
                                      .batch = 1,
                                      .custom_string = ""};
    *ret = m;
    return 0;
}

static void model_free(struct npu_model *m)
{
    free(m);
}

static const struct npu_model_info *model_info(const struct npu_model *m)
{
    return &m->info;
}

static int model_describe(struct npu_device *d, const struct npu_model_source *source, char **ret,
                          struct error *e)
{
    char *text;
    if (asprintf(&text,
                 "{\"container\": \"null\", \"file_size\": %zu, \"input_size\": %llu, "
                 "\"output_size\": %llu}",
                 source->file.size, (unsigned long long)d->in_bytes,
                 (unsigned long long)d->out_bytes) < 0)
        return error_no_memory(e, "a description", source->file.size);
    *ret = text;
    return 0;
}

static int context_new(struct npu_model *m, struct npu_context **ret, struct error *e)
{
    struct npu_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "a context", sizeof *c);
    c->model = m;
    *ret = c;
    return 0;
}

static void context_free(struct npu_context *c)
{
    free(c);
}

// What a broken driver would do, for tests of the daemon: crash, hang, or flood the log.
static void misbehave(const struct npu_device *d)
{
    uint64_t job = atomic_fetch_add(&n_jobs, 1) + 1;
    if (job == d->crash_at)
        abort();
    while (job == d->hang_at)
        pause();
    for (uint64_t i = 1; i <= d->n_lines; i++)
        log_debug("job %llu, line %llu", (unsigned long long)job, (unsigned long long)i);
}

// The input over and over, as far as `size` reaches. Doubles what is written with each copy, so
// that a large output takes few calls.
static void repeat(const struct npu_input *in, const struct npu_output *out, size_t size)
{
    if (!out->data || size == 0)
        return;
    size_t done = in->size < size ? in->size : size;
    memcpy(out->data, in->data, done);
    while (done < size) {
        size_t n = done < size - done ? done : size - done;
        memcpy((char *)out->data + done, out->data, n);
        done += n;
    }
}

// The one layer that a job with collect_perf reports.
static void note_layer(struct npu_context *c, uint64_t time_us, uint32_t core_mask)
{
    c->layer = (struct npu_layer){.name = "Repeat:output",
                                  .op = "Repeat",
                                  .type = "UINT8",
                                  .target = "CPU",
                                  .input_shapes = "",
                                  .output_shapes = "",
                                  .time_us = time_us,
                                  .core_mask = core_mask};
    c->n_layers = 1;
}

// The output as a node's tensor, for whoever looks.
static int show_output(const struct npu_model *m, struct npu_job *job)
{
    const struct tensor_attr *attr = &m->output.logical;
    if (!job->tap || !job->tap->wants(job->tap, attr->name))
        return 0;
    cleanup(free_p) void *data = malloc(attr->size);
    if (!data)
        return error_no_memory(&job->error, "a tensor", attr->size);
    repeat(&job->inputs[0], &(struct npu_output){.data = data, .size = attr->size}, attr->size);
    struct npu_tensor t = {.attr = attr, .node = "Repeat:output", .op = "Repeat", .data = data};
    int r =
        job->tap->tensor(job->tap, &t, &job->error); // nothing follows that a change could reach
    return r < 0 ? r : 0;
}

// Runs the job on the caller's thread; done() is called before it returns.
static int context_submit(struct npu_context *c, struct npu_job *job, struct error *e)
{
    const struct npu_device *d = c->model->device;
    if (job->inputs[0].size != d->in_bytes)
        return error_set(e, STATUS_INPUT_INVALID, "input 0 has %zu bytes, the model takes %llu",
                         job->inputs[0].size, (unsigned long long)d->in_bytes);
    if (job->outputs[0].data && job->outputs[0].size != d->out_bytes)
        return error_set(e, STATUS_OUTPUT_INVALID, "output 0 has %zu bytes, the model gives %llu",
                         job->outputs[0].size, (unsigned long long)d->out_bytes);
    uint64_t start = clock_us();
    misbehave(d);
    int r = d->delay_us ? pace_until(job, start + d->delay_us, &job->error) : 0;
    if (r == 0)
        repeat(&job->inputs[0], &job->outputs[0],
               (size_t)(d->fill < d->out_bytes ? d->fill : d->out_bytes));
    job->run_us = clock_us() - start;
    c->n_layers = 0;
    if (job->collect_perf)
        note_layer(c, job->run_us, job->core_mask);
    job->done(job, r < 0 ? r : show_output(c->model, job));
    return 0;
}

static const struct npu_layer *context_layers(const struct npu_context *c, size_t *ret_n)
{
    *ret_n = c->n_layers;
    return &c->layer;
}

NPU_BACKEND("null");
