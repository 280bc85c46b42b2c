// Custom operators in runs.
#include "worker/custom_proxy.h"

#include <stdlib.h>

#include "base/list.h"

// ---- plugins -----------------------------------------------------------------------------------

// Puts the plugin for a node to work, on all nodes of its type.
static int plug_in(struct caller *c, uint32_t node, struct error *e)
{
    const char *path;
    const rknn_custom_op *op = plugins_find(c->plugins, c->model->custom[node].op, &path, e);
    if (!op)
        return e->code;
    int note = notes_enter(c->plugins->notes, "init() of plugin %s", path);
    int r = custom_ops_add(&c->plugged, op, false, e);
    notes_leave(c->plugins->notes, note);
    if (r < 0)
        return error_prefix(e, "plugin %s", path);
    c->paths[node] = path;
    return 0;
}

static int begin_plugged(struct caller *c, uint32_t node, void *const **tensors, struct error *e)
{
    int r = c->plugged.ops[node] ? 0 : plug_in(c, node, e);
    if (r < 0)
        return r;
    *tensors = custom_op_tensors(c->plugged.ops[node]);
    return 1;
}

static int compute_plugged(struct caller *c, uint32_t node, struct error *e)
{
    const char *path = c->paths[node] ? c->paths[node] : "";
    int note = notes_enter(c->plugins->notes, "plugin %s", path);
    int r = custom_op_run(c->plugged.ops[node], e);
    notes_leave(c->plugins->notes, note);
    return r < 0 ? error_prefix(e, "plugin %s", path) : 0;
}

// ---- npu_custom --------------------------------------------------------------------------------

static int begin(struct npu_custom *npu, uint32_t node, void *const **tensors, struct error *e)
{
    struct caller *c = container_of(npu, struct caller, npu);
    const struct custom_node *n = &c->model->custom[node];
    if (!custom_set_has(&c->set, node))
        return n->known ? 0 : begin_plugged(c, node, tensors, e);
    custom_place(n, c->inputs, c->outputs, c->tensors);
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
    const struct custom_node *n = &c->model->custom[node];
    if (!custom_set_has(&c->set, node))
        return compute_plugged(c, node, e);
    c->node = node;
    if (pause_wait(c->pause, post, c))
        return 0;
    return error_set(e, STATUS_FAIL, "operator %s (node %s): its program has given up", n->op,
                     n->name);
}

// ---- life --------------------------------------------------------------------------------------

int caller_init(struct caller *c, const struct npu_model_info *model, struct plugins *plugins,
                struct error *e)
{
    *c = (struct caller){.npu = {begin, compute}, .model = model, .plugins = plugins};
    c->paths = calloc(model->n_custom + 1, sizeof *c->paths);
    if (!c->paths)
        return error_no_memory(e, "custom operators", model->n_custom * sizeof *c->paths);
    return custom_ops_init(&c->plugged, model->custom, model->n_custom, e);
}

void caller_done(struct caller *c)
{
    int note = c->plugins ? notes_enter(c->plugins->notes, "destroy() of a plugin") : -1;
    custom_ops_done(&c->plugged);
    if (c->plugins)
        notes_leave(c->plugins->notes, note);
    free(c->paths);
    c->paths = NULL;
}

bool caller_start(struct caller *c, const struct custom_set *set, uint8_t *inputs, uint8_t *outputs,
                  struct pause *pause, void (*post_call)(struct caller *c))
{
    c->set = *set;
    c->inputs = inputs;
    c->outputs = outputs;
    c->pause = pause;
    c->post = post_call;
    for (uint32_t i = 0; i < c->model->n_custom; i++)
        if (custom_set_has(set, i) || !c->model->custom[i].known)
            return true;
    return false;
}
