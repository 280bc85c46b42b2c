// Sets of inputs from a list file, as the RKNN toolkit's dataset.txt: a line for each set, a file
// for each input, separated by spaces. Paths are relative to the list's folder.
#include "tools/input/input_list.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

// The list owns the path, the set points to it.
static int add_path(struct input_list *l, struct text_list *set, const char *folder,
                    const char *word, struct error *e)
{
    if (array_reserve(l->paths, l->room_paths, l->n_paths + 1, "paths", e) < 0)
        return e->code;
    if (asprintf(&l->paths[l->n_paths], "%s%s%s", *word == '/' ? "" : folder,
                 *word == '/' ? "" : "/", word) < 0)
        return error_no_memory(e, "a list of inputs", 0);
    return text_list_add(set, l->paths[l->n_paths++], e);
}

// Splits a line in place; an empty one is no set.
static int add_set(struct input_list *l, char *line, const char *folder, struct error *e)
{
    char *rest = NULL, *word = strtok_r(line, " \t\r\n", &rest);
    if (!word)
        return 0;
    if (array_reserve(l->sets, l->room, l->n + 1, "sets", e) < 0)
        return e->code;
    l->sets[l->n++] = (struct text_list){0};
    int r = 0;
    for (; word && r == 0; word = strtok_r(NULL, " \t\r\n", &rest))
        r = add_path(l, &l->sets[l->n - 1], folder, word, e);
    return r;
}

// Fails for a list without a single set: an empty file is a mistake, not zero comparisons.
static int read_list(struct input_list *l, const char *path, struct error *e)
{
    cleanup(fclose_p) FILE *file = fopen(path, "re");
    cleanup(free_p) char *line = NULL, *copy = strdup(path);
    size_t size = 0;
    int r = 0;
    if (!copy)
        return error_no_memory(e, "a list of inputs", 0);
    if (!file)
        return error_set(e, STATUS_INPUT_INVALID, "list %s: %s", path, strerror(errno));
    const char *folder = dirname(copy);
    while (r == 0 && getline(&line, &size, file) >= 0)
        r = add_set(l, line, folder, e);
    if (r == 0 && ferror(file))
        r = error_set(e, STATUS_INPUT_INVALID, "list %s: it cannot be read", path);
    if (r == 0 && l->n == 0)
        r = error_set(e, STATUS_INPUT_INVALID, "list %s: there is no line with files", path);
    return r;
}

// Without a list the values of -i are the only set.
int input_list_load(struct input_list *l, const char *path, const struct text_list *inputs,
                    struct error *e)
{
    int r = 0;
    *l = (struct input_list){0};
    if (path)
        return read_list(l, path, e);
    l->sets = calloc(1, sizeof *l->sets);
    if (!l->sets)
        return error_no_memory(e, "a list of inputs", 0);
    l->n = 1;
    for (size_t i = 0; i < inputs->n && r == 0; i++)
        r = text_list_add(&l->sets[0], inputs->items[i], e);
    return r;
}

// Sets first: they only point to the paths.
void input_list_done(struct input_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        text_list_done(&l->sets[i]);
    for (size_t i = 0; i < l->n_paths; i++)
        free(l->paths[i]);
    free(l->sets);
    free(l->paths);
    *l = (struct input_list){0};
}
