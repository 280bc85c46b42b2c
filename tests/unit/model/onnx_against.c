// onnx_against MODEL FOLDER [RUNS]: runs a model on FOLDER/inN.bin and compares with
// FOLDER/outN.bin, what another runtime made of the same inputs (both in the order of ONNX's
// dimensions). Prints for each output the largest difference, relative to the largest value, and
// the cosine; then the median time of a run.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensor/convert.h"
#include "tests/support/sim_support.h"

static struct npu_input read_input(const struct tensor_attr *a, const char *folder, uint32_t i)
{
    struct sim_file f;
    if (!sim_file_read(&f, "%s/in%u.bin", folder, i))
        exit(2);
    bool real = a->type == TENSOR_FLOAT32;
    return (struct npu_input){.data = f.data,
                              .size = f.size,
                              .type = a->type,
                              .layout = a->layout == TENSOR_NHWC ? TENSOR_NCHW : TENSOR_UNDEFINED,
                              .converted = !real};
}

static bool compare(const struct tensor_attr *a, const void *data, const char *folder, uint32_t i)
{
    struct sim_file f;
    if (!sim_file_read(&f, "%s/out%u.bin", folder, i) || f.size != a->size) {
        printf("%s: another size than expected\n", a->name);
        return false;
    }
    float *got = malloc(a->n_elems * sizeof *got + 1),
          *want = malloc(a->n_elems * sizeof *want + 1);
    struct tensor_attr plain = *a;
    plain.qnt = TENSOR_QNT_NONE;
    convert_to_float(&plain, data, a->size, got, a->n_elems, NULL);
    convert_to_float(&plain, f.data, a->size, want, a->n_elems, NULL);
    double worst = 0, largest = 0;
    size_t differ = 0;
    for (size_t k = 0; k < a->n_elems; k++) {
        double off = fabs((double)got[k] - (double)want[k]);
        worst = off > worst || isnan(off) ? off : worst;
        largest = fmax(largest, fabs((double)want[k]));
        differ += off != 0;
    }
    printf("%s: difference %.3g of %.3g, relative %.3g, %zu of %u differ, cosine %.9f\n", a->name,
           worst, largest, largest > 0 ? worst / largest : worst, differ, a->n_elems,
           sim_cosine(got, want, a->n_elems));
    free(got);
    free(want);
    sim_file_free(&f);
    return true;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

static int measure(struct npu_model *m, const struct npu_input *in, const struct npu_output *out,
                   int runs, struct error *e)
{
    struct npu_context *c;
    int status = 0, r = npu_backend.context_new(m, &c, e);
    uint64_t *us = calloc((size_t)runs, sizeof *us);
    for (int i = 0; i < runs && r == 0; i++) {
        struct npu_job job = {
            .inputs = in, .outputs = out, .core_mask = 1, .done = note_done, .owner = &status};
        r = npu_backend.context_submit(c, &job, e);
        if (r == 0 && status < 0) {
            *e = job.error;
            r = status;
        }
        us[i] = job.run_us;
    }
    qsort(us, (size_t)runs, sizeof *us, by_value);
    int middle = runs / 2;
    if (r == 0)
        printf("median %.3f ms of %d runs\n", (double)us[middle] / 1000, runs);
    free(us);
    npu_backend.context_free(c);
    return r;
}

int main(int argc, char **argv)
{
    struct npu_device *device;
    struct npu_model *m;
    struct sim_file file;
    struct error e = {0};
    if (argc < 3 || !sim_file_read(&file, "%s", argv[1]) ||
        npu_backend.device_open("", &device, &e) < 0)
        return 2;
    struct npu_model_source source = {.file = {file.data, file.size}, .name = argv[1]};
    if (npu_backend.model_load(device, &source, &m, &e) < 0) {
        printf("refused: %s\n", e.text);
        return 1;
    }
    const struct npu_model_info *info = npu_backend.model_info(m);
    struct npu_input *in = calloc(info->n_inputs, sizeof *in);
    struct npu_output *out = calloc(info->n_outputs, sizeof *out);
    for (uint32_t i = 0; i < info->n_inputs; i++)
        in[i] = read_input(&info->inputs[i].logical, argv[2], i);
    for (uint32_t i = 0; i < info->n_outputs; i++)
        out[i] = (struct npu_output){.data = malloc(info->outputs[i].logical.size + 1),
                                     .size = info->outputs[i].logical.size};
    bool good = measure(m, in, out, argc > 3 ? atoi(argv[3]) : 1, &e) == 0;
    if (!good)
        printf("failed: %s\n", e.text);
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        good = good && compare(&info->outputs[i].logical, out[i].data, argv[2], i);
        free(out[i].data);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++)
        free((void *)(uintptr_t)in[i].data);
    free(in);
    free(out);
    npu_backend.model_free(m);
    npu_backend.device_free(device);
    sim_file_free(&file);
    return !good;
}
