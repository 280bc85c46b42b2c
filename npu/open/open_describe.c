#include "npu/open/open_describe.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/rknn_chip.h"
#include "npu/open/open_chain.h"

static int list_nodes(const struct rknn_file *f, const char *const *unable, json_t *root)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (unable[i])
            json_array_append_new(list, json_pack("{s:s?, s:s?, s:s}", "node", f->nodes[i].name,
                                                  "op", f->nodes[i].op, "why", unable[i]));
    return json_object_set_new(root, "left_to_cpu", list);
}

static int describe_file(const struct provider *p, const struct chip *wanted, struct bytes file,
                         json_t *root, struct error *e)
{
    struct rknn_file f = {0};
    struct rknn_program program = {0};
    const struct chip *chip;
    cleanup(free_p) const char **unable = NULL;
    int s = rknn_file_open(&f, file, e);
    if (s == 0)
        s = rknn_find_chip(wanted, &f, &chip, e);
    if (s == 0)
        s = rknn_program_open(&program, &f, chip, e);
    if (s == 0 && !(unable = calloc((size_t)f.n_nodes + 1, sizeof *unable)))
        s = error_no_memory(e, "a model", f.n_nodes);
    if (s == 0)
        s = open_chain_judge(p, &program, f.n_nodes, unable, e);
    if (s == 0)
        s = list_nodes(&f, unable, root);
    rknn_program_done(&program);
    rknn_file_done(&f);
    return s;
}

char *open_describe(const struct provider *p, const struct chip *wanted, struct bytes file,
                    char *text)
{
    struct error refused;
    json_t *root = p->ops->judge ? json_loads(text, 0, NULL) : NULL;
    if (!root)
        return text;
    // What cannot be read is described as far as it was.
    char *ret =
        describe_file(p, wanted, file, root, &refused) == 0 ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!ret)
        return text;
    free(text);
    return ret;
}
