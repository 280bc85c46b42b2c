// oneDNN as the operators use it: primitives are made with the plan and shared; memory objects,
// which hold addresses, are made for each run.
//
// plan: dnn_calls = engine + primitives, each with a list of arguments (tensor, scratch, constant)
// run:  dnn_bound = stream + one memory object per argument, pointing into this run's memory
// step: dnn_call  = execute primitive i with the bound arguments
//
// Every call runs on the calling thread alone: the daemon runs jobs in parallel, and threads inside
// a layer would compete with them and change the order of float sums.
#include "npu/sim/exec/dnn.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "npu/sim/dnn/dnn_check.h"
#include "npu/sim/dnn/dnn_reorder.h"
#include "npu/sim/simd/kernel.h"

// Of libgomp, which oneDNN is linked with: how many threads parallel regions have that this thread
// starts. The setting is per thread, so it is made before each entry into oneDNN; a primitive
// remembers the number from when it was created.
extern void omp_set_num_threads(int n);

struct call {
    dnnl_primitive_t primitive;
    uint32_t n_args;
    struct dnn_arg args[STEP_MAX_ARGS];
    dnn_md *mds[STEP_MAX_ARGS]; // that args point to
};

struct dnn_calls {
    dnnl_engine_t engine;
    uint32_t n, room;
    struct call *calls;
};

struct dnn_bound {
    dnnl_stream_t stream;
    uint32_t n;
    dnnl_exec_arg_t (*args)[STEP_MAX_ARGS]; // of each call
};

// The statuses that a model or a full memory can cause.
static const char *dnn_words(dnnl_status_t status)
{
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented";
    default:
        return "failed";
    }
}

int dnn_error(const struct step *s, dnnl_status_t status, const char *what, struct error *e)
{
    return error_set(e, status == dnnl_out_of_memory ? STATUS_MALLOC_FAIL : STATUS_FAIL,
                     "node %s (%s): oneDNN: %s: %s", s->node->name, s->node->type, what,
                     dnn_words(status));
}

int dnn_calls_new(struct dnn_calls **ret, struct error *e)
{
    struct dnn_calls *c = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(e, "the plan", sizeof *c);
    omp_set_num_threads(1);
    dnnl_status_t status = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    if (status != dnnl_success) {
        free(c);
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "oneDNN: no engine: %s", dnn_words(status));
    }
    int r = dnn_check(c->engine, e);
    if (r < 0)
        dnn_calls_free(c);
    else
        *ret = c;
    return r;
}

static void call_done(struct call *c)
{
    if (c->primitive)
        dnnl_primitive_destroy(c->primitive);
    for (uint32_t i = 0; i < STEP_MAX_ARGS; i++)
        dnn_md_free(c->mds[i]);
}

void dnn_calls_free(struct dnn_calls *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        call_done(&c->calls[i]);
    dnnl_engine_destroy(c->engine);
    free(c->calls);
    free(c);
}

uint32_t dnn_count_calls(const struct plan *p)
{
    return p->calls->n;
}

void dnn_cut_calls(struct plan *p, uint32_t n)
{
    while (p->calls->n > n)
        call_done(&p->calls->calls[--p->calls->n]);
}

dnnl_engine_t dnn_engine(const struct plan *p)
{
    return p->calls->engine;
}

// The names are of x86's; elsewhere the same bits mean something else.
static bool has_isa(dnnl_cpu_isa_t isa)
{
#ifdef __x86_64__
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
#else
    (void)isa;
    return false;
#endif
}

bool dnn_has_vnni(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core_vnni);
}

bool dnn_has_avx2(void)
{
    return has_isa(dnnl_cpu_isa_avx2);
}

// Without VNNI, oneDNN's int8 kernels on x86 add pairs of products in 16 bits (vpmaddubsw), which
// saturates. Callers then compute exact sums in another way.
bool dnn_int8_is_exact(void)
{
    bool avx2_vnni = dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx2_vnni;
    return (has_isa(dnnl_cpu_isa_avx2) && avx2_vnni) || dnn_has_vnni();
}

// A copy of the argument, with a descriptor of the call's own.
static int call_add_arg(struct call *c, const struct dnn_arg *arg, struct error *e)
{
    dnn_md *md = dnn_md_copy(arg->md);
    if (!md)
        return error_no_memory(e, "the plan", sizeof *arg);
    c->args[c->n_args] = *arg;
    c->args[c->n_args].md = c->mds[c->n_args] = md;
    c->n_args++;
    return 0;
}

// The scratchpad that oneDNN asks for is taken from the step's scratch memory, so that a plan can
// run in several contexts at once.
static int call_add_scratchpad(struct step *s, struct call *c, const_dnnl_primitive_desc_t pd,
                               struct error *e)
{
    struct dnn_arg a = {.arg = DNNL_ARG_SCRATCHPAD, .where = DNN_SCRATCH};
    a.md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t size = a.md ? dnnl_memory_desc_get_size(a.md) : 0;
    if (size == 0)
        return 0;
    int r = step_scratch(s, size, &a.at, e);
    return r < 0 ? r : call_add_arg(c, &a, e);
}

// Adds a primitive to the plan; *ret is its number for dnn_call(). `args` are copied and may have
// STEP_MAX_ARGS - 1 elements, since the scratchpad is one more.
int dnn_add_call(struct step *s, const_dnnl_primitive_desc_t pd, const struct dnn_arg *args,
                 uint32_t n_args, uint32_t *ret, struct error *e)
{
    struct dnn_calls *c = s->plan->calls;
    int r = array_reserve(c->calls, c->room, c->n + 1, "the plan", e);
    if (r < 0)
        return r;
    struct call *call = &c->calls[c->n];
    *call = (struct call){0};
    for (uint32_t i = 0; i < n_args && r == 0; i++)
        r = call_add_arg(call, &args[i], e);
    if (r == 0)
        r = call_add_scratchpad(s, call, pd, e);
    dnnl_status_t status = r == 0 ? dnnl_primitive_create(&call->primitive, pd) : dnnl_success;
    if (status != dnnl_success)
        r = dnn_error(s, status, "no primitive", e);
    if (r < 0)
        call_done(call);
    else
        *ret = c->n++;
    return r;
}

// ---- binding ----

// Where an argument is in this run.
static void *dnn_address(const struct run *r, const struct dnn_arg *a)
{
    switch (a->where) {
    case DNN_TENSOR:
        return run_tensor(r, (uint32_t)a->at);
    case DNN_SCRATCH:
        return run_scratch(r, a->at);
    default:
        return a->constant;
    }
}

// Memory objects are created for all arguments of all calls, so that running allocates nothing.
// dnn_bound_free() takes a half-built object.
int dnn_bind(struct run *r, struct dnn_bound **ret, struct error *e)
{
    const struct dnn_calls *c = r->plan->calls;
    struct dnn_bound *b = calloc(1, sizeof *b);
    dnnl_status_t status = b ? dnnl_stream_create(&b->stream, c->engine, 0) : dnnl_out_of_memory;
    if (b)
        b->args = calloc((size_t)c->n + 1, sizeof *b->args);
    if (!b || !b->args)
        status = dnnl_out_of_memory;
    else
        b->n = c->n;
    for (uint32_t i = 0; i < c->n && status == dnnl_success; i++)
        for (uint32_t k = 0; k < c->calls[i].n_args && status == dnnl_success; k++) {
            const struct dnn_arg *a = &c->calls[i].args[k];
            b->args[i][k].arg = a->arg;
            status = dnnl_memory_create(&b->args[i][k].memory, a->md, c->engine, dnn_address(r, a));
        }
    if (status != dnnl_success) {
        dnn_bound_free(b);
        return error_set(e, STATUS_MALLOC_FAIL, "oneDNN: a context's memory: %s",
                         dnn_words(status));
    }
    *ret = b;
    return 0;
}

void dnn_bound_free(struct dnn_bound *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; b->args && i < b->n; i++)
        for (int k = 0; k < STEP_MAX_ARGS; k++)
            if (b->args[i][k].memory)
                dnnl_memory_destroy(b->args[i][k].memory);
    if (b->stream)
        dnnl_stream_destroy(b->stream);
    free(b->args);
    free(b);
}

int dnn_call(const struct step *s, struct run *r, uint32_t call, struct error *e)
{
    const struct call *c = &r->plan->calls->calls[call];
    omp_set_num_threads(1);
    uint32_t denormals = kernel_drop_denormals();
    dnnl_status_t status = dnnl_primitive_execute(c->primitive, r->bound->stream, (int)c->n_args,
                                                  r->bound->args[call]);
    if (status == dnnl_success)
        status = dnnl_stream_wait(r->bound->stream);
    kernel_keep_denormals(denormals);
    return status == dnnl_success ? 0 : dnn_error(s, status, "a run", e);
}

// Runs a call whose arguments 0 and 1 are at new addresses each time. The addresses are set in this
// run's own memory objects; no other run sees them.
int dnn_call_on(const struct step *s, struct run *r, uint32_t call, const void *from, void *to,
                struct error *e)
{
    const dnnl_exec_arg_t *args = r->bound->args[call];
    dnnl_status_t status = dnnl_memory_set_data_handle(args[0].memory, (void *)from);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(args[1].memory, to);
    return status == dnnl_success ? dnn_call(s, r, call, e)
                                  : dnn_error(s, status, "a run's memory", e);
}

int dnn_reorder(struct step *s, const dnn_md *from, void *src, const dnn_md *to, void *dst,
                struct error *e)
{
    omp_set_num_threads(1);
    dnnl_status_t status = dnn_reorder_on(dnn_engine(s->plan), from, src, to, dst);
    return status == dnnl_success ? 0 : dnn_error(s, status, "a reorder", e);
}
