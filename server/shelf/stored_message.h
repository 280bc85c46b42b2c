// Stored models as clients are told of them.
#pragma once

#include "protocol/message.h"
#include "server/net/delimited.h"
#include "server/shelf/stored.h"

struct connection;
struct store;

// Whom a client is told of: everybody, or himself alone. A copy: the shelf's thread asks, too.
struct stored_viewer {
    bool all;
    char own[64]; // as manifest.owner; "": of nothing is it sure that it is his
};

void stored_viewer_set(struct stored_viewer *v, const struct connection *c);

/// Whether he may see who pushed a model, and what that file was called.
bool stored_names_seen(const struct stored_viewer *v, const char *owner);

/// Says it as clients are told.
void stored_describe(const struct store *store, const struct stored *s, rknnd_StoredModel *ret);

/// The same for one client: without names that he may not see.
void stored_describe_to(const struct connection *c, const struct store *store,
                        const struct stored *s, rknnd_StoredModel *ret);

/// The same for a list of StoredModel.
int stored_list_hide(const struct stored_viewer *v, struct bytes lines, struct delimited *ret,
                     struct error *e);

/// A name, and a version unless it is "".
int stored_check_name(const char *name, const char *version, struct error *e);
