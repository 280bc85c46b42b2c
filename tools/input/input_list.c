// Sets of inputs from a list file, as the RKNN toolkit's dataset.txt.
//
// The text is read as a whole, line by line and word by word, without a copy of it: `at` only moves
// on. Python's lists are read by the same rules (rknnd._calibration.read_list).
#include "tools/input/input_list.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MOST_BYTES ((size_t)256 << 20) // of a list: some millions of files
#define MARK       "\xef\xbb\xbf"      // of byte order

struct reading {
    struct input_list *l;
    const char *at, *end; // of the text
    const char *folder;
    uint32_t line;
    struct error *e;
};

static int list_wrong(const struct reading *r, const char *words)
{
    return error_set(r->e, STATUS_INPUT_INVALID, "line %u: %s", r->line, words);
}

// Of a line; CR is one, so that lines of other systems end as ours do.
static bool list_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// ---- words ----

// The list owns the path, the set points to it.
static int list_add_path(const struct reading *r, const char *word, size_t size)
{
    struct input_list *l = r->l;
    bool whole = *word == '/';
    if (!size)
        return list_wrong(r, "a name in quotes is empty");
    if (size >= PATH_MAX)
        return list_wrong(r, "a name is longer than a path can be");
    if (array_reserve(l->paths, l->room_paths, l->n_paths + 1, "paths", r->e) < 0)
        return r->e->code;
    if (asprintf(&l->paths[l->n_paths], "%s%s%.*s", whole ? "" : r->folder, whole ? "" : "/",
                 (int)size, word) < 0)
        return error_no_memory(r->e, "a list of inputs", 0);
    return text_list_add(&l->sets[l->n - 1], l->paths[l->n_paths++], r->e);
}

// From a quote on to the same one; the other kind may stand between. There are no escapes, which
// paths of other systems would be full of.
static int list_quoted(struct reading *r)
{
    char quote = *r->at++;
    const char *begin = r->at;
    while (r->at < r->end && *r->at != quote && *r->at != '\n')
        r->at++;
    if (r->at == r->end || *r->at != quote)
        return list_wrong(r, "the quotes around a name do not end");
    const char *end = r->at++;
    if (r->at < r->end && *r->at != '\n' && !list_is_blank(*r->at))
        return list_wrong(r, "something follows the quotes around a name without a space");
    return list_add_path(r, begin, (size_t)(end - begin));
}

// Up to the next blank. A quote that does not begin the word is part of it (it's.jpg).
static int list_word(struct reading *r)
{
    const char *begin = r->at;
    if (*r->at == '"' || *r->at == '\'')
        return list_quoted(r);
    while (r->at < r->end && *r->at != '\n' && !list_is_blank(*r->at))
        r->at++;
    return list_add_path(r, begin, (size_t)(r->at - begin));
}

// ---- lines ----

static int list_begin_set(const struct reading *r)
{
    struct input_list *l = r->l;
    if (array_reserve(l->sets, l->room, l->n + 1, "sets", r->e) < 0 ||
        array_reserve(l->lines, l->room_lines, l->n + 1, "sets", r->e) < 0)
        return r->e->code;
    l->lines[l->n] = r->line;
    l->sets[l->n++] = (struct text_list){0};
    return 0;
}

// An empty line is no set, nor is a comment.
static int list_line(struct reading *r)
{
    bool begun = false;
    int done = 0;
    for (;; begun = true) {
        while (r->at < r->end && list_is_blank(*r->at))
            r->at++;
        if (r->at == r->end || *r->at == '\n' || done < 0)
            return done;
        if (!begun && *r->at == '#') {
            const char *next = memchr(r->at, '\n', (size_t)(r->end - r->at));
            r->at = next ? next : r->end;
            return 0;
        }
        done = begun ? 0 : list_begin_set(r);
        if (done == 0)
            done = list_word(r);
    }
}

int input_list_parse(struct input_list *l, const char *text, size_t size, const char *folder,
                     struct error *e)
{
    size_t mark = sizeof MARK - 1;
    struct reading r = {.l = l, .at = text, .end = text + size, .folder = folder, .e = e};
    const char *zero = memchr(text, 0, size);
    int done = 0;
    for (const char *c = text; zero && c < zero; c++)
        r.line += *c == '\n';
    r.line++;
    if (zero)
        return list_wrong(&r, "it is no text; give a list of files, in UTF-8, not a file itself");
    if (size >= mark && memcmp(text, MARK, mark) == 0)
        r.at += mark;
    for (; r.at < r.end && done == 0; r.line++) {
        done = list_line(&r);
        r.at += r.at < r.end; // over the line's end
    }
    return done == 0 && l->n == 0
               ? error_set(e, STATUS_INPUT_INVALID, "there is no line with files")
               : done;
}

// ---- files ----

// Pipes are read as files are, so the size is not known before.
static int list_read(const char *path, char **ret, size_t *ret_size, struct error *e)
{
    cleanup(fclose_p) FILE *file = fopen(path, "re");
    cleanup(free_p) char *text = NULL;
    size_t n = 0, room = 0;
    if (!file)
        return error_set(e, STATUS_INPUT_INVALID, "%s", strerror(errno));
    while (!feof(file)) {
        if (n == MOST_BYTES)
            return error_set(e, STATUS_INPUT_INVALID, "it is larger than a list can be");
        if (array_reserve(text, room, n + 4096, "lines", e) < 0)
            return e->code;
        n += fread(text + n, 1, room - n < MOST_BYTES - n ? room - n : MOST_BYTES - n, file);
        if (ferror(file))
            return error_set(e, STATUS_INPUT_INVALID, "it cannot be read: %s", strerror(errno));
    }
    *ret = steal_ptr(text);
    *ret_size = n;
    return 0;
}

// Before hours of work with the files before it.
static int list_check_files(const struct input_list *l, struct error *e)
{
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->sets[i].n; k++) {
            const char *path = l->sets[i].items[k];
            struct stat st;
            int missing = stat(path, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
            if (!missing && S_ISFIFO(st.st_mode)) // which may be read twice, or wait for ever
                return error_set(e, STATUS_INPUT_INVALID,
                                 "line %u: %s is a pipe, of which a list can have none",
                                 l->lines[i], path);
            if (missing)
                return error_set(e, STATUS_INPUT_INVALID, "line %u: %s: %s%s", l->lines[i], path,
                                 strerror(missing),
                                 l->sets[i].n > 1     ? " (a name with spaces goes in quotes)"
                                 : strchr(path, '\\') ? " (folders are parted by /)"
                                                      : "");
        }
    return 0;
}

// Fails for a list without a single set: an empty file is a mistake, not zero comparisons.
static int list_load(struct input_list *l, const char *path, struct error *e)
{
    cleanup(free_p) char *text = NULL, *copy = strdup(path);
    size_t size = 0;
    if (!copy)
        return error_no_memory(e, "a list of inputs", 0);
    int r = list_read(path, &text, &size, e);
    if (r == 0)
        r = input_list_parse(l, text, size, dirname(copy), e);
    if (r == 0)
        r = list_check_files(l, e);
    return r < 0 ? error_prefix(e, "list %s", path) : 0;
}

// Without a list the values of -i are the only set.
int input_list_load(struct input_list *l, const char *path, const struct text_list *inputs,
                    struct error *e)
{
    int r = 0;
    *l = (struct input_list){0};
    if (path)
        return list_load(l, path, e);
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
    free(l->lines);
    free(l->paths);
    *l = (struct input_list){0};
}
