// One question to a backend without a runner: what is the device, what is in this file.
#pragma once

#include "npu/npu.h"
#include "server/runner/runner_options.h"
#include "worker/model_file.h"

/// What the backend says of itself, without a model; in a worker that ends at once.
int runner_probe(const struct runner_options *options,
                 void (*got)(void *owner, const struct error *e,
                             const struct npu_device_info *info),
                 void *owner, struct error *e);

/// The backend's description of a model file as JSON text; in a worker that ends at once.
int runner_describe(const struct runner_options *options, const struct model_file *model,
                    void (*got)(void *owner, const struct error *e, struct bytes json), void *owner,
                    struct error *e);

/// Ends what runner_probe() and runner_describe() with these options still do: their callbacks will
/// not come. For shutdown.
void runner_cancel_all(const struct runner_options *options);
