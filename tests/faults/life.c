// A program's whole life with the library: what a client may ask, once each, in order. Run while
// calls fail in it or in the server: a step that fails is said with the library's words, and the
// rest is left out but for the end, which is as programs end.
//
// life MODEL: prints a line for each step that went well, results included. Exits 0 if all did,
// else 1 with words. life MODEL FOLDER: what life_newer() does instead.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"
#include "rknn_matmul_api.h"
#include "rknnd.h"
#include "tests/faults/life.h"

struct life {
    rknn_context context, twin;
    rknn_tensor_mem *memory;
    rknn_tensor_attr input_attr, output_attr;
    uint8_t *input;
};

int life_failed(const char *what, int r)
{
    const char *words = rknnd_last_error();
    fprintf(stderr, "%s: %d: %s\n", what, r, words);
    return *words ? -1 : -2; // a failure without words
}

unsigned life_sum(const void *data, size_t size)
{
    unsigned sum = 2166136261u; // FNV-1a
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)data)[i]) * 16777619u;
    return sum;
}

static int life_open(struct life *l, char *model)
{
    int r = rknn_init(&l->context, model, 0, RKNN_FLAG_COLLECT_PERF_MASK, NULL);
    if (r < 0)
        return life_failed("rknn_init", r);
    r = rknn_query(l->context, RKNN_QUERY_INPUT_ATTR, &l->input_attr, sizeof l->input_attr);
    if (r == 0)
        r = rknn_query(l->context, RKNN_QUERY_OUTPUT_ATTR, &l->output_attr, sizeof l->output_attr);
    if (r < 0)
        return life_failed("rknn_query", r);
    l->input = malloc(l->input_attr.n_elems);
    if (!l->input)
        return -1;
    for (uint32_t i = 0; i < l->input_attr.n_elems; i++)
        l->input[i] = (uint8_t)(i * 7);
    r = rknn_dup_context(&l->context, &l->twin);
    return r < 0 ? life_failed("rknn_dup_context", r) : 0;
}

static int life_run(struct life *l, rknn_context context, const char *what)
{
    rknn_input in = {.buf = l->input,
                     .size = l->input_attr.n_elems,
                     .type = RKNN_TENSOR_UINT8,
                     .fmt = RKNN_TENSOR_NHWC};
    rknn_output out = {.want_float = 1};
    int r = rknn_inputs_set(context, 1, &in);
    if (r < 0)
        return life_failed("rknn_inputs_set", r);
    r = rknn_run(context, NULL);
    if (r < 0)
        return life_failed(what, r);
    r = rknn_outputs_get(context, 1, &out, NULL);
    if (r < 0)
        return life_failed("rknn_outputs_get", r);
    printf("%s: %08x\n", what, life_sum(out.buf, out.size));
    rknn_outputs_release(context, 1, &out);
    return 0;
}

// Its output lies in memory that both sides share.
static int life_share(struct life *l)
{
    rknn_tensor_attr attr = l->output_attr;
    attr.type = RKNN_TENSOR_FLOAT32;
    l->memory = rknn_create_mem(l->context, attr.n_elems * 4);
    if (!l->memory)
        return life_failed("rknn_create_mem", 0);
    int r = rknn_set_io_mem(l->context, l->memory, &attr);
    if (r < 0)
        return life_failed("rknn_set_io_mem", r);
    r = rknn_run(l->context, NULL);
    if (r < 0)
        return life_failed("run into memory", r);
    r = rknn_mem_sync(l->context, l->memory, RKNN_MEMORY_SYNC_FROM_DEVICE);
    if (r < 0)
        return life_failed("rknn_mem_sync", r);
    printf("run into memory: %08x\n", life_sum(l->memory->virt_addr, attr.n_elems * 4));
    return 0;
}

static int take_tensor(void *user, const rknnd_tensor *tensor)
{
    unsigned *sum = user;
    *sum = *sum * 31 + life_sum(tensor->data, tensor->size);
    return 0;
}

static int life_look(struct life *l)
{
    unsigned sum = 0;
    rknnd_list *layers;
    rknnd_server_status status = {.struct_size = sizeof status};
    rknnd_stats *stats;
    int r = rknnd_get_layers(l->context, &layers);
    if (r < 0)
        return life_failed("layers", r);
    rknnd_free(layers);
    r = rknnd_dump_layers(l->twin, NULL, take_tensor, &sum);
    if (r < 0)
        return life_failed("dump", r);
    printf("dump: %08x\n", sum);
    r = rknnd_get_server_status(NULL, &status);
    if (r < 0)
        return life_failed("status", r);
    r = rknnd_get_stats(NULL, &stats);
    if (r < 0)
        return life_failed("stats", r);
    rknnd_free(stats);
    return 0;
}

static int life_multiply(void)
{
    rknn_matmul_ctx context;
    rknn_matmul_info info = {.M = 4, .K = 32, .N = 32, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io = {0};
    int r = rknn_matmul_create(&context, &info, &io);
    if (r < 0)
        return life_failed("rknn_matmul_create", r);
    rknn_matmul_tensor_attr *const attrs[] = {&io.A, &io.B, &io.C};
    rknn_tensor_mem *memories[3] = {0};
    for (int i = 0; r == 0 && i < 3; i++) {
        memories[i] = rknn_create_mem(context, attrs[i]->size);
        if (!memories[i]) {
            r = life_failed("memory of a product", 0);
            break;
        }
        memset(memories[i]->virt_addr, i + 1, attrs[i]->size);
        if (rknn_matmul_set_io_mem(context, memories[i], attrs[i]) < 0)
            r = life_failed("rknn_matmul_set_io_mem", 0);
    }
    if (r == 0 && rknn_matmul_run(context) < 0)
        r = life_failed("rknn_matmul_run", 0);
    if (r == 0 && memories[2])
        printf("product: %08x\n", life_sum(memories[2]->virt_addr, io.C.size));
    for (int i = 0; i < 3; i++)
        if (memories[i])
            rknn_destroy_mem(context, memories[i]);
    rknn_matmul_destroy(context);
    return r;
}

#define STORED "life@1"

// What an earlier life may have left is in nobody's way.
static int life_clear_store(void)
{
    rknnd_list *models;
    int r = rknnd_list_models(NULL, &models);
    if (r < 0)
        return life_failed("list", r);
    bool there = models->n > 0;
    rknnd_free(models);
    r = there ? rknnd_remove_model(NULL, STORED) : 0;
    return r < 0 ? life_failed("remove what was there", r) : 0;
}

static int life_store(const char *path)
{
    char *manifest;
    rknn_context context;
    int r = life_clear_store();
    if (r < 0)
        return r;
    r = rknnd_push_model(NULL, path, STORED, "zero\none\n", NULL);
    if (r < 0)
        return life_failed("push", r);
    r = rknnd_get_manifest(NULL, STORED, &manifest);
    if (r < 0)
        return life_failed("manifest", r);
    rknnd_free(manifest);
    r = rknnd_set_default_model(NULL, STORED);
    if (r < 0)
        return life_failed("default", r);
    r = rknn_init(&context, (char *)"rknnd:" STORED, 0, 0, NULL);
    if (r < 0)
        return life_failed("rknn_init of a stored model", r);
    r = rknn_destroy(context);
    if (r < 0)
        return life_failed("the end of a stored model", r);
    r = rknnd_remove_model(NULL, STORED);
    return r < 0 ? life_failed("remove", r) : 0;
}

static int life_sense(struct life *l)
{
    rknnd_list *sensors;
    int r = rknnd_get_sensors(NULL, &sensors);
    if (r < 0)
        return life_failed("sensors", r);
    rknnd_free(sensors);
    r = rknnd_set_run_admission(l->twin, 1);
    return r < 0 ? life_failed("admission", r) : life_run(l, l->twin, "run that is admitted");
}

// Whatever fails here, all of it is done.
static int life_end(struct life *l)
{
    int r = 0;
    if (l->memory)
        r |= rknn_destroy_mem(l->context, l->memory);
    if (l->twin)
        r |= rknn_destroy(l->twin);
    if (l->context)
        r |= rknn_destroy(l->context);
    free(l->input);
    return r < 0 ? life_failed("the end", r) : 0;
}

int main(int argc, char **argv)
{
    struct life l = {0};
    if (argc != 2 && argc != 3)
        return 2;
    if (argc == 3) {
        int failed = life_newer(argv[2]);
        return failed == -2 ? 3 : failed < 0;
    }
    int r = life_open(&l, argv[1]);
    if (r == 0)
        r = life_run(&l, l.context, "run");
    if (r == 0)
        r = life_run(&l, l.twin, "run of the twin");
    if (r == 0)
        r = life_look(&l);
    if (r == 0)
        r = life_share(&l);
    if (r == 0)
        r = life_multiply();
    if (r == 0)
        r = life_sense(&l);
    if (r == 0)
        r = life_store(argv[1]);
    int ended = life_end(&l);
    return r == -2 ? 3 : r < 0 || ended < 0;
}
