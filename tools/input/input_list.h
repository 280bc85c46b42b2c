// Several sets of inputs, from a list as the RKNN toolkit's data sets are: a line for each set,
// with a file for each input, separated by spaces. Names of files are relative to the list's
// folder. A name in quotes ("…" or '…', from its first character on) may have spaces; lines that
// begin with # are comments; a byte order mark and CR before LF are passed over.
#pragma once

#include "tools/ui/text_list.h"

struct input_list {
    struct text_list *sets;
    uint32_t *lines; // of the list, from 1 on, that each set is from
    size_t n, room, room_lines;
    char **paths; // of all sets
    size_t n_paths, room_paths;
};

/// Reads the list `path`; NULL: one set, the files of `inputs`. STATUS_INPUT_INVALID, with the
/// line, for a list that cannot be read, has no line, or names a file that is not there.
/// input_list_done() also after a failure.
int input_list_load(struct input_list *l, const char *path, const struct text_list *inputs,
                    struct error *e);

/// The same of a list's text; whether its files are there is not looked at.
int input_list_parse(struct input_list *l, const char *text, size_t size, const char *folder,
                     struct error *e);
void input_list_done(struct input_list *l);
