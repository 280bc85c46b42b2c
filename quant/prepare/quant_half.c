// Exporters write float16 models with casts around what their operators lack (Resize), which here
// become casts from float32 to itself.
#include "quant/prepare/quant_half.h"

#include <string.h>

#include "quant/model/quant_constant.h"
#include "quant/model/quant_external.h"
#include "tensor/convert.h"

// bfloat16 is another type, which no exporter for NPUs writes.
static bool half_is(int32_t type)
{
    return type == QUANT_FLOAT16;
}

// Elements are in raw_data, or each in a number of 32 bits.
static uint16_t half_element(const Quant__Tensor *t, size_t i)
{
    uint16_t h;
    if (!t->has_raw_data)
        return (uint16_t)t->int32_data[i];
    memcpy(&h, t->raw_data.data + i * sizeof h, sizeof h);
    return h;
}

// The file's bytes make room: of a large model both would be too much.
static void half_give(struct quant_model *m, const Quant__Tensor *t)
{
    if (t->has_raw_data && !quant_external_is_mapped(m->mappings, t->raw_data.data))
        quant_pool_give(&m->pool, t->raw_data.data, t->raw_data.len);
}

// In place: the message points to the floats instead.
static int half_widen_tensor(struct quant_model *m, Quant__Tensor *t, bool *any, struct error *e)
{
    if (!t || !half_is(t->data_type))
        return 0;
    size_t n = quant_constant_count(t);
    if ((t->has_raw_data ? t->raw_data.len / sizeof(uint16_t) : t->n_int32_data) != n)
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s has not the elements that its shape says", quant_text(t->name));
    float *wide = quant_pool_take(&m->pool, n, sizeof *wide);
    if (!wide)
        return error_no_memory(e, "a weight", n);
    for (size_t i = 0; i < n; i++)
        wide[i] = convert_fp16_to_float(half_element(t, i));
    half_give(m, t);
    t->raw_data.data = (uint8_t *)wide;
    t->raw_data.len = n * sizeof *wide;
    t->has_raw_data = true;
    t->n_int32_data = 0;
    t->data_type = QUANT_FLOAT;
    *any = true;
    return 0;
}

// Constants in attributes, and the types that casts and random numbers have as theirs.
static int half_widen_node(struct quant_model *m, const Quant__Node *n, bool *any, struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < n->n_attribute && r == 0; i++) {
        Quant__Attribute *a = n->attribute[i];
        const char *name = quant_text(a->name);
        bool is_type = strcmp(name, "to") == 0 || strcmp(name, "dtype") == 0;
        r = half_widen_tensor(m, a->t, any, e);
        if (!is_type || !a->has_i || a->i != QUANT_FLOAT16)
            continue;
        a->i = QUANT_FLOAT;
        *any = true;
    }
    return r;
}

// What is said of tensors in between would contradict what comes out of the nodes now.
static void half_widen_values(Quant__ValueInfo *const *list, size_t n, bool *any)
{
    for (size_t i = 0; i < n; i++) {
        Quant__TensorType *type = list[i]->type ? list[i]->type->tensor_type : NULL;
        if (!type || !half_is(type->elem_type))
            continue;
        type->elem_type = QUANT_FLOAT;
        *any = true;
    }
}

int quant_widen_halves(struct quant_model *m, bool *ret, struct error *e)
{
    Quant__Graph *g = m->graph;
    int r = 0;
    *ret = false;
    half_widen_values(g->input, g->n_input, ret);
    half_widen_values(g->output, g->n_output, ret);
    half_widen_values(g->value_info, g->n_value_info, ret);
    for (size_t i = 0; i < g->n_initializer && r == 0; i++)
        r = half_widen_tensor(m, g->initializer[i], ret, e);
    for (size_t i = 0; i < g->n_node && r == 0; i++)
        r = half_widen_node(m, g->node[i], ret, e);
    if (r == 0 && *ret && m->has_subgraphs)
        r = error_set(e, STATUS_MODEL_INVALID,
                      "it has float16 tensors and subgraphs (If, Loop, Scan), which are not made "
                      "float32: export it in float32");
    return r;
}
