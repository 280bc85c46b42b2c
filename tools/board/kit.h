// What is tried on a board: models for one chip, their inputs, and what each answer to an open
// question would give. Made at build time by npu/write/boardkit, one archive for each chip.
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct kit_file {
    char *name; // in the archive
    uint8_t *data;
    size_t size;
};

struct kit {
    json_t *table; // kit.json: {"chip", "probes": [...], "by_hand": [...], "unwritten": [...]}
    struct kit_file *files;
    size_t n_files, room;
};

/// Opens the kit of `chip`; chips of one kind share one (rk3568 has rk3566's). With an explicit
/// `folder` it is looked for there alone, else beside rknnctl as it is built and installed.
/// kit_close() is safe after a failure.
int kit_open(struct kit *k, const char *folder, const char *chip, struct error *e);

/// The archive of that name, whatever chip it is of. As kit_open().
int kit_open_file(struct kit *k, const char *path, struct error *e);
void kit_close(struct kit *k);

/// A file of the archive; NULL: it has none of that name.
const struct kit_file *kit_find(const struct kit *k, const char *name);

/// The probe `id`; NULL: there is none.
json_t *kit_probe(const struct kit *k, const char *id);
