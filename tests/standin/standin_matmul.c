// Products of matrices: the software NPU's, with the matrices where they are bound.
#include <stdio.h>
#include <stdlib.h>

#include "rknn_matmul_api.h"
#include "tensor/matmul_model.h"
#include "tests/standin/standin.h"

// What an rknn_matmul_ctx points to.
struct matmul {
    struct npu_device *device;
    struct npu_model *model;
    struct npu_context *context;
    struct bytes file;
    struct matmul_kind kind;
    struct matmul_shape *shapes;
    uint32_t n_shapes;
    const char *chip;
    rknn_tensor_mem *memory[3];
    struct bytes b;      // as it was when it was bound
    struct bytes scales; // of B
    struct matmul_run run;
    uint32_t core_mask;
};

static struct matmul *matmul_of(rknn_matmul_ctx c)
{
    return (struct matmul *)(uintptr_t)c;
}

static int keep(struct bytes *to, const void *data, size_t size)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    free((void *)to->data);
    *to = (struct bytes){copy, size};
    return RKNN_SUCC;
}

int rknn_matmul_destroy(rknn_matmul_ctx c)
{
    struct matmul *m = matmul_of(c);
    if (m->context)
        npu_backend.context_free(m->context);
    npu_backend.model_free(m->model);
    if (m->device)
        npu_backend.device_free(m->device);
    free((void *)m->file.data);
    free((void *)m->b.data);
    free((void *)m->scales.data);
    free(m->shapes);
    free(m);
    return RKNN_SUCC;
}

static int open_matmul(struct matmul *m, struct error *e)
{
    const char *options = getenv("RKNN_STANDIN");
    int r = matmul_model_encode(&m->kind, m->shapes, m->n_shapes, &m->file, e);
    if (r == 0)
        r = npu_backend.device_open(options ? options : "rk3588", &m->device, e);
    if (r < 0)
        return r;
    struct npu_model_source source = {.file = m->file, .name = ""};
    m->chip = npu_backend.device_info(m->device)->chip;
    r = npu_backend.model_load(m->device, &source, &m->model, e);
    return r < 0 ? r : npu_backend.context_new(m->model, &m->context, e);
}

static void answer_matrix(const struct matmul_matrix *x, rknn_matmul_tensor_attr *to)
{
    *to = (rknn_matmul_tensor_attr){
        .n_dims = x->n_dims, .size = x->size, .type = (rknn_tensor_type)x->type};
    snprintf(to->name, sizeof to->name, "%s", x->name);
    memcpy(to->dims, x->dims, x->n_dims * sizeof *x->dims);
}

static void answer(const struct matmul *m, rknn_matmul_io_attr *attrs)
{
    for (uint32_t i = 0; i < m->n_shapes; i++) {
        struct matmul_matrix x[3];
        matmul_place(&m->kind, &m->shapes[i], m->chip, x, NULL);
        answer_matrix(&x[0], &attrs[i].A);
        answer_matrix(&x[1], &attrs[i].B);
        answer_matrix(&x[2], &attrs[i].C);
    }
}

int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num,
                                     rknn_matmul_shape shapes[], rknn_matmul_io_attr io_attrs[])
{
    static const uint8_t one[MATMUL_SCALE_SIZE] = {0, 0, 0x80, 0x3f}; // 1.0f, zero point 0
    struct matmul *m = calloc(1, sizeof *m);
    struct error e;
    *m = (struct matmul){.kind = {.type = info->type,
                                  .b_layout = (uint32_t)info->B_layout,
                                  .ac_layout = (uint32_t)info->AC_layout,
                                  .b_quant = (uint32_t)info->B_quant_type,
                                  .ac_quant = (uint32_t)info->AC_quant_type,
                                  .group_size = (uint32_t)info->group_size},
                         .n_shapes = (uint32_t)shape_num,
                         .run = {.a_scale = 1, .c_scale = 1}};
    m->shapes = calloc(m->n_shapes, sizeof *m->shapes);
    keep(&m->scales, one, sizeof one);
    for (int i = 0; i < shape_num; i++)
        m->shapes[i] = (struct matmul_shape){(uint32_t)shapes[i].M, (uint32_t)shapes[i].K,
                                             (uint32_t)shapes[i].N};
    int r = open_matmul(m, &e);
    if (r < 0) {
        fprintf(stderr, "E RKNN: %s\n", e.text);
        rknn_matmul_destroy((rknn_matmul_ctx)(uintptr_t)m);
        return r;
    }
    answer(m, io_attrs);
    *ctx = (rknn_matmul_ctx)(uintptr_t)m;
    return RKNN_SUCC;
}

int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr)
{
    rknn_matmul_shape shape = {info->M, info->K, info->N};
    return rknn_matmul_create_dynamic_shape(ctx, info, 1, &shape, io_attr);
}

int rknn_matmul_set_core_mask(rknn_matmul_ctx c, rknn_core_mask mask)
{
    matmul_of(c)->core_mask = (uint32_t)mask;
    return RKNN_SUCC;
}

int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx c, rknn_matmul_shape *shape)
{
    struct matmul *m = matmul_of(c);
    for (uint32_t i = 0; i < m->n_shapes; i++)
        if (m->shapes[i].m == (uint32_t)shape->M && m->shapes[i].k == (uint32_t)shape->K &&
            m->shapes[i].n == (uint32_t)shape->N) {
            m->run.shape = i;
            return RKNN_SUCC;
        }
    return RKNN_ERR_PARAM_INVALID;
}

int rknn_matmul_set_quant_params(rknn_matmul_ctx c, rknn_quant_params *p)
{
    struct matmul *m = matmul_of(c);
    size_t n = (size_t)p->scale_len, half = n * sizeof(float);
    int32_t zp = p->zp ? p->zp[0] : 0;
    if (p->name[0] == 'A') {
        m->run.a_scale = p->scale[0];
        m->run.a_zp = zp;
        return RKNN_SUCC;
    }
    if (p->name[0] == 'C') {
        m->run.c_scale = p->scale[0];
        m->run.c_zp = zp;
        m->run.c_set = true;
        return RKNN_SUCC;
    }
    uint8_t *both = calloc(n, MATMUL_SCALE_SIZE);
    memcpy(both, p->scale, half);
    if (p->zp)
        memcpy(both + half, p->zp, half);
    free((void *)m->scales.data);
    m->scales = (struct bytes){both, 2 * half};
    return RKNN_SUCC;
}

// B is taken over at this time: it may be laid out anew.
int rknn_matmul_set_io_mem(rknn_matmul_ctx c, rknn_tensor_mem *mem, rknn_matmul_tensor_attr *attr)
{
    struct matmul *m = matmul_of(c);
    int matrix = attr->name[0] - 'A';
    if (matrix < 0 || matrix > 2 || mem->size < attr->size)
        return RKNN_ERR_PARAM_INVALID;
    m->memory[matrix] = mem;
    return matrix == 1 ? keep(&m->b, mem->virt_addr, attr->size) : RKNN_SUCC;
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

int rknn_matmul_run(rknn_matmul_ctx c)
{
    struct matmul *m = matmul_of(c);
    uint8_t run[MATMUL_RUN_SIZE];
    int status = STATUS_INPUT_INVALID;
    if (!m->memory[0] || !m->memory[1] || !m->memory[2])
        return status;
    matmul_run_encode(&m->run, run);
    const struct npu_input inputs[MATMUL_INPUTS] = {
        [MATMUL_A] = {.data = m->memory[0]->virt_addr, .size = m->memory[0]->size},
        [MATMUL_B] = {.data = m->b.data, .size = m->b.size},
        [MATMUL_SCALES] = {.data = m->scales.data, .size = m->scales.size},
        [MATMUL_RUN] = {.data = run, .size = sizeof run}};
    const struct npu_output output = {.data = m->memory[2]->virt_addr, .size = m->memory[2]->size};
    struct npu_job job = {.inputs = inputs,
                          .outputs = &output,
                          .core_mask = m->core_mask ? m->core_mask : 1,
                          .done = note_done,
                          .owner = &status};
    int r = npu_backend.context_submit(m->context, &job, &job.error);
    if (r < 0 || status < 0)
        fprintf(stderr, "E RKNN: %s\n", job.error.text);
    return r < 0 ? r : status;
}
