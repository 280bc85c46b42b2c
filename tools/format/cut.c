// Cuts names to a width so that they stay distinguishable. Widths count characters of UTF-8, not
// columns of a terminal. The text is cut at its start first, then in the middle, with more or less
// of the start kept, until no two different names look the same; what remains gets its number:
//
//   heads 0/8:  "~name"        4/8:  "a lo~name"        at last:  "~ame#12"
#include "tools/format/cut.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

// Bytes 10xxxxxx continue a character and do not count.
size_t cut_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

size_t cut_bytes(const char *text, size_t width)
{
    const char *p = text;
    for (; *p; p++)
        if ((*p & 0xc0) != 0x80 && width-- == 0)
            break;
    return (size_t)(p - text);
}

// The arguments of cut_names(): names and results lie `step` pointers apart, as a table's columns
// do.
struct names {
    char *const *names;
    size_t n, step, width;
    char **ret;
};

static const char *name_at(const struct names *s, size_t i)
{
    return s->names[i * s->step];
}

// Too long, and not replaced yet.
static bool is_open(const struct names *s, size_t i)
{
    return s->ret[i * s->step] == s->names[i * s->step] && cut_width(name_at(s, i)) > s->width;
}

struct candidate {
    char *text;
    size_t i;
    bool alike; // another name would look like it
};

// `head` characters of the start, "~", and as many of the end as fit; the caller's to free.
static char *cut_text(const char *name, size_t width, size_t head)
{
    size_t all = cut_width(name);
    char *text;
    if (all <= width)
        return strdup(name);
    int n = asprintf(&text, "%.*s~%s", (int)cut_bytes(name, head), name,
                     name + cut_bytes(name, all - (width - 1 - head)));
    return n < 0 ? NULL : text;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct candidate *)a)->text, ((const struct candidate *)b)->text);
}

// Whether a different name gives the same text as the k-th of the sorted candidates. Equal names
// may look the same.
static bool is_alike(const struct names *s, const struct candidate *list, size_t k)
{
    for (size_t i = k; i-- > 0 && strcmp(list[i].text, list[k].text) == 0;)
        if (strcmp(name_at(s, list[i].i), name_at(s, list[k].i)) != 0)
            return true;
    for (size_t i = k + 1; i < s->n && strcmp(list[i].text, list[k].text) == 0; i++)
        if (strcmp(name_at(s, list[i].i), name_at(s, list[k].i)) != 0)
            return true;
    return false;
}

// One round: cuts all names with this head, sorts the results, and keeps those that are unique
// among the open ones. Names that fit take part too: a cut name must not look like one.
static int try_head(struct names *s, struct candidate *list, size_t head)
{
    int r = 0;
    for (size_t i = 0; i < s->n; i++) {
        list[i] = (struct candidate){cut_text(name_at(s, i), s->width, head), i, true};
        if (!list[i].text)
            r = -1;
    }
    if (r == 0)
        qsort(list, s->n, sizeof *list, by_text);
    for (size_t k = 0; k < s->n && r == 0; k++)
        list[k].alike = is_alike(s, list, k);
    for (size_t k = 0; k < s->n; k++) {
        if (!list[k].alike && is_open(s, list[k].i))
            s->ret[list[k].i * s->step] = list[k].text;
        else
            free(list[k].text);
    }
    return r;
}

// The last resort: the row's number makes it unique.
static int cut_number(struct names *s, size_t i)
{
    char suffix[24], *text;
    const char *name = name_at(s, i);
    size_t room = s->width - 1;
    size_t used = (size_t)snprintf(suffix, sizeof suffix, "#%zu", i + 1);
    room = room > used ? room - used : 0;
    if (asprintf(&text, "~%s%s", name + cut_bytes(name, cut_width(name) - room), suffix) < 0)
        return -1;
    s->ret[i * s->step] = text;
    return 0;
}

// How much of a name's start is kept, in eighths of the width, in the order in which it is tried.
static const size_t heads[] = {0, 4, 2, 6, 3, 5, 7, 1};

int cut_names(char *const *names, size_t n, size_t step, size_t width, char **ret)
{
    struct names s = {names, n, step, width, ret};
    cleanup(free_p) struct candidate *list = calloc(n + 1, sizeof *list);
    int r = list ? 0 : -1;
    for (size_t i = 0; i < sizeof heads / sizeof *heads && r == 0; i++) {
        size_t n_open = 0;
        for (size_t k = 0; k < n; k++)
            n_open += is_open(&s, k);
        if (n_open == 0)
            return 0;
        r = try_head(&s, list, heads[i] * width / 8);
    }
    for (size_t i = 0; i < n && r == 0; i++)
        if (is_open(&s, i))
            r = cut_number(&s, i);
    return r;
}
