// A product of matrices as a model: what its file says, and its tensors.
#pragma once

#include "npu/npu.h"
#include "tensor/matmul_model.h"

struct product_io {
    struct matmul_model model;
    struct tensor_io inputs[MATMUL_INPUTS], output;
};

/// Reads a file, which must stay, for a chip ("rk3588"); nothing is to be freed.
int product_io_init(struct product_io *p, const char *chip, struct bytes file, struct error *e);

/// Points to `p`; memory_size and core_limit are the backend's to say.
void product_io_info(const struct product_io *p, struct npu_model_info *ret);

// The parameters of a job, and the matrices of its shape.
struct product_job {
    struct matmul_run run;
    struct matmul_shape shape;
    struct matmul_matrix a, b, c;
};

/// Reads a job's parameters and checks that A is there, and room for C where it is wanted.
int product_io_read(const struct product_io *p, const char *chip, const struct npu_job *job,
                    struct product_job *ret, struct error *e);

/// Checks that B and its scales are there, which a job need not bring each time.
int product_io_check_b(const struct product_io *p, const struct product_job *j,
                       const struct npu_job *job, struct error *e);
