// Contexts of matrix products C = A x B (rknn_matmul_create and its setters). To the server a
// product is a generated model (tensor/matmul_model.h), so creating one is opening that model:
//
//     info, shapes ─► struct matmul ─► model file in memory ─► init_open_model() ─► context
//
// The context is an ordinary one with c->matmul set. Runs are in matmul_run.c, scales and zero
// points in matmul_quant.c.
#include "client/matmul/matmul.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "client/api/core_mask.h"
#include "client/api/init.h"
#include "client/last_error.h"

CLEANUP_DEFINE(struct matmul, matmul_free)

int matmul_enter(rknn_matmul_ctx number, struct context **ret, struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(number, &c, e);
    if (r < 0)
        return r;
    if (!c->matmul)
        return error_set(e, STATUS_CTX_INVALID,
                         "0x%llx is the context of a model, not one of rknn_matmul_create()",
                         (unsigned long long)number);
    *ret = steal_ptr(c);
    return 0;
}

int matmul_find(const char name[RKNN_MAX_NAME_LEN], uint32_t *ret, struct error *e)
{
    for (uint32_t i = 0; i < 3; i++)
        if (name[0] == "ABC"[i] && name[1] == 0) {
            *ret = i;
            return 0;
        }
    return error_set(e, STATUS_PARAM_INVALID, "matrix \"%.*s\": they are \"A\", \"B\" and \"C\"",
                     32, name);
}

// ---- making ------------------------------------------------------------------------------------

// The public struct has signed fields, this library unsigned ones: negative values are refused.
// Whether a value is a known one is matmul_place()'s and the server's to say.
static int check_numbers(const rknn_matmul_info *info, const rknn_matmul_shape *shape,
                         struct error *e)
{
    if (info->B_layout < 0 || info->AC_layout < 0 || info->B_quant_type < 0 ||
        info->AC_quant_type < 0 || info->group_size < 0 || info->iommu_domain_id < 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "negative numbers: B_layout %d, AC_layout %d, B_quant_type %d, "
                         "AC_quant_type %d, group_size %d, iommu_domain_id %d",
                         info->B_layout, info->AC_layout, info->B_quant_type, info->AC_quant_type,
                         info->group_size, info->iommu_domain_id);
    if (shape->M <= 0 || shape->K <= 0 || shape->N <= 0)
        return error_set(e, STATUS_PARAM_INVALID, "M %d, K %d, N %d: they are at least 1", shape->M,
                         shape->K, shape->N);
    return 0;
}

static struct matmul_kind kind_of(const rknn_matmul_info *info)
{
    return (struct matmul_kind){.type = (uint32_t)info->type,
                                .b_layout = (uint32_t)info->B_layout,
                                .ac_layout = (uint32_t)info->AC_layout,
                                .b_quant = (uint32_t)info->B_quant_type,
                                .ac_quant = (uint32_t)info->AC_quant_type,
                                .group_size = (uint32_t)info->group_size};
}

static struct matmul_shape shape_of(const rknn_matmul_shape *s)
{
    return (struct matmul_shape){(uint32_t)s->M, (uint32_t)s->K, (uint32_t)s->N};
}

// Quantization parameters until the program sets others: scale 1, zero point 0.
static int set_defaults(struct matmul *m, struct error *e)
{
    uint8_t *one = calloc(1, MATMUL_SCALE_SIZE);
    if (!one)
        return error_no_memory(e, "a matmul", MATMUL_SCALE_SIZE);
    memcpy(one, &(float){1}, sizeof(float));
    m->run = (struct matmul_run){.a_scale = 1, .c_scale = 1};
    matmul_take_scales(m, (struct bytes){one, MATMUL_SCALE_SIZE});
    return 0;
}

// The client's state of a product; all shapes are checked before the server is asked.
static int matmul_make(const rknn_matmul_info *info, uint32_t n, const rknn_matmul_shape *shapes,
                       struct matmul **ret, struct error *e)
{
    cleanup(matmul_free_p) struct matmul *m = calloc(1, sizeof *m);
    if (m)
        m->shapes = calloc(n, sizeof *m->shapes);
    if (!m || !m->shapes)
        return error_no_memory(e, "a matmul", n * sizeof *m->shapes);
    m->kind = kind_of(info);
    m->n_shapes = n;
    for (uint32_t i = 0; i < n; i++) {
        int r = check_numbers(info, &shapes[i], e);
        if (r < 0)
            return r;
        m->shapes[i] = shape_of(&shapes[i]);
    }
    int r = set_defaults(m, e);
    if (r == 0)
        *ret = steal_ptr(m);
    return r;
}

// Size, type and dimensions of a matrix in the layout that the chip wants.
static void tell_attr(const struct matmul_matrix *x, rknn_matmul_tensor_attr *ret)
{
    *ret = (rknn_matmul_tensor_attr){
        .n_dims = x->n_dims, .size = x->size, .type = (rknn_tensor_type)x->type};
    snprintf(ret->name, sizeof ret->name, "%s", x->name);
    memcpy(ret->dims, x->dims, x->n_dims * sizeof *x->dims);
}

// Fills in the attributes of all shapes, the last first, so that m->matrices ends as the first
// shape's, which is the current one.
static int take_shapes(struct context *c, struct matmul *m, rknn_matmul_io_attr *attrs,
                       struct error *e)
{
    const char *chip = c->connection->peer.device.chip;
    for (uint32_t i = m->n_shapes; i-- > 0;) {
        int r = matmul_place(&m->kind, &m->shapes[i], chip, m->matrices, e);
        if (r < 0)
            return r;
        tell_attr(&m->matrices[0], &attrs[i].A);
        tell_attr(&m->matrices[1], &attrs[i].B);
        tell_attr(&m->matrices[2], &attrs[i].C);
    }
    return 0;
}

// Encodes the product as a model and opens it. The model's bytes are needed until it is open only.
static int open_context(struct matmul *m, rknn_context *ret, struct error *e)
{
    struct bytes file;
    struct model model = {.fd = -1};
    int r = matmul_model_encode(&m->kind, m->shapes, m->n_shapes, &file, e);
    if (r < 0)
        return r;
    r = model_from_memory(&model, file.data, file.size, 0, 0, e);
    snprintf(model.name, sizeof model.name, "matmul %ux%ux%u", m->shapes->m, m->shapes->k,
             m->shapes->n);
    if (r == 0)
        r = init_open_model(&model, 0, "", ret, e);
    model_done(&model);
    free((void *)file.data);
    return r;
}

// c->matmul is set last: until then no other thread knows the context's number.
static int matmul_create_context(rknn_matmul_ctx *ret, rknn_matmul_info *info, int n,
                                 rknn_matmul_shape *shapes, rknn_matmul_io_attr *attrs,
                                 struct error *e)
{
    cleanup(matmul_free_p) struct matmul *m = NULL;
    rknn_context number = 0;
    init_prepare();
    if (!ret || !info || !shapes || !attrs)
        return error_set(e, STATUS_PARAM_INVALID, "the context, info, shapes or io_attr is NULL");
    if (n < 1)
        return error_set(e, STATUS_PARAM_INVALID, "%d shapes", n);
    int r = matmul_make(info, (uint32_t)n, shapes, &m, e);
    if (r == 0)
        r = open_context(m, &number, e);
    if (r < 0)
        return r;
    cleanup(context_leave_p) struct context *c = NULL;
    r = context_enter(number, &c, e);
    if (r == 0)
        r = take_shapes(c, m, attrs, e);
    if (r < 0) {
        context_end(number, NULL);
        return r;
    }
    c->matmul = steal_ptr(m);
    *ret = number;
    return 0;
}

RKNN_EXPORT int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                   rknn_matmul_io_attr *io_attr)
{
    struct error e;
    rknn_matmul_shape shape = {0};
    if (info)
        shape = (rknn_matmul_shape){info->M, info->K, info->N};
    int r = matmul_create_context(ctx, info, 1, &shape, io_attr, &e);
    return last_error_keep("rknn_matmul_create", r, &e);
}

RKNN_EXPORT int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                                 int shape_num, rknn_matmul_shape dynamic_shapes[],
                                                 rknn_matmul_io_attr io_attrs[])
{
    struct error e;
    int r = matmul_create_context(ctx, info, shape_num, dynamic_shapes, io_attrs, &e);
    return last_error_keep("rknn_matmul_create_dynamic_shape", r, &e);
}

// Entered first only to refuse the context of a model.
RKNN_EXPORT int rknn_matmul_destroy(rknn_matmul_ctx ctx)
{
    struct error e;
    struct context *c = NULL;
    int r = matmul_enter(ctx, &c, &e);
    context_leave(c);
    if (r == 0)
        r = context_end(ctx, &e);
    return last_error_keep("rknn_matmul_destroy", r, &e);
}

// ---- choices -----------------------------------------------------------------------------------

// Chooses one of the shapes that the context was made with. Memories stay; the run checks their
// sizes.
static int set_shape(struct context *c, const rknn_matmul_shape *shape, struct error *e)
{
    struct matmul *m = c->matmul;
    if (!shape)
        return error_set(e, STATUS_PARAM_INVALID, "the shape is NULL");
    struct matmul_shape wanted = shape_of(shape);
    for (uint32_t i = 0; i < m->n_shapes; i++)
        if (memcmp(&m->shapes[i], &wanted, sizeof wanted) == 0) {
            m->run.shape = i;
            return matmul_place(&m->kind, &wanted, c->connection->peer.device.chip, m->matrices, e);
        }
    return error_set(e, STATUS_PARAM_INVALID,
                     "M %d, K %d, N %d is none of the %u shapes that the context was made with",
                     shape->M, shape->K, shape->N, m->n_shapes);
}

RKNN_EXPORT int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = matmul_enter(ctx, &c, &e);
    if (r == 0)
        r = set_shape(c, shape, &e);
    return last_error_keep("rknn_matmul_set_dynamic_shape", r, &e);
}

// Has the server work directly in a matrix's memory, if the memory can be shared with it (*ret);
// else it is told that the matrix is in no memory, and data goes with each run.
static int matmul_share(struct context *c, uint32_t i, struct mem *mem, bool *ret, struct error *e)
{
    const struct matmul_place *now = &c->matmul->memory[i];
    bool output = i == MATMUL_C;
    const rknn_tensor_attr attr = {.index = output ? 0 : i,
                                   .type = (rknn_tensor_type)c->matmul->matrices[i].type,
                                   .fmt = RKNN_TENSOR_UNDEFINED,
                                   .pass_through = !output};
    struct mem_home *home = NULL;
    uint64_t size;
    if (now->mem == mem && now->shared)
        return 0;
    int r = mem_share(c, mem, &home, e);
    if (r == 0 && (home || now->shared))
        r = mem_place(c, &attr, output, home, &size, e);
    if (r == 0)
        *ret = home;
    return r;
}

static bool attr_is(const rknn_matmul_tensor_attr *attr, const struct matmul_matrix *x)
{
    return (uint32_t)attr->type == x->type && attr->n_dims == x->n_dims &&
           memcmp(attr->dims, x->dims, x->n_dims * sizeof *x->dims) == 0;
}

// Matrices are not converted, other than tensors of rknn_set_io_mem(): attributes have to be as the
// context gave them, for any of its shapes. n_dims 0: made by hand, with name and size alone.
static int check_attr(const struct context *c, uint32_t i, const rknn_matmul_tensor_attr *attr,
                      struct error *e)
{
    const struct matmul *m = c->matmul;
    struct matmul_matrix matrices[3];
    bool known = attr->n_dims == 0;
    for (uint32_t s = 0; s < m->n_shapes && !known; s++) {
        int r = matmul_place(&m->kind, &m->shapes[s], c->connection->peer.device.chip, matrices, e);
        if (r < 0)
            return r;
        known = attr_is(attr, &matrices[i]);
    }
    return known ? 0
                 : error_set(e, STATUS_PARAM_INVALID,
                             "matrix %s: type %s with %u dimensions (%u, %u, …) is none that the "
                             "context's io_attr has (%s); matrices are not converted, their types "
                             "and layouts are those of rknn_matmul_info",
                             m->matrices[i].name, get_type_string(attr->type), attr->n_dims,
                             attr->dims[0], attr->dims[1],
                             get_type_string((rknn_tensor_type)m->matrices[i].type));
}

// Gives a matrix its memory. The size is checked against attr here, and against the current shape
// by the run: the shape may still change. *mem comes back as the memory that was there before.
static int set_memory(struct context *c, struct mem **mem, const rknn_matmul_tensor_attr *attr,
                      struct error *e)
{
    uint32_t i;
    struct matmul *m = c->matmul;
    struct mem *new = *mem;
    struct matmul_place place = {.mem = new, .shared = true};
    if (!attr)
        return error_set(e, STATUS_PARAM_INVALID, "the attributes are NULL");
    int r = matmul_find(attr->name, &i, e);
    if (r == 0)
        r = check_attr(c, i, attr, e);
    if (r < 0)
        return r;
    if (new->program.size < attr->size)
        return error_set(e, STATUS_PARAM_INVALID, "matrix %s takes %u bytes, the memory has %u",
                         m->matrices[i].name, attr->size, new->program.size);
    r = i == MATMUL_C ? fd_check_writable(new->fd, STATUS_OUTPUT_INVALID, e) : 0;
    if (r < 0)
        return r;
    pthread_mutex_lock(&new->lock);
    r = mem_data(new, &place.data, e);
    pthread_mutex_unlock(&new->lock);
    if (r == 0)
        r = matmul_share(c, i, new, &place.shared, e);
    if (r < 0)
        return r;
    *mem = m->memory[i].mem;
    m->memory[i] = place;
    if (i == MATMUL_B)
        matmul_touch_b(m);
    return 0;
}

RKNN_EXPORT int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem,
                                       rknn_matmul_tensor_attr *attr)
{
    struct error e;
    cleanup(mem_put_p) struct mem *m = mem_take(mem, &e);
    cleanup(context_leave_p) struct context *c = NULL;
    int r = m ? matmul_enter(ctx, &c, &e) : e.code;
    if (r == 0)
        r = set_memory(c, &m, attr, &e);
    return last_error_keep("rknn_matmul_set_io_mem", r, &e);
}

RKNN_EXPORT int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = matmul_enter(context, &c, &e);
    if (r == 0)
        r = cores_set_mask(c, (uint32_t)core_mask, &e);
    return last_error_keep("rknn_matmul_set_core_mask", r, &e);
}
