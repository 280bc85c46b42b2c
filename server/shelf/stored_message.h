// Stored models as clients are told of them.
#pragma once

#include "protocol/message.h"
#include "server/shelf/stored.h"

struct store;

/// Says it as clients are told.
void stored_describe(const struct store *store, const struct stored *s, rknnd_StoredModel *ret);

/// A name, and a version unless it is "".
int stored_check_name(const char *name, const char *version, struct error *e);
