// "Did you mean": of the known names, the few that are spelled most like one that is not known.
#pragma once

#include <stddef.h>

#define NEAREST_NAMES 3
#define NEAREST_TEXT  300

struct nearest {
    const char *name;
    const char *names[NEAREST_NAMES]; // those that are nearest, all as near
    size_t n;
    unsigned distance;
};

/// For a name that is not known. All names must outlive the struct.
void nearest_init(struct nearest *n, const char *name);

/// Offers a known name. It is kept if it is spelled much like the name (few insertions, deletions,
/// changes, swaps) or begins with it, and no kept one is nearer. Duplicates count once.
void nearest_add(struct nearest *n, const char *known);

/// "; did you mean --loop or --core?" in `ret`, of NEAREST_TEXT bytes; "" if nothing is near.
/// Returns `ret`.
const char *nearest_question(const struct nearest *n, const char *prefix, char *ret);
