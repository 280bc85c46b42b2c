// Turns an ONNX file into a graph that the executor runs.
#pragma once

#include "npu/model/graph_executor.h"
#include "npu/model/load_options.h"
#include "npu/model/onnx/onnx_file.h"

/// Whether a file is an ONNX model and nothing else that is known.
bool onnx_is_model(struct bytes file);

/// The graph holds everything it needs besides the file's bytes, which must outlive it. Constants
/// are folded by the executor, activations fused. Inputs that the options give shapes have those of
/// their n-th shape sets
/// (`shape_set`). Refuses whatever is not understood, naming the node and the reason. On failure g
/// is empty.
int onnx_graph(struct graph *g, struct bytes file, const struct load_options *options,
               uint32_t shape_set, const struct graph_executor *executor, struct error *e);
