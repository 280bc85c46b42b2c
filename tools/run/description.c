// What a model file says, as JSON: asked of the server, so that models that only its backend can
// read are described too. The names of tensors are for "did you mean" and for checking options.
#include "tools/run/description.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "rknnd.h"
#include "tools/run/load_option_args.h"
#include "tools/run/open_model.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"

// A missing file is refused before a server is looked for. The load options matter: shapes change
// the description.
int description_get(const struct task *t, json_t **ret, struct error *e)
{
    const char *path = t->model;
    struct progress progress;
    json_error_t error;
    char *text = NULL;
    if (!model_is_stored(path) && access(path, R_OK) < 0)
        return error_set(e, STATUS_MODEL_INVALID, "model %s: %s", path, strerror(errno));
    int r = load_options_set(&t->shapes, e);
    if (r)
        return r;
    progress_start(&progress, path);
    r = rknnd_describe_model(NULL, path, &text);
    progress_end(&progress);
    if (r < 0)
        return rknn_error_model(e, r, path);
    *ret = json_loads(text, 0, &error);
    rknnd_free(text);
    if (!*ret)
        return error_set(e, STATUS_FAIL,
                         "model %s: the server's description is not JSON: line %d: %s", path,
                         error.line, error.text);
    return 0;
}

// One walk over all names serves collecting and searching; true ends it.
typedef bool name_visitor(void *user, const char *name); // true: it is the one

// Tensors without a name are skipped.
static bool visit_list(const json_t *list, name_visitor *visit, void *user)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(list, i, tensor)
    {
        const char *name = json_string_value(json_object_get(tensor, "name"));
        if (name && *name && visit(user, name))
            return true;
    }
    return false;
}

// Outputs first: a name that a node computes is what --only and --map mostly mean.
static bool visit_names(const json_t *description, name_visitor *visit, void *user)
{
    size_t i;
    json_t *node;
    json_array_foreach(json_object_get(description, "nodes"), i, node)
    {
        if (visit_list(json_object_get(node, "outputs"), visit, user) ||
            visit_list(json_object_get(node, "inputs"), visit, user))
            return true;
    }
    return false;
}

static bool add_name(void *user, const char *name)
{
    nearest_add(user, name);
    return false;
}

static bool is_name(void *user, const char *name)
{
    return strcmp(user, name) == 0;
}

void description_add_names(const json_t *description, struct nearest *near)
{
    visit_names(description, add_name, near);
}

bool description_has_name(const json_t *description, const char *name)
{
    return visit_names(description, is_name, (void *)(uintptr_t)name);
}

// ---- to be shown -------------------------------------------------------------------------------

static json_t *printable_text(const char *text)
{
    cleanup(free_p) char *shown = strdup(text);
    if (!shown)
        return NULL;
    text_make_printable(shown);
    return json_string(shown);
}

// A copy. Names of an object's members can be a model's, too; those that become the same are one.
static json_t *printable_copy(json_t *value)
{
    json_t *copy, *item;
    const char *key;
    size_t i;
    if (json_is_string(value))
        return printable_text(json_string_value(value));
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, item) json_array_append_new(copy, printable_copy(item));
        return copy;
    }
    if (!json_is_object(value))
        return json_incref(value);
    copy = json_object();
    json_object_foreach(value, key, item)
    {
        cleanup(free_p) char *shown = strdup(key);
        if (shown) {
            text_make_printable(shown);
            json_object_set_new(copy, shown, printable_copy(item));
        }
    }
    return copy;
}

int description_make_printable(json_t **description, struct error *e)
{
    json_t *copy = printable_copy(*description);
    if (!copy)
        return error_no_memory(e, "a description", 0);
    json_decref(*description);
    *description = copy;
    return 0;
}
