// Single nodes of a graph, for a backend that has others computed elsewhere.
//
// A node's tensors lie in memory as the executor stores them: 4-D ones with channels_last as NHWC,
// others in the order of their dimensions; packed.
#pragma once

#include "npu/model/graph.h"
#include "npu/npu.h"

struct sim_node;
struct sim_node_run;

/// `g` must outlive it. Refuses what cannot be computed. Free with sim_node_free(), after its runs.
int sim_node_new(const struct graph *g, uint32_t node, struct sim_node **ret, struct error *e);
void sim_node_free(struct sim_node *n); // NULL is fine

/// Memory in which one context at a time runs the node.
int sim_node_run_new(const struct sim_node *n, struct sim_node_run **ret, struct error *e);
void sim_node_run_free(struct sim_node_run *r); // NULL is fine

/// The memory of one of the node's tensors that is not constant.
void *sim_node_tensor(const struct sim_node_run *r, uint32_t tensor);

/// Computes the outputs. `custom`: as npu_job's.
int sim_node_compute(struct sim_node_run *r, struct npu_custom *custom, struct error *e);
