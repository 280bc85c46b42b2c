// Products of matrices by the runtime's rknn_matmul_*() functions. A product is a "model" of three
// matrices; each context of the daemon has one runtime context with memory of its own, so that B
// can stay there between runs. One thread at a time per context. A run:
//
//      cores, shape, scales where they changed -> copy A, and B if it is new -> run -> copy C
#include "npu/rknnrt/rknnrt_matmul.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum matrix { A, B, C, N_MATRICES };

struct product_use {
    const struct product *product;
    rknn_matmul_ctx context;    // 0: not open
    rknn_matmul_io_attr *attrs; // of each shape
    rknn_tensor_mem *memory[N_MATRICES];
    bool scaled[N_MATRICES]; // the runtime was told of scales
    uint32_t core_mask;      // 0: never set
    uint32_t shape;          // UINT32_MAX: not known
    uint64_t b_version;      // of what B holds; 0: nothing
    uint32_t b_k, b_n;
};

// ---- the runtime's functions -------------------------------------------------------------------

// Functions for several shapes are only needed by products that have several.
static int check_calls(const struct runtime *r, bool dynamic, struct error *e)
{
    const struct {
        const char *name;
        bool missing;
    } needed[] = {{"rknn_matmul_create", !dynamic && !r->matmul_create},
                  {"rknn_matmul_create_dynamic_shape", dynamic && !r->matmul_create_dynamic_shape},
                  {"rknn_matmul_set_dynamic_shape", dynamic && !r->matmul_set_dynamic_shape},
                  {"rknn_matmul_set_io_mem", !r->matmul_set_io_mem},
                  {"rknn_matmul_run", !r->matmul_run},
                  {"rknn_matmul_destroy", !r->matmul_destroy},
                  {"rknn_create_mem", !r->create_mem},
                  {"rknn_destroy_mem", !r->destroy_mem}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (needed[i].missing)
            return runtime_lacks(r, needed[i].name, e);
    return 0;
}

int product_init(struct product *p, const struct runtime *r, const char *chip, struct bytes file,
                 struct error *e)
{
    *p = (struct product){.runtime = r, .chip = chip};
    int s = product_io_init(&p->io, chip, file, e);
    return s < 0 ? s : check_calls(r, p->io.model.n_shapes > 1, e);
}

// The runtime's answer as ours.
static int result(const struct product_use *u, const char *call, int code, struct error *e)
{
    return code == RKNN_SUCC ? 0 : runtime_failed(u->product->runtime, call, code, e);
}

// ---- contexts ----------------------------------------------------------------------------------

// Opens the runtime's context for all of the product's shapes.
static int create(struct product_use *u, struct error *e)
{
    const struct runtime *r = u->product->runtime;
    const struct matmul_model *m = &u->product->io.model;
    struct matmul_shape first = matmul_model_shape(m, 0);
    rknn_matmul_info info = {.M = (int32_t)first.m,
                             .K = (int32_t)first.k,
                             .N = (int32_t)first.n,
                             .type = (rknn_matmul_type)m->kind.type,
                             .B_layout = (int16_t)m->kind.b_layout,
                             .B_quant_type = (int16_t)m->kind.b_quant,
                             .AC_layout = (int16_t)m->kind.ac_layout,
                             .AC_quant_type = (int16_t)m->kind.ac_quant,
                             .group_size = (int16_t)m->kind.group_size};
    if (m->n_shapes == 1)
        return result(u, "rknn_matmul_create", r->matmul_create(&u->context, &info, u->attrs), e);
    cleanup(free_p) rknn_matmul_shape *shapes = calloc(m->n_shapes, sizeof *shapes);
    if (!shapes)
        return error_no_memory(e, "shapes of a matmul", m->n_shapes * sizeof *shapes);
    for (uint32_t i = 0; i < m->n_shapes; i++) {
        struct matmul_shape s = matmul_model_shape(m, i);
        shapes[i] = (rknn_matmul_shape){(int32_t)s.m, (int32_t)s.k, (int32_t)s.n};
    }
    return result(
        u, "rknn_matmul_create_dynamic_shape",
        r->matmul_create_dynamic_shape(&u->context, &info, (int)m->n_shapes, shapes, u->attrs), e);
}

// Clients lay out matrices by our own rules (matmul_place()): a runtime that disagrees would
// compute nonsense, so it is refused.
static int check_attr(const rknn_matmul_tensor_attr *a, const struct matmul_matrix *x,
                      struct error *e)
{
    if (a->n_dims == x->n_dims && a->size == x->size && a->type == (rknn_tensor_type)x->type &&
        memcmp(a->dims, x->dims, x->n_dims * sizeof *x->dims) == 0)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "the runtime lays matrix %s out in %u dimensions and %u bytes of type %s; %u, "
                     "%u and %s were expected",
                     x->name, a->n_dims, a->size, tensor_type_name((enum tensor_type)a->type),
                     x->n_dims, x->size, tensor_type_name(x->type));
}

static int check_attrs(const struct product_use *u, struct error *e)
{
    const struct product *p = u->product;
    for (uint32_t i = 0; i < p->io.model.n_shapes; i++) {
        struct matmul_shape shape = matmul_model_shape(&p->io.model, i);
        struct matmul_matrix x[N_MATRICES];
        const rknn_matmul_io_attr *attr = &u->attrs[i];
        int s = matmul_place(&p->io.model.kind, &shape, p->chip, x, e);
        if (s == 0)
            s = check_attr(&attr->A, &x[A], e);
        if (s == 0)
            s = check_attr(&attr->B, &x[B], e);
        if (s == 0)
            s = check_attr(&attr->C, &x[C], e);
        if (s < 0)
            return s;
    }
    return 0;
}

// For the largest shape; smaller ones use the beginning.
static int make_memory(struct product_use *u, struct error *e)
{
    const struct product_io *io = &u->product->io;
    const uint32_t sizes[] = {io->inputs[MATMUL_A].logical.size, io->inputs[MATMUL_B].logical.size,
                              io->output.logical.size};
    for (unsigned i = 0; i < N_MATRICES; i++) {
        rknn_tensor_mem *m = u->product->runtime->create_mem(u->context, sizes[i]);
        u->memory[i] = m;
        if (!m || !m->virt_addr || m->size < sizes[i])
            return error_no_memory(e, "the runtime's rknn_create_mem", sizes[i]);
    }
    return 0;
}

// Memory before its context. Also for half-built objects.
void product_use_free(struct product_use *u)
{
    if (!u)
        return;
    const struct runtime *r = u->product->runtime;
    for (unsigned i = 0; i < N_MATRICES; i++)
        if (u->memory[i])
            r->destroy_mem(u->context, u->memory[i]);
    if (u->context)
        r->matmul_destroy(u->context);
    free(u->attrs);
    free(u);
}

CLEANUP_DEFINE(struct product_use, product_use_free)

int product_use_new(const struct product *p, struct product_use **ret, struct error *e)
{
    cleanup(product_use_free_p) struct product_use *u = calloc(1, sizeof *u);
    if (!u)
        return error_no_memory(e, "a matmul", sizeof *u);
    u->product = p;
    u->shape = p->io.model.n_shapes == 1 ? 0 : UINT32_MAX;
    u->attrs = calloc(p->io.model.n_shapes, sizeof *u->attrs);
    if (!u->attrs)
        return error_no_memory(e, "a matmul", p->io.model.n_shapes * sizeof *u->attrs);
    int s = create(u, e);
    if (s == 0)
        s = check_attrs(u, e);
    if (s == 0)
        s = make_memory(u, e);
    if (s == 0)
        *ret = steal_ptr(u);
    return s;
}

// ---- runs --------------------------------------------------------------------------------------

static int set_cores(struct product_use *u, uint32_t cores, struct error *e)
{
    const struct runtime *r = u->product->runtime;
    if (!cores || cores == u->core_mask)
        return 0;
    if (!r->matmul_set_core_mask)
        return runtime_lacks(r, "rknn_matmul_set_core_mask", e);
    int s = result(u, "rknn_matmul_set_core_mask",
                   r->matmul_set_core_mask(u->context, (rknn_core_mask)cores), e);
    u->core_mask = s == 0 ? cores : 0;
    return s;
}

// After a failure the shape is not known and is set again next time.
static int set_shape(struct product_use *u, const struct product_job *j, struct error *e)
{
    rknn_matmul_shape shape = {(int32_t)j->shape.m, (int32_t)j->shape.k, (int32_t)j->shape.n};
    if (u->shape == j->run.shape)
        return 0;
    int s = result(u, "rknn_matmul_set_dynamic_shape",
                   u->product->runtime->matmul_set_dynamic_shape(u->context, &shape), e);
    u->shape = s == 0 ? j->run.shape : UINT32_MAX;
    return s;
}

// Scales and zero points of one matrix. Runtimes assume 1 and 0 until told otherwise, and some
// kinds of products refuse to be told: so the usual values are only set where others were set
// before.
static int set_scales(struct product_use *u, enum matrix matrix, const float *scales,
                      const int32_t *zps, uint32_t n, struct error *e)
{
    const struct runtime *r = u->product->runtime;
    rknn_quant_params p = {.scale = (float *)scales,
                           .scale_len = (int32_t)n,
                           .zp = (int32_t *)zps,
                           .zp_len = (int32_t)n};
    bool usual = true, zero = true;
    for (uint32_t i = 0; i < n; i++) {
        zero &= zps[i] == 0;
        usual &= scales[i] == 1 && zps[i] == 0;
    }
    if (usual && !u->scaled[matrix])
        return 0;
    if (!r->matmul_set_quant_params)
        return runtime_lacks(r, "rknn_matmul_set_quant_params", e);
    if (zero) {
        p.zp = NULL;
        p.zp_len = 0;
    }
    snprintf(p.name, sizeof p.name, "%c", "ABC"[matrix]);
    int s =
        result(u, "rknn_matmul_set_quant_params", r->matmul_set_quant_params(u->context, &p), e);
    u->scaled[matrix] = true;
    return s;
}

// Copies the matrix (NULL: nothing to copy) and binds its memory with the present shape's
// attribute.
static int set_memory(struct product_use *u, enum matrix matrix, const void *data, size_t size,
                      struct error *e)
{
    rknn_matmul_io_attr *attr = &u->attrs[u->shape];
    rknn_tensor_mem *m = u->memory[matrix];
    rknn_matmul_tensor_attr given = matrix == A ? attr->A : matrix == B ? attr->B : attr->C;
    if (data)
        memcpy((uint8_t *)m->virt_addr + m->offset, data, size);
    return result(u, "rknn_matmul_set_io_mem",
                  u->product->runtime->matmul_set_io_mem(u->context, m, &given), e);
}

// B, usually weights, is converted by the runtime when it is bound, which is slow: it stays until
// the client says by a new version, or by another K or N, that it has changed. Version 0: never
// kept. The copy of the scales is for alignment.
static int set_b(struct product_use *u, const struct product_job *j, const struct npu_job *job,
                 struct error *e)
{
    const struct npu_input *in = job->inputs;
    if (j->run.b_version && j->run.b_version == u->b_version && u->b_k == j->shape.k &&
        u->b_n == j->shape.n)
        return 0;
    int s = product_io_check_b(&u->product->io, j, job, e);
    if (s < 0)
        return s;
    uint32_t n = (uint32_t)(in[MATMUL_SCALES].size / MATMUL_SCALE_SIZE);
    cleanup(free_p) uint8_t *scales = malloc(in[MATMUL_SCALES].size);
    if (!scales)
        return error_no_memory(e, "scales of a matmul", in[MATMUL_SCALES].size);
    memcpy(scales, in[MATMUL_SCALES].data, in[MATMUL_SCALES].size);
    u->b_version = 0;
    s = set_scales(u, B, (const float *)scales, (const int32_t *)(scales + n * sizeof(float)), n,
                   e);
    if (s == 0)
        s = set_memory(u, B, in[MATMUL_B].data, j->b.size, e);
    if (s < 0)
        return s;
    u->b_version = j->run.b_version;
    u->b_k = j->shape.k;
    u->b_n = j->shape.n;
    return 0;
}

// The shape first: attributes and sizes depend on it.
static int set_all(struct product_use *u, const struct product_job *j, const struct npu_job *job,
                   struct error *e)
{
    const struct matmul_run *run = &j->run;
    int s = set_shape(u, j, e);
    if (s == 0)
        s = set_scales(u, A, &run->a_scale, &run->a_zp, 1, e);
    if (s == 0 && run->c_set)
        s = set_scales(u, C, &run->c_scale, &run->c_zp, 1, e);
    if (s == 0)
        s = set_b(u, j, job, e);
    if (s == 0)
        s = set_memory(u, A, job->inputs[MATMUL_A].data, j->a.size, e);
    return s < 0 ? s : set_memory(u, C, NULL, 0, e);
}

// *job.run_us covers the product alone, without copies.
int product_use_run(struct product_use *u, struct npu_job *job, uint32_t cores, struct error *e)
{
    const struct product *p = u->product;
    const rknn_tensor_mem *c = u->memory[C];
    struct product_job j;
    int s = product_io_read(&p->io, p->chip, job, &j, e);
    if (s == 0)
        s = set_cores(u, cores, e);
    if (s == 0)
        s = set_all(u, &j, job, e);
    if (s < 0)
        return s;
    uint64_t start = clock_us();
    s = result(u, "rknn_matmul_run", p->runtime->matmul_run(u->context), e);
    job->run_us = clock_us() - start;
    if (s == 0 && job->outputs->data)
        memcpy(job->outputs->data, (const uint8_t *)c->virt_addr + c->offset, j.c.size);
    return s;
}
