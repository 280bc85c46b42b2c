// Custom operators in a run.
#include "server/caller.h"

#include "base/list.h"

static int begin(struct npu_custom *npu, uint32_t node, void *const **tensors, struct error *e)
{
    struct caller *c = container_of(npu, struct caller, npu);
    (void)e;
    if (!custom_set_has(&c->set, node))
        return 0;
    custom_place(&c->nodes[node], c->inputs, c->outputs, c->tensors);
    *tensors = c->tensors;
    return 1;
}

static void post(void *owner)
{
    struct caller *c = owner;
    c->post(c);
}

static int compute(struct npu_custom *npu, uint32_t node, struct error *e)
{
    struct caller *c = container_of(npu, struct caller, npu);
    c->node = node;
    if (pause_wait(c->pause, post, c))
        return 0;
    return error_set(e, STATUS_FAIL, "operator %s (node %s): its program has given up",
                     c->nodes[node].op, c->nodes[node].name);
}

void caller_start(struct caller *c, const struct npu_model_info *model,
                  const struct custom_set *set, uint8_t *inputs, uint8_t *outputs,
                  struct pause *pause, void (*post_call)(struct caller *c))
{
    *c = (struct caller){.npu = {begin, compute},
                         .nodes = model->custom,
                         .set = *set,
                         .inputs = inputs,
                         .outputs = outputs,
                         .pause = pause,
                         .post = post_call};
}
