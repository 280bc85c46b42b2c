// Opening models.
#pragma once

#include "client/model/model.h"
#include "rknn_api.h"

/// What every way to open something does first: reads the environment, once.
void init_prepare(void);

struct connection;

/// Brings a model to a server (NULL: the one that the program has chosen), on a connection that is
/// the caller's, to server_disconnect(): the server holds the model for it.
int init_bring_model(const char *uri, struct model *m, struct connection **ret, struct error *e);

/// Brings a model to the server that the program has chosen, and opens a context of it. `options`
/// as load_options().
int init_open_model(struct model *m, uint32_t flags, const char *options, rknn_context *ret,
                    struct error *e);
