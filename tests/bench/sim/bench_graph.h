// A model file as the graph that the software NPU runs, for benchmarks, which end with words where
// something is wrong.
#pragma once

#include "base/error.h"
#include "npu/model/graph.h"
#include "npu/model/rknn/rknn_file.h"

struct bench_graph {
    uint8_t *data; // the file's bytes, where bench_graph_load() has read them
    struct rknn_file file;
    struct graph graph;
};

/// Says what is wrong with a file, and exits.
_Noreturn void bench_give_up(const char *path, const struct error *e);

/// From a file's bytes, which stay the caller's and are pointed to; `path` is for words.
void bench_graph_make(struct bench_graph *m, struct bytes file, const char *path);

/// From a file. bench_graph_done() afterwards, in both cases.
void bench_graph_load(struct bench_graph *m, const char *path);
void bench_graph_done(struct bench_graph *m);
