// Shows what each node computes to an observer: layer dumps of rknnctl, comparisons. A hook behind
// each step, on the thread of the job; costs nothing where no tap is set.
#include "npu/sim/sim_tap.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/sim_io.h"

// Shows one output if the tap wants it, as a packed copy in the order of the dimensions, since
// arena memory is in the executor's layout and soon reused. When the tap answers 1 it has changed
// the copy, and later steps compute with the new values.
static int tap_show(struct npu_tap *tap, const struct run *r, const struct step *s, uint32_t index,
                    struct error *e)
{
    const struct graph_tensor *t = &r->plan->graph->tensors[index];
    struct npu_tensor shown = {.node = s->node->name, .op = s->node->type};
    struct tensor_attr attr;
    if (!tap->wants(tap, t->name))
        return 0;
    cleanup(free_p) void *data = malloc(t->size ? t->size : 1);
    if (!data)
        return error_no_memory(e, "a tensor", t->size);
    int status = sim_describe_tensor(t, &attr, e);
    if (status == 0)
        status = sim_read_tensor(r, index, data, e);
    if (status < 0)
        return status;
    shown.attr = &attr;
    shown.data = data;
    status = tap->tensor(tap, &shown, e);
    return status == 1 ? sim_write_tensor(r, index, data, e) : status;
}

// Outputs in the node's order; -1 marks one that the model leaves out.
int sim_tap(void *tap, const struct run *r, const struct step *s, struct error *e)
{
    int status = 0;
    for (uint32_t i = 0; i < s->node->n_outputs && status == 0; i++)
        if (s->node->outputs[i] >= 0)
            status = tap_show(tap, r, s, (uint32_t)s->node->outputs[i], e);
    return status;
}
