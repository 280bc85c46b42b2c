// What a stored model's manifest.json says: one JSON object with the members that manifest.c lists,
// each once, and no others.
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "base/sha256.h"

#define MANIFEST_MAX_SIZE   (4u << 20) // bytes of the text
#define MANIFEST_MAX_LABELS 65536

struct manifest {
    uint8_t sha256[SHA256_SIZE];
    uint64_t size; // bytes of the model
    uint64_t time_s;
    uint64_t order; // of the name's versions: the highest one is the newest
    uint32_t batch, n_labels;
    char file[128], owner[64], chip[32]; // printable
};

/// The text, malloc'ed. Fills in what labels and the description say: batch, n_labels and chip.
/// `labels`: UTF-8, a name each line. `description`: as runner_describe() gives it, JSON.
int manifest_write(struct manifest *m, struct bytes labels, struct bytes description, char **ret,
                   struct error *e);

/// STATUS_MODEL_INVALID with words that name what is wrong.
int manifest_read(struct bytes text, struct manifest *ret, struct error *e);

/// Replaces the text of a manifest that could be read by one with neither file nor owner.
int manifest_hide(char **text, struct error *e);
