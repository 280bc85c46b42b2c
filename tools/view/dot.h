// A model's graph as text for Graphviz.
#pragma once

#include <jansson.h>
#include <stdio.h>

/// Writes one digraph from the description of a model (JSON of rknnd_describe_model): a box for
/// each node, with operator, name, device and, where the description has it, the estimated time; an
/// edge for each tensor that one node writes and another reads, with shape and type. Constants are
/// left out; inputs and outputs of the model that no node stands for are ellipses. Returns 0, or -1
/// when memory ran out (then the text is cut).
int dot_write(json_t *model, FILE *out);
