// What the runtime says of a model, as JSON. This backend does not read the file itself, so there
// is less than the software NPU's description has: no nodes, no chip, no toolkit.
#include "npu/rknnrt/rknnrt_describe.h"

#include <jansson.h>

// Names come from the file and may be any bytes; JSON takes UTF-8 only.
static json_t *text(const char *s)
{
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

static json_t *dims(const struct tensor_attr *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->n_dims; i++)
        json_array_append_new(list, json_integer(a->dims[i]));
    return list;
}

// Logical and native form; scale and zero point only where values are quantized.
static json_t *tensor(const struct tensor_io *io)
{
    const struct tensor_attr *a = &io->logical;
    json_t *j = json_pack("{s:o, s:s, s:s, s:o, s:s, s:o, s:I}", "name", text(a->name), "type",
                          tensor_type_name(a->type), "layout", tensor_layout_name(a->layout),
                          "shape", dims(a), "native_layout", tensor_layout_name(io->native.layout),
                          "native_shape", dims(&io->native), "size", (json_int_t)a->size);
    if (a->qnt == TENSOR_QNT_AFFINE) {
        json_object_set_new(j, "scale", json_real((double)a->scale));
        json_object_set_new(j, "zero_point", json_integer(a->zp));
    }
    return j;
}

// Of all shape sets, one after the other.
static json_t *tensors(const struct tensor_io *list, size_t n)
{
    json_t *j = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(j, tensor(&list[i]));
    return j;
}

static void add_info(json_t *root, const struct npu_model_info *m)
{
    json_object_set_new(root, "custom_string", text(m->custom_string));
    json_object_set_new(root, "weight_size", json_integer((json_int_t)m->weight_size));
    json_object_set_new(root, "internal_size", json_integer((json_int_t)m->internal_size));
    json_object_set_new(root, "shapes", json_integer(m->n_shape_sets));
    json_object_set_new(root, "inputs", tensors(m->inputs, (size_t)m->n_shape_sets * m->n_inputs));
    json_object_set_new(root, "outputs",
                        tensors(m->outputs, (size_t)m->n_shape_sets * m->n_outputs));
}

// With `info` NULL, the reason why the model is refused instead.
int describe(const struct bytes *file, const struct npu_model_info *info, const char *why,
             char **ret, struct error *e)
{
    const char *container = bytes_start_with(*file, "RKNN") ? "rknn" : "unknown";
    json_t *root =
        json_pack("{s:s, s:I}", "container", container, "file_size", (json_int_t)file->size);
    if (info)
        add_info(root, info);
    else
        json_object_set_new(root, "refused", text(why));
    char *json = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!json)
        return error_no_memory(e, "a description", file->size);
    *ret = json;
    return 0;
}
