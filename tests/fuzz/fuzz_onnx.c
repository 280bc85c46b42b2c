// The ONNX front-end: reading, shapes, folding, fusion, preparation of the steps, and one run of
// what is small enough.
#include <stdlib.h>

#include "npu/model/onnx/onnx_graph.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/sim_executor.h"

#define SMALL ((uint64_t)1 << 20) // bytes of memory of models that are run

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_once(const struct plan *p)
{
    struct run r;
    struct error e;
    if (p->arena_size > SMALL || p->scratch_size > SMALL || run_init(&r, p, &e) < 0)
        return;
    memset(r.arena, 0, p->arena_size);
    run_steps(&r, &e);
    run_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph g;
    struct plan p;
    struct error e = {0};
    struct bytes file = {data, size};
    struct load_options options = {.n_shape_sets = 1};
    if (!onnx_is_model(file) || onnx_graph(&g, file, &options, 0, &sim_executor, &e) < 0)
        return 0;
    if (plan_init(&p, &g, &e) == 0) {
        run_once(&p);
        plan_done(&p);
    }
    graph_done(&g);
    return 0;
}
