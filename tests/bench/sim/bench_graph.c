#include "tests/bench/sim/bench_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "npu/model/onnx/onnx_graph.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/sim_executor.h"
#include "tests/support/sim_run.h"

_Noreturn void bench_give_up(const char *path, const struct error *e)
{
    fprintf(stderr, "%s: %s\n", path, e->text);
    exit(1);
}

void bench_graph_make(struct bench_graph *m, struct bytes file, const char *path)
{
    struct error e;
    struct load_options options = {0};
    int r;
    if (onnx_is_model(file)) {
        r = onnx_graph(&m->graph, file, &options, 0, &sim_executor, &e);
    } else {
        r = rknn_file_open(&m->file, file, &e);
        if (r == 0)
            r = rknn_graph(&m->graph, &m->file, chip_find(m->file.chip), &e);
    }
    if (r < 0)
        bench_give_up(path, &e);
}

void bench_graph_load(struct bench_graph *m, const char *path)
{
    struct error e;
    size_t size;
    *m = (struct bench_graph){.data = sim_read_file(path, &size, &e)};
    if (!m->data)
        bench_give_up(path, &e);
    bench_graph_make(m, (struct bytes){m->data, size}, path);
}

void bench_graph_done(struct bench_graph *m)
{
    graph_done(&m->graph);
    rknn_file_done(&m->file);
    free(m->data);
}
