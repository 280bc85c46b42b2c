// Models of a server's store: "rknnd:NAME" or "rknnd:NAME@VERSION" where a path is expected.
#pragma once

#include <string.h>

#include "client/link/connection.h"
#include "client/model/model.h"

#define STORED_SCHEME "rknnd:"

static inline bool stored_is_meant(const char *path)
{
    return strncmp(path, STORED_SCHEME, strlen(STORED_SCHEME)) == 0;
}

/// NAME or NAME@VERSION into a message; "" is no name. STATUS_PARAM_INVALID with words.
int stored_parse(const char *text, rknnd_StoredName *ret, struct error *e);

/// A model of which nothing but its name is known until stored_find().
int stored_model(struct model *m, const char *path, struct error *e);

/// A file, or a stored model, whichever `path` means.
int stored_or_file(struct model *m, const char *path, struct error *e);

/// Has the server find it, and keep it for this connection: hash and size become known.
int stored_find(struct connection *c, struct model *m, struct error *e);
