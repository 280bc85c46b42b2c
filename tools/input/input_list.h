// Several sets of inputs, from a list as the RKNN toolkit's data sets are: a line for each set,
// with a file for each input, separated by spaces. Names of files are relative to the list's
// folder.
#pragma once

#include "tools/ui/text_list.h"

struct input_list {
    struct text_list *sets;
    size_t n, room;
    char **paths; // of all sets
    size_t n_paths, room_paths;
};

/// Reads the list `path`; NULL: one set, the files of `inputs`. STATUS_INPUT_INVALID for a list
/// that cannot be read or has no line. input_list_done() also after a failure.
int input_list_load(struct input_list *l, const char *path, const struct text_list *inputs,
                    struct error *e);
void input_list_done(struct input_list *l);
