// One custom operator of one node, in the client's process: calls the program's callbacks of
// rknn_custom_op in the order that the SDK guide (5.5) gives:
//
// custom_op_new: tensors, OpenCL kernel, init()
// custom_op_run: prepare(), compute(), for each job
// custom_op_free: destroy(), if init() succeeded
//
// Tensors have memory of their own for the operator's life. The caller fills and reads it
// (custom_op_tensors) and sees to it that an operator runs on one thread at a time.
#include "custom/custom_op.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "custom/opencl.h"

// `node` is borrowed from the model's list and outlives the operator.
struct custom_op {
    rknn_custom_op op;
    const struct custom_node *node;
    rknn_custom_op_context context;
    struct opencl_kernel *kernel;
    rknn_custom_op_tensor *inputs, *outputs; // one array
    void **memory;                           // by tensor: where the node's own numbers are
    bool initialized;
};

// Checks what a program registers: texts need not be terminated, targets may be anything.
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

// The tensor as the public header describes it.
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

// A memfd for each tensor, at offset 0: programs hand the descriptor to GPU drivers, which ignore
// offsets (abi notes, 10). An empty tensor has one byte, as mmap refuses 0.
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

// What an OpenCL kernel works on is float32, whatever the model's type (SDK guide 5.5.4.1.3; abi
// notes, 10).
static bool is_converted(const struct custom_op *o, const struct tensor_attr *a)
{
    return o->op.target == RKNN_TARGET_TYPE_GPU && a->type == TENSOR_INT64;
}

// Attributes and memory of tensor i (inputs, then outputs). memory[i] is where the node's own
// values go: the operator's tensor itself, unless values are converted.
static int make_tensor(struct custom_op *o, uint32_t i, struct error *e)
{
    struct tensor_attr a = o->node->tensors[i];
    rknn_custom_op_tensor *t = &o->inputs[i];
    bool converted = is_converted(o, &a);
    if (converted && !(o->memory[i] = malloc(a.size ? a.size : 1)))
        return error_no_memory(e, a.name, a.size);
    if (converted) {
        a.type = TENSOR_FLOAT32;
        a.size = a.n_elems * (uint32_t)sizeof(float);
    }
    t->attr = to_program(&a, i < o->node->n_inputs ? i : i - o->node->n_inputs);
    int r = map(&t->mem, &a, e);
    if (r == 0 && !converted)
        o->memory[i] = t->mem.virt_addr;
    return r;
}

static int make_tensors(struct custom_op *o, struct error *e)
{
    const struct custom_node *n = o->node;
    o->inputs = calloc(count(o) + 1, sizeof *o->inputs);
    o->memory = calloc(count(o) + 1, sizeof *o->memory);
    if (!o->inputs || !o->memory)
        return error_no_memory(e, "an operator's tensors", count(o) * sizeof *o->inputs);
    o->outputs = o->inputs + n->n_inputs;
    int r = 0;
    for (uint32_t i = 0; i < count(o) && r == 0; i++)
        r = make_tensor(o, i, e);
    return r;
}

// Values need not be aligned.
static void to_real(const uint8_t *from, float *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, from + i * sizeof v, sizeof v);
        to[i] = (float)v;
    }
}

// Rounds to nearest, ties to even; saturates; NaN becomes 0.
static void to_int64(const float *from, uint8_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float f = from[i];
        int64_t v = f >= 0x1p63f ? INT64_MAX : f < -0x1p63f ? INT64_MIN : f == f ? llrintf(f) : 0;
        memcpy(to + i * sizeof v, &v, sizeof v);
    }
}

// Inputs before, outputs after the callbacks, where is_converted().
static void convert(struct custom_op *o, bool outputs)
{
    uint32_t first = outputs ? o->node->n_inputs : 0;
    uint32_t end = outputs ? count(o) : o->node->n_inputs;
    for (uint32_t i = first; i < end; i++) {
        const struct tensor_attr *a = &o->node->tensors[i];
        if (!is_converted(o, a))
            continue;
        if (outputs)
            to_int64(o->inputs[i].mem.virt_addr, o->memory[i], a->n_elems);
        else
            to_real(o->memory[i], o->inputs[i].mem.virt_addr, a->n_elems);
    }
}

// ---- life --------------------------------------------------------------------------------------

// Takes half-built operators too.
void custom_op_free(struct custom_op *o)
{
    if (!o)
        return;
    if (o->initialized && o->op.destroy)
        o->op.destroy(&o->context);
    for (uint32_t i = 0; o->inputs && o->memory && i < count(o); i++) {
        if (o->memory[i] != o->inputs[i].mem.virt_addr)
            free(o->memory[i]);
        unmap(&o->inputs[i].mem);
    }
    opencl_kernel_free(o->kernel);
    free(o->inputs);
    free(o->memory);
    free(o);
}

CLEANUP_DEFINE(struct custom_op, custom_op_free)

typedef __typeof__(((rknn_custom_op *)0)->compute) step;

// Runs a callback; one that is missing counts as success. Returns its answer, with an error if that
// is negative; answers are untrusted as statuses.
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

// 1: init() answered RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE, so the runtime computes the node, if it
// can. destroy() is not called then, nor after a failed init().
int custom_op_new(const rknn_custom_op *op, const struct custom_node *node, struct opencl *cl,
                  struct custom_op **ret, struct error *e)
{
    cleanup(custom_op_free_p) struct custom_op *o = calloc(1, sizeof *o);
    if (!o)
        return error_no_memory(e, "an operator", sizeof *o);
    o->op = *op;
    o->node = node;
    o->context = (rknn_custom_op_context){.target = op->target, .internal_ctx = (uintptr_t)o};
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
    convert(o, false);
    if (call(o, o->op.prepare, "prepare", e) < 0 || call(o, o->op.compute, "compute", e) < 0)
        return e->code;
    convert(o, true);
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

// "name" is the node's name, as in the vendor's runtime; others are attributes of the file. Data
// are not copied and stay valid as long as the operator.
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

// Public API: attributes of the node, from inside callbacks. An unknown name leaves n_elems 0.
__attribute__((visibility("default"))) void
rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name,
                           rknn_custom_op_attr *op_attr)
{
    const struct custom_op *o = op_ctx ? (void *)(uintptr_t)op_ctx->internal_ctx : NULL;
    if (!op_attr)
        return;
    *op_attr = (rknn_custom_op_attr){0};
    if (o && attr_name)
        look_up(o->node, attr_name, op_attr);
}
