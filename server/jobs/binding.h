// Where the tensors of a context's runs are, when that is memory of the client.
//
// A table is shared by all that look at it and never changes while more than one does: a job keeps
// the table that was there when it came.
#pragma once

#include "npu/npu.h"
#include "protocol/message.h"
#include "server/jobs/memory.h"

struct model_info;

// One tensor's place.
struct bound {
    struct memory *memory;     // NULL: it comes and goes with each run
    uint64_t offset, size;     // bytes
    uint32_t shape_set;        // for which it holds
    struct convert_form form;  // of an input that is not passed through, and of an output
    bool pass_through, stored; // as in npu_input
};

struct binding {
    unsigned refs;
    struct memory *internal; // for intermediate results; NULL: the runner's own
    uint64_t internal_offset;
    uint32_t n_inputs, n_outputs;
    struct bound tensors[]; // inputs, then outputs
};

struct binding *binding_ref(struct binding *b);
void binding_unref(struct binding *b); // NULL: nothing

/// Changes one tensor's place in *b (NULL: nothing is bound yet), which becomes another table if
/// others have it. The memory gets a reference. On failure nothing changes.
int binding_set(struct binding **b, const struct model_info *info, uint32_t tensor,
                const struct bound *place, struct error *e);

/// … and that of the intermediate results. NULL memory: the runner's own.
int binding_set_internal(struct binding **b, const struct model_info *info, struct memory *memory,
                         uint64_t offset, struct error *e);

/// The place of a tensor (inputs, then outputs), NULL when it is not bound. `b` may be NULL.
static inline const struct bound *binding_find(const struct binding *b, uint32_t tensor)
{
    return b && b->tensors[tensor].memory ? &b->tensors[tensor] : NULL;
}

/// As the backend takes them, at the daemon's own address of the memory.
struct npu_input binding_input(const struct bound *place);
struct npu_output binding_output(const struct bound *place);

/// Bytes of the outputs, in a shape set, that are not bound.
uint64_t binding_output_size(const struct binding *b, const struct model_info *info,
                             uint32_t shape_set);

/// Whether everything that is bound holds for a shape set.
int binding_check_shape_set(const struct binding *b, const struct model_info *info,
                            uint32_t shape_set, struct error *e);

/// What the SDK lets programs ask for (SDK guide 5.2.3, tables 5-3 to 5-7): checks a request and
/// fills all of *ret but memory and offset. `small_chip`: chip.small, whose outputs are
/// never float32.
int binding_check_input(const struct tensor_io *io, const rknnd_ContextBind *m, struct bound *ret,
                        struct error *e);
int binding_check_output(const struct tensor_io *io, const rknnd_ContextBind *m, bool small_chip,
                         struct bound *ret, struct error *e);
