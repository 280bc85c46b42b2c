// All names lie in one text, in which line ends have become 0: a model with 1000 classes costs two
// allocations. They are read when the model is opened, and a request only looks them up.
#include "kserve/model/labels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "rknnd.h"

#include "base/cleanup.h"
#include "kserve/library_error.h"
#include "kserve/small_file.h"

#define KEPT       "rknnd:"
#define MAX_LABELS 65536
#define MAX_BYTES  (4U << 20)

// Whether the last one ends or not.
static uint32_t count_lines(const char *text)
{
    uint32_t n = 0;
    for (; *text; text += *text == '\n') {
        n++;
        text += strcspn(text, "\n");
    }
    return n;
}

// Files of other systems end lines with CR LF.
static int read_lines(struct labels *ret, const char *text, struct error *e)
{
    uint32_t n = count_lines(text);
    if (n > MAX_LABELS)
        return error_set(e, STATUS_PARAM_INVALID, "labels: there are more than %d", MAX_LABELS);
    struct labels l = {.text = strdup(text), .names = calloc(n + 1, sizeof *l.names)};
    if (!l.text || !l.names) {
        labels_done(&l);
        return error_no_memory(e, "labels", strlen(text));
    }
    char *rest = l.text;
    while (l.n < n) {
        char *line = strsep(&rest, "\n");
        size_t size = strlen(line);
        if (size > 0 && line[size - 1] == '\r')
            line[--size] = 0;
        l.names[l.n++] = line;
        l.longest = size > l.longest ? (uint32_t)size : l.longest;
    }
    *ret = l;
    return 0;
}

// A name of two lines would be two: the daemon keeps none.
static int join(yajl_val list, char **ret)
{
    size_t n = 1;
    for (size_t i = 0; i < list->u.array.len; i++)
        n += strlen(list->u.array.values[i]->u.string) + 1;
    char *at = *ret = malloc(n);
    if (!at)
        return -1;
    *at = 0;
    for (size_t i = 0; i < list->u.array.len; i++)
        at = stpcpy(stpcpy(at, list->u.array.values[i]->u.string), "\n");
    return 0;
}

static bool are_strings(yajl_val list)
{
    if (!YAJL_IS_ARRAY(list))
        return false;
    for (size_t i = 0; i < list->u.array.len; i++)
        if (!YAJL_IS_STRING(list->u.array.values[i]))
            return false;
    return true;
}

// The manifest is the daemon's, and checked all the same: it may be one of another version, or
// another machine's.
static int fetch(struct labels *ret, const char *path, struct error *e)
{
    static const char *const place[] = {"labels", NULL};
    char *json = NULL, *text = NULL;
    int r = rknnd_get_manifest(NULL, path + strlen(KEPT), &json);
    if (r < 0)
        return library_error(e, r);
    yajl_val manifest = yajl_tree_parse(json, NULL, 0);
    yajl_val list = manifest ? yajl_tree_get(manifest, (const char **)place, yajl_t_array) : NULL;
    if (!list || !are_strings(list))
        r = error_set(e, STATUS_FAIL, "%s: the daemon tells no labels of it", path);
    else if (join(list, &text) < 0)
        r = error_no_memory(e, "labels", 0);
    else
        r = read_lines(ret, text, e);
    free(text);
    yajl_tree_free(manifest);
    rknnd_free(json);
    return r;
}

int labels_open(struct labels *ret, const char *place, struct error *e)
{
    if (strncmp(place, KEPT, strlen(KEPT)) == 0)
        return fetch(ret, place, e);
    cleanup(free_p) char *text = NULL;
    int r = small_file_read(place, MAX_BYTES, &text, e);
    if (r == 0 && !text)
        return error_set(e, STATUS_FAIL, "%s: it has gone", place);
    return r < 0 ? r : read_lines(ret, text, e);
}

const char *labels_name(const struct labels *l, uint32_t number)
{
    return number < l->n ? l->names[number] : "";
}

void labels_done(struct labels *l)
{
    free(l->text);
    free(l->names);
    *l = (struct labels){.text = NULL};
}
