// A matrix product C = A x B as a model (rknn_matmul_api.h). The client sends a matmul description
// in place of a model file; product_io.c decodes it and gives the inputs and outputs their
// attributes. product_run.c has formula and rounding.
#include "npu/sim/matmul/product.h"

#include <jansson.h>

int product_init(struct product *p, const struct chip *chip, struct bytes file, struct error *e)
{
    *p = (struct product){.chip = chip};
    return product_io_init(&p->io, chip->name, file, e);
}

void product_info(const struct product *p, struct npu_model_info *ret)
{
    product_io_info(&p->io, ret);
    ret->memory_size = sizeof *p;
    ret->core_limit = p->chip->n_cores;
}

int product_describe(struct bytes file, char **ret, struct error *e)
{
    struct matmul_model m;
    int r = matmul_model_decode(file, &m, e);
    if (r < 0)
        return r;
    const struct matmul_kind *k = &m.kind;
    json_t *shapes = json_array();
    for (uint32_t i = 0; i < m.n_shapes; i++) {
        struct matmul_shape s = matmul_model_shape(&m, i);
        json_array_append_new(shapes, json_pack("{s:I, s:I, s:I}", "M", (json_int_t)s.m, "K",
                                                (json_int_t)s.k, "N", (json_int_t)s.n));
    }
    json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "container", "matmul",
                             "type", (json_int_t)k->type, "B_layout", (json_int_t)k->b_layout,
                             "AC_layout", (json_int_t)k->ac_layout, "B_quant_type",
                             (json_int_t)k->b_quant, "AC_quant_type", (json_int_t)k->ac_quant,
                             "group_size", (json_int_t)k->group_size, "shapes", shapes);
    *ret = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    return *ret ? 0 : error_no_memory(e, "a description", file.size);
}
