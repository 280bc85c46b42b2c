// Constant folding for the readers of model files: struct graph_executor
// (npu/model/graph_executor.h) lets them compute single nodes while they load, with the same
// kernels that run jobs, but without depending on this backend. Runs on the loading thread, without
// an arena that outlives the call.
#include "npu/sim/sim_executor.h"

#include "npu/sim/exec/copy.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/ops/ort_int8.h"
#include "npu/sim/simd/elements.h"

// Converts between a tensor's storage in the arena and its elements in the order of the dimensions.
static void executor_copy(const struct graph_tensor *to, void *dst, const struct graph_tensor *from,
                          const void *src)
{
    struct copy c;
    copy_init_whole(&c, to, from);
    copy_run(&c, dst, src);
}

// The same tensor stored in the order of its dimensions, as readers expect it.
static struct graph_tensor executor_plain(const struct graph_tensor *t)
{
    struct graph_tensor plain = *t;
    plain.channels_last = false;
    return plain;
}

// `x`: elements of the first input, unless the node has none. `results`: one buffer per output, of
// the tensor's size; outputs that are left out (-1) are skipped.
static int executor_run(struct run *r, const struct graph *g, const void *x, void *const *results,
                        struct error *e)
{
    const struct graph_node *n = &g->nodes[0];
    if (n->n_inputs && n->inputs[0] >= 0) {
        const struct graph_tensor *to = &g->tensors[n->inputs[0]], from = executor_plain(to);
        executor_copy(to, run_tensor(r, (uint32_t)n->inputs[0]), &from, x);
    }
    int status = run_steps(r, e);
    for (uint32_t i = 0; i < n->n_outputs && status == 0; i++) {
        if (n->outputs[i] < 0)
            continue;
        const struct graph_tensor *from = &g->tensors[n->outputs[i]], to = executor_plain(from);
        executor_copy(&to, results[i], from, run_tensor(r, (uint32_t)n->outputs[i]));
    }
    return status;
}

// Plans, runs and forgets a graph of one node.
static int executor_run_node(const struct graph *g, const void *x, void *const *results,
                             struct error *e)
{
    struct plan p;
    struct run r;
    int status = plan_init(&p, g, e);
    if (status < 0)
        return status;
    status = run_init(&r, &p, e);
    if (status == 0) {
        status = executor_run(&r, g, x, results, e);
        run_done(&r);
    }
    plan_done(&p);
    return status;
}

// n int8 products with the rounding of ONNX Runtime's quantized Mul; forms: quantization of a, b,
// y.
static void executor_multiply(const struct graph_tensor *forms[3], const int8_t *a, const int8_t *b,
                              int8_t *y, size_t n)
{
    struct ort_int8_binary product = ort_int8_binary(GRAPH_MUL, forms[0], forms[1], forms[2]);
    ort_int8_binary_run(&product, a, b, y, n);
}

const struct graph_executor sim_executor = {
    .run_node = executor_run_node,
    .apply = elements_post,
    .multiply = executor_multiply,
};
