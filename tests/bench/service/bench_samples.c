// bench_samples MODEL CLIENTS LIST: plain inference of samples, each of which is read from its .npy
// file (channels last), as a program of the library does it that has as many threads: what a
// calibration of as many samples is measured against (bench_quantize.py). LIST has a file a line,
// relative to its folder, of models with one input. Prints nothing; failures end it with words.
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "rknn_api.h"
#include "rknnd.h"
#include "tensor/npy.h"

#define MOST_CLIENTS 64
#define MOST_OUTPUTS 128

static struct {
    char **paths;
    size_t n;
    _Atomic size_t next;
    rknn_input_output_num num;
    rknn_tensor_format format;
} all;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_samples: %s: %s\n", what, why);
    exit(1);
}

static void check(int status, const char *what)
{
    if (status < 0)
        fail(what, rknnd_last_error());
}

static void read_list(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[4096];
    cleanup(free_p) char *copy = strdup(path);
    const char *folder = copy ? dirname(copy) : NULL;
    if (!file || !folder)
        fail(path, "it cannot be read");
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        all.paths = realloc(all.paths, (all.n + 1) * sizeof *all.paths);
        if (!all.paths || asprintf(&all.paths[all.n++], "%s/%s", folder, line) < 0)
            fail(path, "no memory");
    }
    fclose(file);
}

static uint8_t *read_file(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail(path, "it cannot be read");
    size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size + 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != size)
        fail(path, "it cannot be read");
    fclose(file);
    *ret_size = size;
    return bytes;
}

static void run_sample(rknn_context context, const char *path)
{
    size_t size;
    struct npy a;
    struct error e;
    rknn_output outputs[MOST_OUTPUTS] = {0};
    cleanup(free_p) uint8_t *bytes = read_file(path, &size);
    if (npy_parse((struct bytes){bytes, size}, &a, &e) < 0)
        fail(path, e.text);
    rknn_input input = {.index = 0,
                        .buf = (void *)(uintptr_t)a.data.data,
                        .size = (uint32_t)a.data.size,
                        .type = RKNN_TENSOR_FLOAT32,
                        .fmt = all.format};
    for (uint32_t i = 0; i < all.num.n_output && i < MOST_OUTPUTS; i++)
        outputs[i] = (rknn_output){.want_float = 1, .index = i};
    check(rknn_inputs_set(context, 1, &input), path);
    check(rknn_run(context, NULL), path);
    check(rknn_outputs_get(context, all.num.n_output, outputs, NULL), path);
    check(rknn_outputs_release(context, all.num.n_output, outputs), path);
}

static void *work(void *arg)
{
    const rknn_context *context = arg;
    for (size_t i; (i = atomic_fetch_add(&all.next, 1)) < all.n;)
        run_sample(*context, all.paths[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc == 4 ? atoi(argv[2]) : 0;
    rknn_context contexts[MOST_CLIENTS];
    pthread_t threads[MOST_CLIENTS];
    rknn_tensor_attr attr = {.index = 0};
    if (n < 1 || n > MOST_CLIENTS)
        fail("usage", "bench_samples MODEL CLIENTS LIST");
    read_list(argv[3]);
    check(rknn_init(&contexts[0], argv[1], 0, 0, NULL), argv[1]);
    check(rknn_query(contexts[0], RKNN_QUERY_IN_OUT_NUM, &all.num, sizeof all.num), argv[1]);
    check(rknn_query(contexts[0], RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr), argv[1]);
    if (all.num.n_input != 1 || all.num.n_output > MOST_OUTPUTS)
        fail(argv[1], "it has several inputs, or too many outputs");
    all.format = attr.n_dims == 4 ? RKNN_TENSOR_NHWC : attr.fmt;
    for (int i = 1; i < n; i++)
        check(rknn_dup_context(&contexts[0], &contexts[i]), argv[1]);
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, work, &contexts[i]) != 0)
            fail("threads", "they cannot be started");
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = n; i-- > 0;)
        rknn_destroy(contexts[i]);
    for (size_t i = 0; i < all.n; i++)
        free(all.paths[i]);
    free(all.paths);
    return 0;
}
