// What the parts of the program "mutations" (mutations.c) share.
#pragma once

#include "npu/model/rknn/rknn_file.h"
#include "tensor/chip.h"

enum verdict { REFUSED, SAME, FOLLOWS, WRONG, ENDS, UNJUDGED, N_VERDICTS };

struct mutations {
    struct rknn_file file;
    const struct chip *chip;
    uint8_t *bytes;       // of the file
    uint64_t state;       // of the random numbers
    bool absent;          // of what tables say, things are left out alone
    uint64_t *kinds;      // of changes that were tried, by their hashes; NULL: all are tried
    uint32_t part, parts; // only those of one part; 0 parts: all
    unsigned long counts[N_VERDICTS];
};

// What a node gives, one output behind the other.
struct result {
    uint8_t *bytes;
    size_t size;
    bool halves; // of fp16
};

// What both give before anything is changed.
struct base {
    struct result sim, emulator;
    bool judged;
};

/// A number below n, by chance.
static inline uint32_t below(struct mutations *m, uint32_t n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((m->state >> 33) % n);
}

/// False: npu/sim does not understand the node. base_done() in any case.
bool base_init(const struct mutations *m, uint32_t node, struct base *b);
void base_done(struct base *b);

/// Judges the node as the file is now, and counts; prints a line where that is worth one.
bool mutations_judge(struct mutations *m, uint32_t node, const struct base *before,
                     const char *what);

void mutations_print_counts(const struct mutations *m);

/// Changes what the file's tables say of a node: `n` times by chance, or all for 0.
void mutations_of_tables(struct mutations *m, uint32_t node, uint32_t n, const struct base *b);
