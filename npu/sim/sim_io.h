// The inputs and outputs of a graph as the service knows them, and the way of data in and out.
#pragma once

#include "npu/npu.h"
#include "npu/sim/exec/step.h"
#include "tensor/chip.h"

/// Descriptions by the rules of the chip (SDK guide, 5.2: native inputs of 1, 3 or 4 channels are
/// NHWC with a width stride, others NC1HWC2).
int sim_describe_input(const struct graph *g, const struct chip *chip, uint32_t i,
                       struct tensor_io *ret, struct error *e);
int sim_describe_output(const struct graph *g, const struct chip *chip, uint32_t i,
                        struct tensor_io *ret, struct error *e);

/// Puts a job's input into the run's tensor.
int sim_put_input(const struct run *r, uint32_t i, const struct tensor_io *io,
                  const struct npu_input *input, struct error *e);

/// Takes an output out of the run.
int sim_get_output(const struct run *r, uint32_t i, const struct tensor_io *io,
                   const struct npu_output *output, struct error *e);

/// A tensor of the run that is not constant, as an output is described and taken out: in the file's
/// own dimensions, packed. dst takes the tensor's size.
int sim_describe_tensor(const struct graph_tensor *t, struct tensor_attr *ret, struct error *e);
int sim_read_tensor(const struct run *r, uint32_t index, void *dst, struct error *e);

/// Puts other values in its place, as sim_read_tensor() gives them.
int sim_write_tensor(const struct run *r, uint32_t index, const void *src, struct error *e);
