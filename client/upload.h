// Bringing a model to a server that does not hold it yet.
#pragma once

#include "client/connection.h"
#include "client/model.h"

/// Offers the model and sends what the server lacks of it, several parts ahead of its answers. The
/// thread's progress callback (rknnd_set_progress) is told. *sent counts the parts that the server
/// has taken: a caller whose connection breaks knows whether trying again leads anywhere.
int upload_model(struct connection *c, const struct model *m, unsigned *sent, struct error *e);
