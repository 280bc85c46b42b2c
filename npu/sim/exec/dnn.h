// oneDNN as the operators use it: primitives that are made once and called with memory that differs
// from context to context.
#pragma once

#include "npu/sim/dnn/dnn_version.h"
#include "npu/sim/exec/step.h"

// Where an argument of a primitive is.
struct dnn_arg {
    int arg; // DNNL_ARG_…
    const dnn_md *md;
    enum { DNN_TENSOR, DNN_SCRATCH, DNN_CONSTANT } where;
    uint64_t at;    // tensor index, or offset in the scratch memory
    void *constant; // in memory of the plan
};

struct dnn_calls;
struct dnn_bound;

int dnn_calls_new(struct dnn_calls **ret, struct error *e);
void dnn_calls_free(struct dnn_calls *calls);

dnnl_engine_t dnn_engine(const struct plan *p);

/// True when the CPU multiplies 8-bit integers exactly under oneDNN. Without such instructions
/// oneDNN saturates sums at 16 bits and its results are wrong.
bool dnn_int8_is_exact(void);

/// True when the CPU has AVX512-VNNI, and oneDNN has not been told (DNNL_MAX_CPU_ISA) to do
/// without.
bool dnn_has_vnni(void);

/// The same for AVX2.
bool dnn_has_avx2(void);

/// Makes a primitive and remembers its arguments; its scratchpad is added to the step's scratch
/// memory. The descriptors are copied. *ret is for dnn_call().
int dnn_add_call(struct step *s, const_dnnl_primitive_desc_t pd, const struct dnn_arg *args,
                 uint32_t n_args, uint32_t *ret, struct error *e);

/// How many calls the plan has; and forgets those from the n-th on.
uint32_t dnn_count_calls(const struct plan *p);
void dnn_cut_calls(struct plan *p, uint32_t n);

/// Binds every call of the plan to the memory of r.
int dnn_bind(struct run *r, struct dnn_bound **ret, struct error *e);
void dnn_bound_free(struct dnn_bound *bound);

/// Runs a primitive, on the calling thread alone.
int dnn_call(const struct step *s, struct run *r, uint32_t call, struct error *e);

/// The same with other memory for its first two arguments, which are what it reads and writes.
int dnn_call_on(const struct step *s, struct run *r, uint32_t call, const void *from, void *to,
                struct error *e);

/// dnn_reorder_on(), once, at preparation.
int dnn_reorder(struct step *s, const dnn_md *from, void *src, const dnn_md *to, void *dst,
                struct error *e);

/// STATUS_FAIL or MALLOC_FAIL, in the words "node …: oneDNN: …".
int dnn_error(const struct step *s, dnnl_status_t status, const char *what, struct error *e);
