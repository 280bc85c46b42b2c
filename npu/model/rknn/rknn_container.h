// The container of a .rknn file: which kind it is, and where its parts are. Nothing is copied.
#pragma once

#include "base/bytes.h"
#include "base/error.h"

enum rknn_kind {
    RKNN_PLAIN,     // containers 1, 2 and 6: one flatbuffer, then JSON
    RKNN_LITE,      // container 0x1004 (RV1103, RV1106): sections, flatbuffer last, then JSON
    RKNN_ENCRYPTED, // the rest is recognised and refused
    RKNN_NEXT,
    RKNN_BINARY_GRAPH,
    RKNN_UNKNOWN,
};

struct rknn_container {
    enum rknn_kind kind;
    uint64_t version;
    bool blobs;        // containers 1 and 2: each task has a blob of commands of its own
    struct bytes meta; // the flatbuffer
    struct bytes json; // not terminated; may be empty
    // RKNN_LITE only:
    struct bytes tasks, registers, weights;
    struct bytes scratch; // constants and working memory of sub-tasks; mostly empty
    uint64_t internal_size;
};

/// Recognises by the magic alone; any bytes will do.
enum rknn_kind rknn_recognise(struct bytes file);

/// Finds the parts. A file that cannot be run is STATUS_MODEL_INVALID with words that say what it
/// is; c->kind is then valid, the rest is not.
int rknn_container_open(struct rknn_container *c, struct bytes file, struct error *e);
