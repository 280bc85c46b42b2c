// Opening models.
#pragma once

#include "client/model/model.h"
#include "rknn_api.h"

/// What every way to open something does first: reads the environment, once.
void init_prepare(void);

/// Brings a model to the server that the program has chosen, and opens a context of it. `options`
/// as load_options().
int init_open_model(const struct model *m, uint32_t flags, const char *options, rknn_context *ret,
                    struct error *e);
