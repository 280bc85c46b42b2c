// Operators at work.
#include "custom/custom_op.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "custom/opencl.h"

struct custom_op {
    rknn_custom_op op;
    const struct custom_node *node;
    rknn_custom_op_context context;
    struct opencl_kernel *kernel;
    rknn_custom_op_tensor *inputs, *outputs; // one array
    void **memory;
    bool initialized;
};

int custom_op_check(const rknn_custom_op *op, struct error *e)
{
    if (!memchr(op->op_type, 0, sizeof op->op_type) || !op->op_type[0])
        return error_set(e, STATUS_PARAM_INVALID, "an operator without op_type");
    if (op->target != RKNN_TARGET_TYPE_CPU && op->target != RKNN_TARGET_TYPE_GPU)
        return error_set(e, STATUS_PARAM_INVALID,
                         "operator %s: target %d is neither RKNN_TARGET_TYPE_CPU nor _GPU",
                         op->op_type, (int)op->target);
    if (!op->compute)
        return error_set(e, STATUS_PARAM_INVALID, "operator %s has no compute()", op->op_type);
    return op->target == RKNN_TARGET_TYPE_GPU ? opencl_check(op, e) : 0;
}

// ---- memory ------------------------------------------------------------------------------------

static rknn_tensor_attr to_program(const struct tensor_attr *a, uint32_t index)
{
    rknn_tensor_attr r = {.index = index,
                          .n_dims = a->n_dims,
                          .n_elems = a->n_elems,
                          .size = a->size,
                          .fmt = (rknn_tensor_format)a->layout,
                          .type = (rknn_tensor_type)a->type,
                          .qnt_type = (rknn_tensor_qnt_type)a->qnt,
                          .zp = a->zp,
                          .scale = a->scale,
                          .size_with_stride = a->size};
    memcpy(r.dims, a->dims, a->n_dims * sizeof *a->dims);
    memcpy(r.name, a->name, sizeof a->name);
    return r;
}

// Memory of its own for each tensor, at offset 0 of an fd: programs hand the fd to GPU drivers,
// which ignore offsets (abi notes, 10).
static int map(rknn_tensor_mem *m, const struct tensor_attr *a, struct error *e)
{
    cleanup(fd_close_p) int fd = fd_memory(a->name, a->size ? a->size : 1, e);
    if (fd < 0)
        return fd;
    void *memory = mmap(NULL, a->size ? a->size : 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "tensor %s", a->name);
    m->virt_addr = memory;
    m->size = a->size;
    m->fd = steal_fd(&fd);
    return 0;
}

static void unmap(rknn_tensor_mem *m)
{
    if (!m->virt_addr)
        return;
    munmap(m->virt_addr, m->size ? m->size : 1);
    fd_close(m->fd);
}

static uint32_t count(const struct custom_op *o)
{
    return o->node->n_inputs + o->node->n_outputs;
}

static int make_tensors(struct custom_op *o, struct error *e)
{
    const struct custom_node *n = o->node;
    o->inputs = calloc(count(o) + 1, sizeof *o->inputs);
    o->memory = calloc(count(o) + 1, sizeof *o->memory);
    if (!o->inputs || !o->memory)
        return error_no_memory(e, "an operator's tensors", count(o) * sizeof *o->inputs);
    o->outputs = o->inputs + n->n_inputs;
    for (uint32_t i = 0; i < count(o); i++) {
        const struct tensor_attr *a = &n->tensors[i];
        o->inputs[i].attr = to_program(a, i < n->n_inputs ? i : i - n->n_inputs);
        int r = map(&o->inputs[i].mem, a, e);
        if (r < 0)
            return r;
        o->memory[i] = o->inputs[i].mem.virt_addr;
    }
    return 0;
}

// ---- life --------------------------------------------------------------------------------------

void custom_op_free(struct custom_op *o)
{
    if (!o)
        return;
    if (o->initialized && o->op.destroy)
        o->op.destroy(&o->context);
    for (uint32_t i = 0; o->inputs && i < count(o); i++)
        unmap(&o->inputs[i].mem);
    opencl_kernel_free(o->kernel);
    free(o->inputs);
    free(o->memory);
    free(o);
}

CLEANUP_DEFINE(struct custom_op, custom_op_free)

typedef __typeof__(((rknn_custom_op *)0)->compute) step;

// What a callback answers, as it is; words for a failure.
static int call(struct custom_op *o, step callback, const char *name, struct error *e)
{
    const struct custom_node *n = o->node;
    int r = callback ? callback(&o->context, o->inputs, n->n_inputs, o->outputs, n->n_outputs) : 0;
    if (r < 0)
        error_set(e, status_from_peer(r), "operator %s (node %s): its %s() answered %d", n->op,
                  n->name, name, r);
    return r;
}

static int make_kernel(struct custom_op *o, struct opencl *cl, struct error *e)
{
    int r = opencl_kernel_new(cl, &o->op, &o->kernel, e);
    if (r == 0)
        o->context.gpu_ctx = opencl_kernel_context(o->kernel);
    return r;
}

int custom_op_new(const rknn_custom_op *op, const struct custom_node *node, struct opencl *cl,
                  struct custom_op **ret, struct error *e)
{
    cleanup(custom_op_free_p) struct custom_op *o = calloc(1, sizeof *o);
    if (!o)
        return error_no_memory(e, "an operator", sizeof *o);
    o->op = *op;
    o->node = node;
    o->context = (rknn_custom_op_context){.target = op->target, .internal_ctx = o};
    int r = make_tensors(o, e);
    if (r == 0 && op->target == RKNN_TARGET_TYPE_GPU)
        r = make_kernel(o, cl, e);
    if (r < 0)
        return r;
    r = call(o, op->init, "init", e);
    if (r == RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE && node->known)
        return 1;
    if (r == RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE)
        error_set(e, e->code,
                  "operator %s (node %s): its init() leaves it to the runtime, which does "
                  "not know it",
                  node->op, node->name);
    if (r < 0)
        return e->code;
    o->initialized = true;
    *ret = steal_ptr(o);
    return 0;
}

void *const *custom_op_tensors(const struct custom_op *o)
{
    return o->memory;
}

int custom_op_run(struct custom_op *o, struct error *e)
{
    if (call(o, o->op.prepare, "prepare", e) < 0 || call(o, o->op.compute, "compute", e) < 0)
        return e->code;
    return 0;
}

// ---- attributes --------------------------------------------------------------------------------

static const struct custom_attribute *find(const struct custom_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_attributes; i++)
        if (strcmp(n->attributes[i].name, name) == 0)
            return &n->attributes[i];
    return NULL;
}

static void look_up(const struct custom_node *n, const char *name, rknn_custom_op_attr *ret)
{
    const struct custom_attribute *a = find(n, name);
    strncpy(ret->name, name, sizeof ret->name - 1);
    if (strcmp(name, "name") == 0) {
        ret->dtype = RKNN_TENSOR_UINT8;
        ret->n_elems = (uint32_t)strlen(n->name);
        ret->data = (char *)n->name;
    } else if (a) {
        ret->dtype = (rknn_tensor_type)a->type;
        ret->n_elems = a->n_elems;
        ret->data = (uint8_t *)a->data.data;
    }
}

__attribute__((visibility("default"))) void
rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                           rknn_custom_op_attr *op_attr)
{
    const struct custom_op *o = op_ctx ? op_ctx->internal_ctx : NULL;
    if (!op_attr)
        return;
    *op_attr = (rknn_custom_op_attr){0};
    if (o && attr_name)
        look_up(o->node, attr_name, op_attr);
}
