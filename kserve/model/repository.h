// The models that are served, by name and version: those that the sources have, and which of them
// are loaded.
#pragma once

#include <stdbool.h>

#include "kserve/model/catalog.h"
#include "kserve/model/served_model.h"

struct reply;
struct repository;

/// At most 32 sources, which live as long as the repository, as do the options.
struct repository *repository_new(const struct model_source *sources, unsigned n_sources,
                                  const struct served_options *options);
void repository_free(struct repository *r);

/// Looks at the source again for models of the name, and loads what it has, or loads it again;
/// NULL: for all, and loads what has changed. STATUS_PARAM_INVALID: it has none of the name. With a
/// name, one that cannot be loaded is a failure; what was loaded before stays then. Without one
/// only STATUS_DEVICE_UNAVAILABLE is: the daemon went, or what it runs models with did.
int repository_load(struct repository *r, const char *name, struct error *e);

/// Requests that run meanwhile end as they would have. STATUS_PARAM_INVALID: there is none.
int repository_unload(struct repository *r, const char *name, struct error *e);

/// Only what there is: nothing is loaded. For a start without models.
int repository_look(struct repository *r, struct error *e);

/// A loaded model, which is the caller's to unref; `version` NULL or "": the highest one. NULL with
/// words: there is none, or it is not loaded.
struct served_model *repository_find(struct repository *r, const char *name, const char *version,
                                     struct error *e);

/// The protocol's index, as a JSON array.
void repository_index(struct repository *r, bool only_ready, struct reply *reply);

/// The loaded versions of a model, as a JSON array of strings.
void repository_versions(struct repository *r, const char *name, struct reply *reply);

/// Calls back for each loaded model of the name (NULL: all), and version ("": all); returns how
/// many.
unsigned repository_each(struct repository *r, const char *name, const char *version,
                         void (*call)(void *user, struct served_model *m), void *user);
