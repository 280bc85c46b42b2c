// What is listed is asked of direct_form.h, form by form, as a run would ask: so the list cannot
// say something else than what a run does. Offsets and the buffers themselves are the run's affair.
#include "npu/open/direct/direct_describe.h"

#include <stdio.h>

#include "npu/open/direct/direct_form.h"

// ---- forms that programs use ----

static void add_form(json_t *forms, const struct convert_form *f)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s%s", tensor_type_name(f->type),
             f->layout == TENSOR_UNDEFINED ? "" : " ",
             f->layout == TENSOR_UNDEFINED ? "" : tensor_layout_name(f->layout));
    json_array_append_new(forms, json_string(text));
}

// As rknn_set_io_mem() has them: passed through natively, or any type in one of the two layouts
// that programs give.
static json_t *input_forms(const struct open_port *port, const struct tensor_io *io)
{
    static const enum tensor_layout layouts[] = {TENSOR_NHWC, TENSOR_NCHW};
    struct npu_input native = {.pass_through = true, .size = io->native.size};
    json_t *forms = json_array();
    uint32_t dims[4];
    bool image = io->logical.n_dims == 4;
    if (!direct_form_input(port, io, &native))
        json_array_append_new(forms, json_string("native"));
    native.size = io->native.size_with_stride;
    if (native.size != io->native.size && !direct_form_input(port, io, &native))
        json_array_append_new(forms, json_string("native, lines padded"));
    convert_dims(&io->logical, dims);
    for (unsigned type = 0; type < TENSOR_TYPE_COUNT; type++)
        for (size_t i = 0; i < (image ? 2 : 1); i++) {
            struct convert_form f = {.type = (enum tensor_type)type,
                                     .layout = image ? layouts[i] : TENSOR_UNDEFINED};
            struct npu_input in = {.type = f.type, .layout = f.layout};
            if (convert_form_bytes(dims, &f, &in.size, NULL) == 0 &&
                !direct_form_input(port, io, &in))
                add_form(forms, &f);
        }
    return forms;
}

// The three views of an output that programs can ask for; those of one layout are one.
static json_t *output_forms(const struct open_port *port, const struct tensor_io *io)
{
    const struct tensor_attr *views[] = {&io->logical, &io->native, &io->native_nhwc};
    json_t *forms = json_array();
    uint32_t dims[4];
    convert_dims(&io->logical, dims);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct convert_form f = {.type = io->logical.type,
                                 .layout = views[i]->layout,
                                 .c2 = views[i]->layout == TENSOR_NC1HWC2 ? views[i]->dims[4] : 0};
        struct npu_output out = {.form = &f};
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || views[k]->layout == f.layout;
        if (!again && convert_form_bytes(dims, &f, &out.size, NULL) == 0 &&
            !direct_form_output(port, io, &out))
            add_form(forms, &f);
    }
    return forms;
}

// ---- the list ----

// A reason that is the provider's comes first: it is that of all tensors.
static int add_port(json_t *list, const struct npu_model *m, uint32_t i, bool input)
{
    const struct open_port *port = input ? &m->inputs[i] : &m->outputs[i];
    const struct tensor_io *io = input ? &m->info.inputs[i] : &m->info.outputs[i];
    const char *why = m->provider->ops->info(m->provider)->no_import;
    why = why ? why : port->why;
    json_t *forms = why ? NULL : input ? input_forms(port, io) : output_forms(port, io);
    if (!why && json_array_size(forms) == 0) {
        json_decref(forms);
        forms = NULL;
        why = "programs have it in no form that the NPU has";
    }
    return json_array_append_new(list, json_pack("{s:s, s:b, s:s*, s:o*}", "tensor",
                                                 io->logical.name, "input", input, "why",
                                                 forms ? NULL : why, "forms", forms));
}

json_t *direct_describe(const struct npu_model *m)
{
    json_t *list = json_array();
    int s = list ? 0 : -1;
    for (uint32_t i = 0; i < m->info.n_inputs && s == 0; i++)
        s = add_port(list, m, i, true);
    for (uint32_t i = 0; i < m->info.n_outputs && s == 0; i++)
        s = add_port(list, m, i, false);
    if (s == 0)
        return list;
    json_decref(list);
    return NULL;
}
