// Products of matrices (rknn_matmul_api.h) on the CPU: C = A * B with scales and zero points of B
// for each column or group. Exact for integers; floats are multiplied and summed as float32.
//
//   product.c         a product as a model        product_factor.c  B as it is multiplied, kept
//   product_data.c    reads A and B, writes C     product_run.c     blocks of A, slices of B
//
// Tested by test_sim_matmul against sums in 64 bits, and by the conformance programs matmul*.
#pragma once

#include "npu/product_io.h"
#include "tensor/chip.h"

// A product as a model.
struct product {
    const struct chip *chip;
    struct product_io io;
};

/// Reads a file, which must outlive p; there is nothing to free.
int product_init(struct product *p, const struct chip *chip, struct bytes file, struct error *e);

void product_info(const struct product *p, struct npu_model_info *ret);

/// The product that a file describes, as JSON. *ret is malloc'ed, the caller frees it.
int product_describe(struct bytes file, char **ret, struct error *e);

struct product_state;

/// What belongs to one context: B as it is multiplied, and room for sums.
int product_state_new(const struct product *p, struct product_state **ret, struct error *e);
uint64_t product_state_size(const struct product *p); // bytes, at most
void product_state_free(struct product_state *s);

/// Runs a job, which lends the device to others as job->slices says and ends early when job->stop
/// is set; sets run_us.
int product_run(struct product_state *s, struct npu_job *job, struct error *e);

/// How long the last run has waited for those to whom it lent the device.
uint64_t product_waited_us(const struct product_state *s);

/// The only layer of the last run that ended well, with the chip's cycles; the microseconds of
/// them.
struct npu_layer *product_layer(struct product_state *s);
double product_us(const struct product_state *s);
