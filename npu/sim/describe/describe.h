// What a model file says, and what the executor makes of it, as JSON.
#pragma once

#include <jansson.h>

#include "npu/model/graph.h"
#include "npu/model/rknn/rknn_file.h"
#include "npu/sim/sim_options.h"
#include "tensor/chip.h"

/// *ret is malloc'ed JSON text. A file that cannot be run is described as far as it can be read,
/// with the reason under "refused"; that is no failure. `options`: which chip it is to be of, and
/// which nodes its register programs may do.
int describe_rknn(const struct sim_options *options, struct bytes file, char **ret,
                  struct error *e);

/// The same of an ONNX file, loaded with these options.
int describe_onnx(struct bytes file, const char *options, char **ret, struct error *e);

/// Sets "defects": nodes whose register programs cannot be what the model says, with `text`. Left
/// out where the programs are not understood.
void describe_defects(json_t *root, const struct rknn_file *f, const struct chip *chip);

/// Sets "macs" and "parameters".
void describe_count(json_t *root, const struct graph *g);
