// A FILE that writes to memory, and tells at its end whether all of it is there: glibc's
// open_memstream() leaves out what there was no memory for, and its fclose() says nothing.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

#define GROWING_TEXT_BUFFER 4096 // bytes

// On its user's stack, where it stays until it is closed.
struct growing_text {
    FILE *file;
    char *text; // malloc'ed
    size_t size, room;
    bool lacks; // something has not been written
    char buffer[GROWING_TEXT_BUFFER];
};

/// STATUS_MALLOC_FAIL: there is no file. Else `file` may be written to, and has to be closed.
int growing_text_open(struct growing_text *m, struct error *e);

/// Closes it. The caller frees *ret, which ends with a 0 behind its *ret_size bytes.
/// STATUS_MALLOC_FAIL: something is missing, and nothing is returned. `what` names it in the error.
int growing_text_close(struct growing_text *m, const char *what, char **ret, size_t *ret_size,
                       struct error *e);
