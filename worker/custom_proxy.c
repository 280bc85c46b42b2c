// Custom operators in runs: who computes a node that the device does not.
//
// The backend calls begin() before a node and compute() for it, on the thread of the run. There are
// three cases:
//
//   node in the run's set   the client computes it: compute() posts the node and waits at the gate
//   known to the device     begin() returns 0, and the backend computes it itself
//   neither                 a plugin (librkcst_*.so) computes it, in this process
//
// Inputs and outputs of the client's nodes are in the job's buffer, where the daemon reads and
// writes them. Plugins are looked up when a node that needs one is first met, and stay for the
// context's life. A plugin's code may crash, so a breadcrumb names it while it runs.
#include "worker/custom_proxy.h"

#include <stdlib.h>

#include "base/list.h"

// ---- plugins -----------------------------------------------------------------------------------

// Finds the plugin for a node and registers it with the context, for all nodes of its type. Its
// init() runs here, which is foreign code.
static int plug_in(struct custom_proxy *c, uint32_t node, struct error *e)
{
    const char *path;
    const rknn_custom_op *op = plugins_find(c->plugins, c->model->custom[node].op, &path, e);
    if (!op)
        return e->code;
    int crumb = breadcrumbs_enter(c->plugins->breadcrumbs, "init() of plugin %s", path);
    int r = custom_ops_add(&c->plugged, op, false, e);
    breadcrumbs_leave(c->plugins->breadcrumbs, crumb);
    if (r < 0)
        return error_prefix(e, "plugin %s", path);
    c->paths[node] = path;
    return 0;
}

// As npu_custom.begin(): 1 and the tensors that the backend has to fill, or a negative status.
static int begin_plugged(struct custom_proxy *c, uint32_t node, void *const **tensors,
                         struct error *e)
{
    int r = c->plugged.ops[node] ? 0 : plug_in(c, node, e);
    if (r < 0)
        return r;
    *tensors = custom_op_tensors(c->plugged.ops[node]);
    return 1;
}

static int compute_plugged(struct custom_proxy *c, uint32_t node, struct error *e)
{
    const char *path = c->paths[node] ? c->paths[node] : "";
    int crumb = breadcrumbs_enter(c->plugins->breadcrumbs, "plugin %s", path);
    int r = custom_op_run(c->plugged.ops[node], e);
    breadcrumbs_leave(c->plugins->breadcrumbs, crumb);
    return r < 0 ? error_prefix(e, "plugin %s", path) : 0;
}

// ---- npu_custom --------------------------------------------------------------------------------

static int custom_proxy_begin(struct npu_custom *npu, uint32_t node, void *const **tensors,
                              struct error *e)
{
    struct custom_proxy *c = container_of(npu, struct custom_proxy, npu);
    const struct custom_node *n = &c->model->custom[node];
    if (!custom_set_has(&c->set, node))
        return n->known ? 0 : begin_plugged(c, node, tensors, e);
    custom_place(n, c->inputs, c->outputs, c->tensors);
    *tensors = c->tensors;
    return 1;
}

static void custom_proxy_post(void *owner)
{
    struct custom_proxy *c = owner;
    c->post(c);
}

// Blocks the run's thread until the client's outputs are in the job's buffer. gate_wait() is false
// when the run is to stop: the client has gone, failed, or took too long.
static int custom_proxy_compute(struct npu_custom *npu, uint32_t node, struct error *e)
{
    struct custom_proxy *c = container_of(npu, struct custom_proxy, npu);
    const struct custom_node *n = &c->model->custom[node];
    if (!custom_set_has(&c->set, node))
        return compute_plugged(c, node, e);
    c->node = node;
    if (gate_wait(c->gate, custom_proxy_post, c))
        return 0;
    return error_set(e, STATUS_FAIL, "operator %s (node %s): its program has given up", n->op,
                     n->name);
}

// ---- life --------------------------------------------------------------------------------------

// One path more than there are nodes, because calloc(0) may return NULL.
int custom_proxy_init(struct custom_proxy *c, const struct npu_model_info *model,
                      struct plugins *plugins, struct error *e)
{
    *c = (struct custom_proxy){
        .npu = {custom_proxy_begin, custom_proxy_compute}, .model = model, .plugins = plugins};
    c->paths = calloc(model->n_custom + 1, sizeof *c->paths);
    if (!c->paths)
        return error_no_memory(e, "custom operators", model->n_custom * sizeof *c->paths);
    return custom_ops_init(&c->plugged, model->custom, model->n_custom, e);
}

// A context whose proxy was never initialised has no plugins, and then there is nothing to name.
void custom_proxy_done(struct custom_proxy *c)
{
    int crumb =
        c->plugins ? breadcrumbs_enter(c->plugins->breadcrumbs, "destroy() of a plugin") : -1;
    custom_ops_done(&c->plugged);
    if (c->plugins)
        breadcrumbs_leave(c->plugins->breadcrumbs, crumb);
    free(c->paths);
    c->paths = NULL;
}

// A run needs the proxy if any of its nodes is the client's, or one that only a plugin can compute.
bool custom_proxy_start(struct custom_proxy *c, const struct custom_set *set, uint8_t *inputs,
                        uint8_t *outputs, struct gate *gate,
                        void (*post_call)(struct custom_proxy *c))
{
    c->set = *set;
    c->inputs = inputs;
    c->outputs = outputs;
    c->gate = gate;
    c->post = post_call;
    for (uint32_t i = 0; i < c->model->n_custom; i++)
        if (custom_set_has(set, i) || !c->model->custom[i].known)
            return true;
    return false;
}
