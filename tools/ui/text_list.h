// Texts of a command line, in their order. The list owns its array, not the texts.
#pragma once

#include <stddef.h>

#include "base/error.h"

struct text_list {
    const char **items; // of options: point into argv
    size_t n, room;
};

/// `item` outlives the list.
int text_list_add(struct text_list *l, const char *item, struct error *e);

/// As an option's call (base/options/option_table.h): each use of the option appends.
int text_list_option(void *list, const char *text, struct error *e);

void text_list_done(struct text_list *l);
