// The software NPU against what the machine can do.
//
// bench_sim MODEL…          each model's run on one thread, against the sum of oneDNN's own times
//                           for its convolutions and the time that memory takes for the rest
// bench_sim --once MODEL…   the same of one round, for table.py, which repeats those that need it
// bench_sim --layers MODEL  the same for each layer
// bench_sim --load MODEL    loading, against reading the file
// bench_sim --rounds MODEL  for each number on standard input: as many runs, and their times in
//                           microseconds (for bench_ort.py)
// bench_sim --hooks MODEL…  what a run without dump pays for dumps and the like that could be there
// bench_sim --profile MODEL…  each model's run with layer times, against the run without
// bench_sim --instructions MODEL  what plain kernels with NEON and its dot products take: for
//                           convolutions, what the rest reads and writes, and products of
//                           matrices; --instructions-no-dot: the same without dot products
// bench_sim --sums MODEL…   a checksum of each output, for inputs of pseudorandom numbers: whether
//                           two builds compute the same
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/samples.h"
#include "tests/bench/sim/bench_graph.h"
#include "tests/bench/sim/conv_times.h"
#include "tests/bench/sim/copy_times.h"
#include "tests/bench/sim/hook_times.h"
#include "tests/bench/sim/instructions.h"
#include "tests/bench/sim/product_times.h"
#include "tests/support/sim_run.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// ---- the bound ---------------------------------------------------------------------------------

static double bytes_of(const struct graph *g, const int32_t *tensors, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += tensors[i] >= 0 ? (double)g->tensors[tensors[i]].size : 0;
    return sum;
}

struct bound {
    unsigned n_convs, n_others;
    double conv_ns, rest_ns, product_ns;
};

static bool has_zero_points(const struct graph_conv_quant *q)
{
    for (uint32_t i = 0; q && i < q->n; i++)
        if (q->nz[i])
            return true;
    return false;
}

// What oneDNN does not do with a convolution: it adds no tensor of another scale, and knows no zero
// points of weights, which take a look at the image and a number for each pixel.
static double conv_rest_ns(const struct graph *g, const struct graph_node *n)
{
    const struct graph_tensor *x = &g->tensors[n->inputs[0]], *y = &g->tensors[n->outputs[0]];
    double ns = 0;
    if (has_zero_points(n->quant))
        ns += copy_time_ns((double)x->size +
                           4.0 * y->dims[0] * y->dims[2] * y->dims[3] * n->window.groups);
    for (uint32_t i = 0; i < n->n_post; i++)
        if (n->post[i].kind == POST_ADD)
            ns += copy_time_ns((double)g->tensors[n->post[i].operand].size);
    return ns;
}

static void add_node(struct bound *b, const struct graph *g, const struct graph_node *n)
{
    double ns = n->op == GRAPH_CONV ? conv_time_ns(g, n) : -1;
    if (ns >= 0) {
        b->n_convs++;
        b->conv_ns += ns;
        b->rest_ns += conv_rest_ns(g, n);
    } else {
        b->n_others++;
        b->product_ns += product_time_ns(g, n);
        b->rest_ns += copy_time_ns(bytes_of(g, n->inputs, n->n_inputs) +
                                   bytes_of(g, n->outputs, n->n_outputs));
    }
}

static struct bound bound_of(const char *path)
{
    struct bound b = {0};
    struct bench_graph m;
    bench_graph_load(&m, path);
    for (uint32_t i = 0; i < m.graph.n_nodes; i++)
        add_node(&b, &m.graph, &m.graph.nodes[i]);
    b.rest_ns +=
        copy_time_ns(2 * bytes_of(&m.graph, (const int32_t *)m.graph.inputs, m.graph.n_inputs));
    b.rest_ns +=
        copy_time_ns(2 * bytes_of(&m.graph, (const int32_t *)m.graph.outputs, m.graph.n_outputs));
    bench_graph_done(&m);
    return b;
}

// ---- the run -----------------------------------------------------------------------------------

struct running {
    const char *path;
    struct sim_run run;
    struct npu_input *inputs;
    struct npu_output *outputs;
};

static void run_once(void *arg)
{
    struct running *r = arg;
    struct error e;
    if (sim_run_once(&r->run, r->inputs, r->outputs, &e) < 0)
        bench_give_up(r->path, &e);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

// Any bytes for 8-bit integers; else numbers that no operator is likely to refuse.
static void fill_randomly(enum tensor_type type, void *data, size_t size, uint32_t *state)
{
    size_t each = tensor_type_size(type);
    for (size_t i = 0; i < size / each; i++) {
        uint8_t *to = (uint8_t *)data + i * each;
        uint32_t v = next_random(state);
        float real = (float)(v % 4096) / 1024 - 2;
        uint16_t half = (uint16_t)(0x3000 + v % 0x1000 + (v & 0x4000) * 2); // 0.125 to 2
        uint64_t whole = v % (type == TENSOR_BOOL ? 2 : 8);
        if (type == TENSOR_FLOAT32)
            memcpy(to, &real, each);
        else if (type == TENSOR_FLOAT16)
            memcpy(to, &half, each);
        else if (type == TENSOR_INT8 || type == TENSOR_UINT8)
            *to = (uint8_t)v;
        else
            memcpy(to, &whole, each);
    }
}

// Inputs are random: zeros would take other ways through LeakyRelu, tables and sums of floats.
static void make_tensors(struct running *r)
{
    const struct npu_model_info *m = r->run.info;
    uint32_t state = 1;
    r->inputs = calloc(m->n_inputs + 1, sizeof *r->inputs);
    r->outputs = calloc(m->n_outputs + 1, sizeof *r->outputs);
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        size_t size = m->inputs[i].logical.size;
        void *data = malloc(size);
        if (!data)
            abort();
        fill_randomly(m->inputs[i].logical.type, data, size, &state);
        r->inputs[i] = (struct npu_input){.data = data, .size = size, .converted = true};
    }
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        size_t size = m->outputs[i].logical.size;
        r->outputs[i] = (struct npu_output){.data = malloc(size), .size = size};
    }
}

static void free_tensors(struct running *r)
{
    for (uint32_t i = 0; i < r->run.info->n_inputs; i++)
        free((void *)r->inputs[i].data);
    for (uint32_t i = 0; i < r->run.info->n_outputs; i++)
        free(r->outputs[i].data);
    free(r->inputs);
    free(r->outputs);
}

#define ROUNDS 3

// The bound and the run take turns, so that both meet the machine as it is; the best of each
// counts.
static void bench_run(const char *path, int rounds)
{
    const char *name = strrchr(path, '/');
    struct running r = {.path = path};
    struct bound b = {0};
    struct error e;
    double run = 0;
    if (sim_run_init(&r.run, path, &e) < 0)
        bench_give_up(path, &e);
    make_tensors(&r);
    for (int k = 0; k < rounds; k++) {
        struct bound now = bound_of(path);
        double ns = samples_best_ns(run_once, &r);
        b = k == 0 || now.conv_ns + now.product_ns < b.conv_ns + b.product_ns ? now : b;
        run = k == 0 || ns < run ? ns : run;
    }
    printf("%9.1f %9.1f %9.1f %6.2f %9.1f %6.2f %6u %6u  %s\n", run / 1e3, b.conv_ns / 1e3,
           b.rest_ns / 1e3, run / (b.conv_ns + b.rest_ns), b.product_ns / 1e3,
           run / (b.conv_ns + b.rest_ns + b.product_ns), b.n_convs, b.n_others,
           name ? name + 1 : path);
    fflush(stdout);
    free_tensors(&r);
    sim_run_done(&r.run);
}

static void bench_runs(char *const *paths, int rounds)
{
    printf(
        "convs: the sum of oneDNN's own best times for the convolutions, with all that it fuses\n"
        "rest: what all other operators, inputs and outputs, what is added behind convolutions "
        "and\n"
        "      zero points of weights read and write, each byte once, at the speed of memcpy at\n"
        "      that size\n"
        "ratio: run / (convs + rest)\n"
        "products: oneDNN's own best times for MatMul, attention and ConvTranspose, and the ratio\n"
        "      with them\n\n");
    printf("%9s %9s %9s %6s %9s %6s %6s %6s  model\n", "run us", "convs us", "rest us", "ratio",
           "products", "with", "convs", "others");
    for (; *paths; paths++)
        bench_run(*paths, rounds);
}

static void bench_rounds(const char *path)
{
    struct running r = {.path = path};
    struct error e;
    char line[32];
    if (sim_run_init(&r.run, path, &e) < 0)
        bench_give_up(path, &e);
    make_tensors(&r);
    while (fgets(line, sizeof line, stdin)) {
        for (long n = strtol(line, NULL, 10); n > 0; n--) {
            double start = now_s();
            run_once(&r);
            printf("%.1f ", (now_s() - start) * 1e6);
        }
        printf("\n");
        fflush(stdout);
    }
    free_tensors(&r);
    sim_run_done(&r.run);
}

// ---- profiles ----------------------------------------------------------------------------------

#define PAIRS 301

// Runs with and without layer times take turns.
static void bench_profile(const char *path)
{
    struct running r = {.path = path};
    struct error e;
    double plain[PAIRS], profiled[PAIRS];
    const char *name = strrchr(path, '/');
    if (sim_run_init(&r.run, path, &e) < 0)
        bench_give_up(path, &e);
    make_tensors(&r);
    for (int k = 0; k < 2 * PAIRS; k++) {
        r.run.collect_perf = k % 2;
        double start = now_s();
        run_once(&r);
        (k % 2 ? profiled : plain)[k / 2] = (now_s() - start) * 1e6;
    }
    double without = samples_median(plain, PAIRS), with = samples_median(profiled, PAIRS);
    printf("%9.1f %9.1f %+6.2f%%  %s\n", without, with, 100 * (with / without - 1),
           name ? name + 1 : path);
    free_tensors(&r);
    sim_run_done(&r.run);
}

static void bench_profiles(char *const *paths)
{
    printf("%9s %9s %7s  model\n", "plain us", "perf us", "cost");
    for (; *paths; paths++)
        bench_profile(*paths);
}

// ---- hooks -------------------------------------------------------------------------------------

static uint32_t count_nodes(const char *path)
{
    struct bench_graph m;
    bench_graph_load(&m, path);
    uint32_t n = m.graph.n_nodes;
    bench_graph_done(&m);
    return n;
}

static void bench_hooks(char *const *paths)
{
    struct hook_times t = hook_times_measure();
    double ns = t.hooked_ns - t.bare_ns;
    printf("%.2f ns a node with hooks that nobody uses, %.2f ns without\n%9s %6s %7s  model\n",
           t.hooked_ns, t.bare_ns, "run us", "nodes", "cost");
    for (; *paths; paths++) {
        struct running r = {.path = *paths};
        struct error e;
        const char *name = strrchr(*paths, '/');
        uint32_t n = count_nodes(*paths);
        if (sim_run_init(&r.run, *paths, &e) < 0)
            bench_give_up(*paths, &e);
        make_tensors(&r);
        double run = samples_best_ns(run_once, &r);
        printf("%9.1f %6u %6.3f%%  %s\n", run / 1e3, n, 100 * n * ns / run,
               name ? name + 1 : *paths);
        free_tensors(&r);
        sim_run_done(&r.run);
    }
}

// ---- checksums ---------------------------------------------------------------------------------

#define SUM_RUNS 2

// FNV-1a.
static uint64_t sum_bytes(const uint8_t *data, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ data[i]) * 0x100000001b3;
    return sum;
}

static void bench_sums(const char *path)
{
    struct running r = {.path = path};
    struct error e;
    const char *name = strrchr(path, '/');
    uint32_t state = 1;
    name = name ? name + 1 : path;
    if (sim_run_init(&r.run, path, &e) < 0) {
        printf("%s: %s\n", name, e.text);
        return;
    }
    make_tensors(&r);
    const struct npu_model_info *m = r.run.info;
    for (int k = 0; k < SUM_RUNS; k++) {
        for (uint32_t i = 0; i < m->n_inputs; i++)
            fill_randomly(m->inputs[i].logical.type, (void *)r.inputs[i].data, r.inputs[i].size,
                          &state);
        if (sim_run_once(&r.run, r.inputs, r.outputs, &e) < 0) {
            printf("%s: run %d: %s\n", name, k, e.text);
            break;
        }
        for (uint32_t i = 0; i < m->n_outputs; i++)
            printf("%s: run %d, output %u: %016llx\n", name, k, i,
                   (unsigned long long)sum_bytes(r.outputs[i].data, r.outputs[i].size));
    }
    free_tensors(&r);
    sim_run_done(&r.run);
}

// ---- layers ------------------------------------------------------------------------------------

#define LAYER_RUNS 101

static void job_done(struct npu_job *job, int status)
{
    if (status < 0)
        bench_give_up("run", &job->error);
}

// The best of each layer's times, as the bounds are; us[i] for layer i.
static void measure_layers(struct running *r, uint64_t *us, size_t n)
{
    struct error e;
    for (int k = 0; k < LAYER_RUNS; k++) {
        struct npu_job job = {.inputs = r->inputs,
                              .outputs = r->outputs,
                              .core_mask = 1,
                              .collect_perf = true,
                              .done = job_done};
        size_t n_layers;
        if (npu_backend.context_submit(r->run.context, &job, &e) < 0)
            bench_give_up(r->path, &e);
        const struct npu_layer *layers = npu_backend.context_layers(r->run.context, &n_layers);
        for (size_t i = 0; i < n && i < n_layers; i++)
            us[i] = k && us[i] < layers[i].time_us ? us[i] : layers[i].time_us;
    }
}

static void print_layer(const struct graph *g, const struct graph_node *n, uint64_t us)
{
    struct bound b = {0};
    add_node(&b, g, n);
    const struct graph_tensor *y = n->outputs[0] >= 0 ? &g->tensors[n->outputs[0]] : NULL;
    printf("%9llu %9.1f  %-28s g%u", (unsigned long long)us,
           (b.conv_ns + b.rest_ns + b.product_ns) / 1e3, n->type,
           n->op == GRAPH_CONV ? n->window.groups : 0);
    for (uint32_t i = 0; y && i < y->n_dims; i++)
        printf("%c%u", i ? 'x' : ' ', y->dims[i]);
    printf("\n");
}

static void bench_layers(const char *path)
{
    struct running r = {.path = path};
    struct bench_graph m;
    struct error e;
    bench_graph_load(&m, path);
    if (sim_run_init(&r.run, path, &e) < 0)
        bench_give_up(path, &e);
    make_tensors(&r);
    uint64_t *us = calloc((size_t)m.graph.n_nodes + 1, sizeof *us);
    measure_layers(&r, us, m.graph.n_nodes);
    printf("%9s %9s  layer\n", "us", "bound us");
    for (uint32_t i = 0; i < m.graph.n_nodes; i++)
        print_layer(&m.graph, &m.graph.nodes[i], us[i]);
    free(us);
    free_tensors(&r);
    sim_run_done(&r.run);
    bench_graph_done(&m);
}

static void print_instructions(const char *path, bool dot)
{
    struct bench_graph m;
    bench_graph_load(&m, path);
    struct instructions n = instructions_of(&m.graph, dot, NULL);
    printf("%.0f %.0f %.0f\n", n.convs, n.rest, n.products);
    bench_graph_done(&m);
}

// ---- loading -----------------------------------------------------------------------------------

// A line of /proc/self/status, in bytes.
static double memory_now(const char *name)
{
    char line[128];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtod(line + strlen(name), NULL);
    if (f)
        fclose(f);
    return kib * 1024;
}

// What the process has used: other programs on the machine do not count.
static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void bench_load(const char *path)
{
    struct npu_device *device;
    struct npu_model *model;
    struct error e;
    size_t size;
    double start = now_s();
    uint8_t *data = sim_read_file(path, &size, &e);
    double read = now_s() - start, before = memory_now("RssAnon:");
    if (!data || npu_backend.device_open("", &device, &e) < 0)
        bench_give_up(path, &e);
    struct npu_model_source source = {.file = {data, size}, .name = path};
    struct bench_graph graph = {0};
    start = now_s();
    bench_graph_make(&graph, source.file, path);
    double made = now_s() - start;
    bench_graph_done(&graph);
    double cpu = cpu_s();
    start = now_s();
    if (npu_backend.model_load(device, &source, &model, &e) < 0)
        bench_give_up(path, &e);
    double load = now_s() - start, after = memory_now("RssAnon:");
    cpu = cpu_s() - cpu;
    const struct npu_model_info *info = npu_backend.model_info(model);
    printf("file %.1f MB, weights %.1f MB\n"
           "reading %.3f s, loading %.3f s (%.3f s of CPU), of which %.3f s before weights are "
           "packed\n"
           "memory: the model says %.1f MB, the process has %.1f MB more\n",
           (double)size / 1e6, (double)info->weight_size / 1e6, read, load, cpu, made,
           (double)info->memory_size / 1e6, (after - before) / 1e6);
    npu_backend.model_free(model);
    npu_backend.device_free(device);
    free(data);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--load") == 0) {
        bench_load(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "--layers") == 0) {
        bench_layers(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "--rounds") == 0) {
        bench_rounds(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "--instructions") == 0) {
        print_instructions(argv[2], true);
    } else if (argc == 3 && strcmp(argv[1], "--instructions-no-dot") == 0) {
        print_instructions(argv[2], false);
    } else if (argc > 2 && strcmp(argv[1], "--once") == 0) {
        bench_runs(argv + 2, 1);
    } else if (argc > 2 && strcmp(argv[1], "--hooks") == 0) {
        bench_hooks(argv + 2);
    } else if (argc > 2 && strcmp(argv[1], "--profile") == 0) {
        bench_profiles(argv + 2);
    } else if (argc > 2 && strcmp(argv[1], "--sums") == 0) {
        for (int i = 2; i < argc; i++)
            bench_sums(argv[i]);
    } else if (argc > 1) {
        bench_runs(argv + 1, ROUNDS);
    } else {
        fprintf(stderr, "usage: bench_sim [--once] MODEL… | --layers MODEL | --load MODEL | "
                        "--rounds MODEL | --hooks MODEL… | --profile MODEL… | "
                        "--sums MODEL… |\n"
                        "       --instructions[-no-dot] MODEL\n");
        return 2;
    }
    return 0;
}
