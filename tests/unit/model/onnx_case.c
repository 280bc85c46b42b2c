// Runs cases of ONNX's own tests.
#include "onnx_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/onnx/onnx_file.h"
#include "tensor/convert.h"
#include "tests/support/sim_support.h"

#define MAX_PORTS 64
#define MAX_DIMS  8

struct array {
    struct sim_file file;
    struct graph_tensor t; // its data in plain order
    bool none;             // not a tensor that is known
};

struct one_case {
    struct pool pool;
    struct sim_file file;
    struct onnx_file model;
    struct array in[MAX_PORTS], out[MAX_PORTS];
    const char *folder;
};

// ---- tensors of files ----

// Constants of halves are read as floats; inputs and outputs are halves.
static void narrow_halves(struct one_case *c, struct graph_tensor *t)
{
    uint8_t *halves = pool_alloc(&c->pool, t->n_elems, sizeof(uint16_t));
    for (size_t i = 0; i < t->n_elems; i++)
        write_le16(halves + 2 * i,
                   convert_float_to_fp16(bits_float(read_le32(t->data.data + 4 * i))));
    t->type = TENSOR_FLOAT16;
    t->size = 2 * t->n_elems;
    t->data = (struct bytes){halves, t->size};
}

static void read_array(struct one_case *c, struct array *a, const char *kind, uint32_t set,
                       uint32_t i)
{
    struct onnx_file f = {.pool = &c->pool};
    struct onnx_tensor t;
    *a = (struct array){.none = true};
    if (!sim_file_read(&a->file, "%s/test_data_set_%u/%s_%u.pb", c->folder, set, kind, i))
        return;
    f.bytes = (struct bytes){a->file.data, a->file.size};
    a->none = onnx_tensor_read(&f, f.bytes, &t, NULL) < 0 ||
              onnx_tensor_constant(&f, &t, &a->t, NULL) < 0;
    if (!a->none && t.type == ONNX_FLOAT16)
        narrow_halves(c, &a->t);
}

static double number(const struct graph_tensor *t, const uint8_t *data, size_t i)
{
    size_t size = tensor_type_size(t->type);
    uint8_t raw[8] = {0};
    float f;
    memcpy(raw, data + i * size, size);
    memcpy(&f, raw, sizeof f);
    switch (t->type) {
    case TENSOR_FLOAT32:
        return (double)f;
    case TENSOR_FLOAT16:
        return (double)convert_fp16_to_float(read_le16(raw));
    case TENSOR_INT8:
        return (int8_t)raw[0];
    case TENSOR_INT16:
        return (int16_t)read_le16(raw);
    case TENSOR_INT32:
        return (int32_t)read_le32(raw);
    default:
        return (double)(int64_t)read_le64(raw);
    }
}

// ---- constants instead of inputs ----

static size_t put_varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        to[n++] = (uint8_t)(v | 0x80);
    to[n++] = (uint8_t)v;
    return n;
}

static size_t put_head(uint8_t *to, uint32_t tag, size_t size)
{
    size_t n = put_varint(to, tag << 3 | 2);
    return n + put_varint(to + n, size);
}

// Protobuf joins messages that follow each other: the model, then a graph with one more constant.
static void append_constant(struct sim_file *file, const struct array *a, const char *name)
{
    uint8_t name_head[16], tensor_head[16], graph_head[16];
    size_t name_n = put_head(name_head, 8, strlen(name));
    size_t tensor = a->file.size + name_n + strlen(name);
    size_t tensor_n = put_head(tensor_head, 5, tensor);
    size_t graph_n = put_head(graph_head, 7, tensor_n + tensor);
    file->data = realloc(file->data, file->size + graph_n + tensor_n + tensor);
    uint8_t *at = file->data + file->size;
    file->size += graph_n + tensor_n + tensor;
    at = (uint8_t *)memcpy(at, graph_head, graph_n) + graph_n;
    at = (uint8_t *)memcpy(at, tensor_head, tensor_n) + tensor_n;
    at = (uint8_t *)memcpy(at, a->file.data, a->file.size) + a->file.size;
    at = (uint8_t *)memcpy(at, name_head, name_n) + name_n;
    memcpy(at, name, strlen(name));
}

enum attempt { AS_IT_IS, WHOLE_NUMBERS, SINGLE_NUMBERS, ALL_BUT_FIRST, ATTEMPTS };

static bool becomes_constant(const struct one_case *c, uint32_t i, enum attempt attempt)
{
    enum tensor_type type = c->in[i].t.type;
    if (c->in[i].none || attempt == AS_IT_IS)
        return false;
    if (attempt == SINGLE_NUMBERS)
        return c->in[i].t.n_dims == 0;
    bool whole = type == TENSOR_INT64 || type == TENSOR_INT32;
    return attempt == ALL_BUT_FIRST ? i > 0 : whole && (i > 0 || c->model.n_inputs == 1);
}

// ---- running ----

// The model's inputs that are left, in the order of their elements in memory.
static void fill_input(const struct array *a, const struct tensor_attr *attr, struct npu_input *in)
{
    size_t element = tensor_type_size(attr->type);
    uint8_t *data = malloc(attr->size + 1);
    memcpy(data, a->t.data.data, attr->size);
    if (attr->layout == TENSOR_NHWC) {
        size_t pixels = (size_t)attr->dims[1] * attr->dims[2], channels = attr->dims[3];
        for (size_t i = 0; i < attr->n_elems; i++) {
            size_t n = i / channels / pixels, p = i / channels % pixels, ch = i % channels;
            memcpy(data + i * element,
                   a->t.data.data + ((n * channels + ch) * pixels + p) * element, element);
        }
    }
    *in = (struct npu_input){.data = data, .size = attr->size, .converted = true};
}

static bool near_enough(const struct graph_tensor *t, double got, double want)
{
    if (t->type != TENSOR_FLOAT32 && t->type != TENSOR_FLOAT16)
        return got == want;
    if (isnan(want) || isinf(want))
        return isnan(want) ? (bool)isnan(got) : got == want;
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

static int compare(const struct one_case *c, uint32_t i, const struct tensor_attr *attr,
                   const void *data, struct error *e)
{
    const struct array *a = &c->out[i];
    if (a->none || a->t.type != attr->type || a->t.size != attr->size)
        return error_set(e, STATUS_FAIL, "output %u has another type or size than expected", i);
    for (uint32_t d = 0; d < a->t.n_dims; d++)
        if (a->t.n_dims != attr->n_dims || a->t.dims[d] != attr->dims[d])
            return error_set(e, STATUS_FAIL, "output %u has another shape than expected", i);
    for (size_t k = 0; k < a->t.n_elems; k++) {
        double got = number(&a->t, data, k), want = number(&a->t, a->t.data.data, k);
        if (!near_enough(&a->t, got, want))
            return error_set(e, STATUS_FAIL, "output %u, element %zu is %.9g, expected %.9g", i, k,
                             got, want);
    }
    return 0;
}

static int run_set(const struct one_case *c, struct npu_model *m, struct error *e)
{
    const struct npu_model_info *info = npu_backend.model_info(m);
    struct npu_input in[MAX_PORTS];
    void *out[MAX_PORTS];
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        const struct tensor_attr *attr = &info->inputs[i].logical;
        const struct array *a = NULL;
        for (uint32_t k = 0; k < c->model.n_inputs; k++)
            if (strcmp(c->model.inputs[k].name, attr->name) == 0)
                a = &c->in[k];
        if (!a || a->none || a->t.size != attr->size)
            return error_set(e, a && a->none ? STATUS_INPUT_INVALID : STATUS_FAIL,
                             "input %s has another size or type than its data", attr->name);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++)
        for (uint32_t k = 0; k < c->model.n_inputs; k++)
            if (strcmp(c->model.inputs[k].name, info->inputs[i].logical.name) == 0)
                fill_input(&c->in[k], &info->inputs[i].logical, &in[i]);
    int r = sim_run(&npu_backend, m, in, out, e);
    if (r < 0) // values that make no sense, or nothing that the file's shapes allow
        r = e->text[0] ? STATUS_INPUT_INVALID : STATUS_FAIL;
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        if (r == 0)
            r = compare(c, i, &info->outputs[i].logical, out[i], e);
        free(out[i]);
    }
    for (uint32_t i = 0; i < info->n_inputs; i++)
        free((void *)(uintptr_t)in[i].data);
    return r;
}

static void free_arrays(struct one_case *c)
{
    for (uint32_t i = 0; i < MAX_PORTS; i++) {
        sim_file_free(&c->in[i].file);
        sim_file_free(&c->out[i].file);
        c->in[i] = c->out[i] = (struct array){.none = true};
    }
}

static bool read_set(struct one_case *c, uint32_t set)
{
    free_arrays(c);
    for (uint32_t i = 0; i < c->model.n_inputs && i < MAX_PORTS; i++)
        read_array(c, &c->in[i], "input", set, i);
    for (uint32_t i = 0; i < c->model.n_outputs && i < MAX_PORTS; i++)
        read_array(c, &c->out[i], "output", set, i);
    return c->out[0].file.data != NULL;
}

static enum onnx_result attempt_set(struct one_case *c, struct npu_device *device,
                                    enum attempt attempt, struct error *e)
{
    struct npu_model *m;
    struct sim_file file = {malloc(c->file.size), c->file.size};
    memcpy(file.data, c->file.data, c->file.size);
    for (uint32_t i = 0; i < c->model.n_inputs && i < MAX_PORTS; i++)
        if (becomes_constant(c, i, attempt))
            append_constant(&file, &c->in[i], c->model.inputs[i].name);
    struct npu_model_source source = {.file = {file.data, file.size}, .name = c->folder};
    enum onnx_result result = ONNX_REFUSED;
    if (npu_backend.model_load(device, &source, &m, e) == 0) {
        int r = run_set(c, m, e);
        result = r == 0 ? ONNX_PASSED : r == STATUS_INPUT_INVALID ? ONNX_REFUSED : ONNX_WRONG;
        npu_backend.model_free(m);
    }
    sim_file_free(&file);
    return result;
}

static enum onnx_result run_sets(struct one_case *c, struct npu_device *device, struct error *e)
{
    enum onnx_result result = ONNX_REFUSED;
    for (uint32_t set = 0; read_set(c, set); set++) {
        struct error later = {0};
        for (enum attempt a = AS_IT_IS; a < ATTEMPTS; a++) {
            result = attempt_set(c, device, a, a ? &later : e);
            if (result != ONNX_REFUSED)
                break;
        }
        if (result == ONNX_WRONG && later.code)
            *e = later;
        if (result != ONNX_PASSED)
            return result;
    }
    return result;
}

enum onnx_result onnx_case_run(struct npu_device *device, const char *folder, struct error *e)
{
    struct one_case *c = calloc(1, sizeof *c);
    enum onnx_result result = ONNX_REFUSED;
    c->folder = folder;
    if (sim_file_read(&c->file, "%s/model.onnx", folder)) {
        struct bytes bytes = {c->file.data, c->file.size};
        if (onnx_file_read(&c->model, &c->pool, bytes, e) == 0)
            result = run_sets(c, device, e);
    }
    free_arrays(c);
    sim_file_free(&c->file);
    pool_done(&c->pool);
    free(c);
    return result;
}

static bool is_in(const char *op, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, op) == 0)
            return true;
    return false;
}

bool onnx_case_uses_only(const char *folder, const char *const *operators)
{
    struct pool pool = {0};
    struct onnx_file f;
    struct sim_file file;
    bool only = sim_file_read(&file, "%s/model.onnx", folder) &&
                onnx_file_read(&f, &pool, (struct bytes){file.data, file.size}, NULL) == 0;
    for (uint32_t i = 0; only && i < f.n_nodes; i++)
        only = is_in(f.nodes[i].op, operators);
    sim_file_free(&file);
    pool_done(&pool);
    return only;
}
