// The custom operators of a context: one struct custom_op per node that a program has registered
// for, and the OpenCL device that they share, opened when the first GPU operator comes. One thread
// at a time.
#include "custom/custom_ops.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "custom/opencl.h"

int custom_ops_init(struct custom_ops *s, const struct custom_node *nodes, uint32_t n_nodes,
                    struct error *e)
{
    *s = (struct custom_ops){.nodes = nodes, .n_nodes = n_nodes};
    s->ops = calloc(n_nodes + 1, sizeof *s->ops);
    return s->ops ? 0 : error_no_memory(e, "operators", n_nodes * sizeof *s->ops);
}

void custom_ops_done(struct custom_ops *s)
{
    for (uint32_t i = 0; s->ops && i < s->n_nodes; i++)
        custom_op_free(s->ops[i]);
    free(s->ops);
    opencl_free(s->opencl);
    *s = (struct custom_ops){0};
}

static bool is_for(const rknn_custom_op *op, const struct custom_node *n)
{
    return strcmp(op->op_type, n->op) == 0;
}

static int count(const struct custom_ops *s, const rknn_custom_op *op)
{
    int n = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        n += is_for(op, &s->nodes[i]);
    return n;
}

// New operators go into `made`, by node, so that a failure leaves the set as it was. Without
// `replace`, nodes that have an operator keep it.
static int make(struct custom_ops *s, const rknn_custom_op *op, bool replace,
                struct custom_op **made, struct error *e)
{
    int r = 0;
    if (op->target == RKNN_TARGET_TYPE_GPU && !s->opencl)
        r = opencl_new(&s->opencl, e);
    for (uint32_t i = 0; i < s->n_nodes && r >= 0; i++)
        if (is_for(op, &s->nodes[i]) && (replace || !s->ops[i]))
            r = custom_op_new(op, &s->nodes[i], s->opencl, &made[i], e);
    return r < 0 ? r : 0;
}

// Puts the new operators in and frees those they replace, or frees the new ones.
static void take(struct custom_ops *s, struct custom_op **made, bool keep)
{
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct custom_op *old = made[i];
        if (keep && made[i]) {
            old = s->ops[i];
            s->ops[i] = made[i];
        }
        custom_op_free(old);
    }
}

// Returns for how many nodes the operator is; 0 is no error, as programs may register more
// operators than a model has.
int custom_ops_add(struct custom_ops *s, const rknn_custom_op *op, bool replace, struct error *e)
{
    int n, r = custom_op_check(op, e);
    if (r < 0 || (n = count(s, op)) == 0)
        return r;
    cleanup(free_p) struct custom_op **made = calloc(s->n_nodes, sizeof *made);
    if (!made)
        return error_no_memory(e, "operators", s->n_nodes * sizeof *made);
    r = make(s, op, replace, made, e);
    take(s, made, r == 0);
    return r < 0 ? r : n;
}

bool custom_ops_empty(const struct custom_ops *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->ops[i])
            return false;
    return true;
}

// Nodes that are computed in this process.
struct custom_set custom_ops_nodes(const struct custom_ops *s)
{
    struct custom_set nodes = {0};
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->ops[i])
            custom_set_add(&nodes, i);
    return nodes;
}
