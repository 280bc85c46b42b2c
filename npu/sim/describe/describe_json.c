// Descriptions of model files, as JSON.
#include "npu/sim/describe/describe_json.h"

json_t *json_text(const char *s)
{
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

int json_finish(json_t *root, const struct error *why, char **ret, struct error *e)
{
    if (why)
        json_object_set_new(root, "refused", json_text(why->text));
    *ret = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return *ret ? 0 : error_no_memory(e, "a description", 0);
}
