// Whole tensors as float32 in scratch memory, for operators without kernels for each type and
// layout:
//
// arena (any type, any layout) -> plain_load -> floats -> operator -> floats -> plain_store ->
// arena
//
// Each copy (copy.h) converts type, quantization and layout in one pass. A tensor that is such
// floats already is taken where it is.
#include "npu/sim/exec/plain.h"

// The tensor as float32, in the order of its dimensions or in its stored order.
static struct graph_tensor real_form(const struct graph_tensor *t, bool as_it_lies)
{
    struct graph_tensor real = *t;
    real.type = TENSOR_FLOAT32;
    real.quantized = false;
    real.channels_last = t->channels_last && as_it_lies;
    return real;
}

static int check_type(const struct step *s, const struct graph_tensor *t, struct error *e)
{
    if (t && element_type_known(t->type))
        return 0;
    return step_refuse(s, e, "a tensor is missing or its type is not supported");
}

// Plans the copy between the stored tensor and its float form: into the tensor for an output.
static void set_copy(const struct graph_tensor *t, bool output, bool as_it_lies, struct plain *p)
{
    struct graph_tensor real = real_form(t, as_it_lies);
    copy_init_whole(&p->copy, output ? t : &real, output ? &real : t);
    const struct nd *nd = &p->copy.nd;
    p->there = p->copy.same && nd->n_dims == 1 && nd_stride(nd, 0) == 1 && nd_stride(nd, 1) == 1;
}

// The tensor's own memory, or NULL: it has to be copied. Offsets of .rknn files may be any.
static void *plain_find(const struct plain *p, const void *tensor)
{
    bool there = p->there && (uintptr_t)tensor % sizeof(float) == 0;
    return there ? (void *)(uintptr_t)tensor : NULL;
}

static int plain_prepare(struct step *s, const struct graph_tensor *t, bool output, struct plain *p,
                         struct error *e)
{
    set_copy(t, output, false, p);
    return step_scratch(s, t->n_elems * sizeof(float), &p->at, e);
}

// A constant is converted here, once; others get scratch memory and a copy at each run.
int plain_input(struct step *s, uint32_t i, struct plain *p, struct error *e)
{
    const struct graph_tensor *t = step_input(s, i);
    *p = (struct plain){.index = i};
    int r = check_type(s, t, e);
    if (r < 0)
        return r;
    return t->constant ? step_floats(s, t, &p->constant, e) : plain_prepare(s, t, false, p, e);
}

int plain_output(struct step *s, uint32_t i, struct plain *p, struct error *e)
{
    const struct graph_tensor *t = step_output(s, i);
    *p = (struct plain){.index = i};
    int r = check_type(s, t, e);
    return r < 0 ? r : plain_prepare(s, t, true, p, e);
}

// For elementwise work: if input and output have the same shape and storage order, the copies keep
// that order and need not transpose. False: nothing changed.
bool plain_as_they_lie(const struct step *s, struct plain *in, struct plain *out)
{
    const struct graph_tensor *x = step_input(s, 0), *y = step_output(s, 0);
    bool alike = !x->constant && x->channels_last == y->channels_last && x->n_dims == y->n_dims &&
                 memcmp(x->dims, y->dims, x->n_dims * sizeof *x->dims) == 0;
    if (alike) {
        set_copy(x, false, true, in);
        set_copy(y, true, true, out);
    }
    return alike;
}

// The values stay valid until the step ends.
const float *plain_load(const struct step *s, const struct run *r, const struct plain *p)
{
    if (p->constant)
        return p->constant;
    const void *tensor = run_input(s, r, p->index);
    if (plain_find(p, tensor))
        return tensor;
    float *values = run_scratch(r, p->at);
    copy_run(&p->copy, values, tensor);
    return values;
}

float *plain_values(const struct step *s, const struct run *r, const struct plain *p)
{
    void *tensor = plain_find(p, run_output(s, r, p->index));
    return tensor ? tensor : run_scratch(r, p->at);
}

void plain_store(const struct step *s, const struct run *r, const struct plain *p)
{
    void *tensor = run_output(s, r, p->index);
    if (!plain_find(p, tensor))
        copy_run(&p->copy, tensor, run_scratch(r, p->at));
}
