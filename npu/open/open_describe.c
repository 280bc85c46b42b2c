// The file is loaded as for running, but for the NPU's memory: what is said is what a run would do.
#include "npu/open/open_describe.h"

#include <jansson.h>
#include <stdlib.h>

#include "npu/open/direct/direct_describe.h"
#include "npu/open/open_load.h"

static int list_nodes(const struct npu_model *m, json_t *root)
{
    const struct rknn_file *f = &m->file;
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (m->unable[i])
            json_array_append_new(list, json_pack("{s:s?, s:s?, s:s}", "node", f->nodes[i].name,
                                                  "op", f->nodes[i].op, "why", m->unable[i]));
    return json_object_set_new(root, "left_to_cpu", list);
}

char *open_describe(struct provider *p, const struct chip *wanted, struct bytes file, char *text)
{
    struct error refused; // stands in the text as well
    struct npu_model *m;
    char *ret = NULL;
    json_t *root = json_loads(text, 0, NULL);
    if (root && open_load_plan(p, wanted, file, &m, &refused) == 0) {
        int r = list_nodes(m, root);
        if (r == 0 && json_object_set_new(root, "in_place", direct_describe(m)) == 0)
            ret = json_dumps(root, JSON_COMPACT);
        open_load_free(m);
    }
    json_decref(root);
    if (!ret)
        return text;
    free(text);
    return ret;
}
