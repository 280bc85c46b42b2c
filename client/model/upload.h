// Bringing a model to a server that does not hold it yet.
#pragma once

#include "client/link/connection.h"
#include "client/model/model.h"

/// Offers the model and sends what the server lacks of it, several parts ahead of its answers; one
/// of the server's own is found there instead, which makes its hash known. The thread's progress
/// callback (rknnd_set_progress) is told. *held: bytes that the server had when this began, so that
/// a caller whose connection breaks sees whether trying again leads anywhere.
int upload_model(struct connection *c, struct model *m, uint64_t *held, struct error *e);

/// Tells the thread's progress callback.
void upload_tell(uint64_t done, uint64_t total);
