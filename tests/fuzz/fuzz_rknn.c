// .rknn files: whatever the bytes, a model that can be described and run, or words.
#include <stdlib.h>

#include "npu/model/rknn/pyliteral.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/describe/describe.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/sim_io.h"
#include "npu/sim/sim_layers.h"

// What is run must be small: the search is for damage, not for speed.
#define MAX_MEMORY (4 << 20)
#define MAX_WORK   (1 << 24)
#define MAX_STEPS  32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static bool is_small(const struct plan *p, const struct chip *chip)
{
    struct pool pool = {0};
    struct npu_layer *layers;
    uint64_t work = 0;
    if (p->n_steps > MAX_STEPS || p->arena_size + p->scratch_size > MAX_MEMORY ||
        sim_layers(p->graph, chip, &pool, &layers, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < p->n_steps; i++)
        work += layers[i].macs + layers[i].read_bytes + layers[i].write_bytes;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct graph_window *w = &p->graph->nodes[i].window;
        if (p->graph->nodes[i].op == GRAPH_MAX_POOL || p->graph->nodes[i].op == GRAPH_AVERAGE_POOL)
            work += layers[i].write_bytes * w->kernel[0] * w->kernel[1];
    }
    pool_done(&pool);
    return work <= MAX_WORK;
}

static void run(const struct plan *p)
{
    struct run r;
    struct error e = {0};
    check(run_init(&r, p, &e) == 0);
    int status = run_steps(&r, &e);
    check(status == 0 || e.text[0]);
    run_done(&r);
}

static void compile(const struct graph *g, const struct chip *chip)
{
    struct plan p;
    struct error e = {0};
    struct tensor_io io;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        check(sim_describe_input(g, chip, i, &io, &e) == 0 || e.text[0]);
    if (plan_init(&p, g, &e) < 0) {
        check(e.text[0]);
        return;
    }
    if (is_small(&p, chip))
        run(&p);
    plan_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rknn_file f;
    struct graph g;
    struct error e = {0};
    const struct chip *chip;
    json_t *attrs;
    if (rknn_file_open(&f, (struct bytes){data, size}, &e) < 0) {
        check(e.code < 0 && e.text[0]);
        return 0;
    }
    if (pyliteral_parse(f.attrs_text, &attrs, &e) == 0)
        json_decref(attrs);
    if (rknn_find_chip(NULL, &f, &chip, &e) == 0) {
        if (rknn_graph(&g, &f, chip, &e) == 0) {
            compile(&g, chip);
            graph_done(&g);
        } else {
            check(e.text[0]);
        }
    }
    rknn_file_done(&f);
    return 0;
}
