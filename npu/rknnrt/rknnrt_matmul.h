// Products of matrices (rknn_matmul_api.h) by the runtime.
#pragma once

#include "npu/product_io.h"
#include "npu/rknnrt/runtime.h"

struct product {
    const struct runtime *runtime;
    const char *chip;
    struct product_io io;
};

/// Reads a file, which must stay; nothing is to be freed. STATUS_DEVICE_UNAVAILABLE: the runtime is
/// too old for it.
int product_init(struct product *p, const struct runtime *r, const char *chip, struct bytes file,
                 struct error *e);

// A context of the runtime's with its memory: one for each of ours, since it keeps B.
struct product_use;

/// Refuses (STATUS_MODEL_INVALID) what the runtime lays out in another way than matmul_place()
/// says.
int product_use_new(const struct product *p, struct product_use **ret, struct error *e);
void product_use_free(struct product_use *u);

/// Runs a job, without calling done(); `cores` as in lane_run().
int product_use_run(struct product_use *u, struct npu_job *job, uint32_t cores, struct error *e);
