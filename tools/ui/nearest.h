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

/// For a name that nobody knows. All names outlive the struct.
void nearest_init(struct nearest *n, const char *name);

/// A name that is known. It is kept if it differs in few letters (added, left out, changed or
/// swapped), or begins with the name, and none is nearer. Names that are there already count once.
void nearest_add(struct nearest *n, const char *known);

/// "; did you mean --loop or --core?" in `ret`, of NEAREST_TEXT bytes; "" if nothing is near.
/// Returns `ret`.
const char *nearest_question(const struct nearest *n, const char *prefix, char *ret);
