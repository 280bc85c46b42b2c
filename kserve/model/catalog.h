// Where models come from: a source tells which there are, and what rknn_init() is to be given for
// each.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CATALOG_VERSION_SIZE 40

struct catalog_model {
    char name[128], version[CATALOG_VERSION_SIZE];
    char path[4096]; // for rknn_init()
    uint64_t rank;   // among the name's versions: without one the highest is meant
    bool is_default; // this one is meant, whatever its rank
    bool is_onnx;
    unsigned source;    // which of several it is from
    char *options;      // text of rknnd_set_load_options(); NULL: none
    char *labels;       // where names of its classes are (labels_open()); NULL: it has none
    uint64_t stamp;     // another one: the files have changed
    char obstacle[480]; // why it cannot be opened; ""
};

struct catalog {
    struct catalog_model *models; // sorted by name, then rank
    size_t n, room;
    unsigned unknown; // bit i: source i could not be asked
};

void catalog_done(struct catalog *c);

// A source of models. `place` is what the command line says about it.
struct model_source {
    const char *place;
    /// Adds all models, or those of one name.
    int (*list)(const char *place, const char *name, struct catalog *ret, struct error *e);
};

/// The source that is a folder: NAME.rknn and NAME.onnx are version 1 of NAME, and
/// NAME/VERSION/FILE.rknn or .onnx are what they say. NAME.options, or NAME/VERSION/options, has
/// the model's load options, NAME.labels or NAME/VERSION/labels names of its classes.
int catalog_list_folder(const char *place, const char *name, struct catalog *ret, struct error *e);

/// The source that is the model store of the daemon (rknnd --model-store), which is `place`; NULL:
/// the one that contexts would use.
int catalog_list_store(const char *place, const char *name, struct catalog *ret, struct error *e);

/// Adds a model without a place. The pointer is good until the next one is added.
struct catalog_model *catalog_add(struct catalog *c, const char *name, const char *version,
                                  struct error *e);

/// Sorts what the sources have added, and marks what there is twice.
void catalog_finish(struct catalog *c);
