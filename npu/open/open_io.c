// Inputs become what a run of a model takes (packed NHWC, values as stored) and then what the NPU
// reads; outputs the other way round.
#include "npu/open/open_io.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/open/open_load.h"
#include "tensor/convert.h"

static int expect_size(const char *what, size_t size, size_t expected, int code, struct error *e)
{
    return size == expected
               ? 0
               : error_set(e, code, "%s has %zu bytes, %zu are expected", what, size, expected);
}

// ---- the NPU's memory ----

static int put_port(struct npu_context *c, const struct open_port *port, bool nhwc,
                    const void *dense, struct error *e)
{
    uint64_t at = open_port_offset(c->model, port);
    rknn_layout_put(&port->layout, nhwc, dense, open_context_map(c, at));
    return open_context_sync(c, at, port->layout.size, PROVIDER_TO_DEVICE, e);
}

static int take_port(struct npu_context *c, const struct open_port *port, bool nhwc, void *dense,
                     struct error *e)
{
    uint64_t at = open_port_offset(c->model, port);
    int s = open_context_sync(c, at, port->layout.size, PROVIDER_FROM_DEVICE, e);
    if (s == 0)
        rknn_layout_get(&port->layout, nhwc, open_context_map(c, at), dense);
    return s;
}

int open_read_tensor(struct npu_context *c, uint32_t tensor, bool nhwc, void *dense,
                     struct error *e)
{
    struct open_port port;
    int s = open_load_port(c->model, tensor, &port, e);
    return s < 0 ? s : take_port(c, &port, nhwc, dense, e);
}

int open_write_tensor(struct npu_context *c, uint32_t tensor, bool nhwc, const void *dense,
                      struct error *e)
{
    struct open_port port;
    int s = open_load_port(c->model, tensor, &port, e);
    return s < 0 ? s : put_port(c, &port, nhwc, dense, e);
}

// ---- inputs ----

// Data in the layout that the model has, lines padded to their stride or not.
static int from_native(const struct tensor_io *io, const struct npu_input *input, uint8_t *whole,
                       struct error *e)
{
    const struct tensor_attr *a = &io->native;
    uint32_t dims[4];
    bool padded = input->size != a->size;
    struct convert_form from = {.type = a->type,
                                .layout = a->layout,
                                .w_stride = padded ? a->w_stride : 0,
                                .c2 = a->layout == TENSOR_NC1HWC2 ? a->dims[4] : 0};
    struct convert_form to = {.type = a->type, .layout = TENSOR_NHWC};
    int s = expect_size(a->name, input->size, padded ? a->size_with_stride : a->size,
                        STATUS_INPUT_INVALID, e);
    if (s < 0)
        return s;
    if (io->logical.n_dims != 4) {
        memcpy(whole, input->data, io->logical.size);
        return 0;
    }
    convert_dims(&io->logical, dims);
    return convert_layout(dims, &from, input->data, input->size, &to, whole, io->logical.size, 0,
                          e);
}

// Stored values in a layout of the program's choice.
static int from_stored(const struct tensor_io *io, const struct npu_input *input, uint8_t *whole,
                       struct error *e)
{
    uint32_t dims[4];
    size_t expected;
    struct convert_form from = {.type = io->logical.type,
                                .layout = input->layout,
                                .w_stride = input->w_stride,
                                .h_stride = input->h_stride};
    struct convert_form to = {.type = io->logical.type, .layout = io->logical.layout};
    convert_dims(&io->logical, dims);
    int s = convert_form_bytes(dims, &from, &expected, e);
    if (s == 0)
        s = expect_size(io->logical.name, input->size, expected, STATUS_INPUT_INVALID, e);
    return s < 0 ? s
                 : convert_layout(dims, &from, input->data, input->size, &to, whole,
                                  io->logical.size, 0, e);
}

static int from_real(const struct tensor_io *io, const struct npu_input *input, uint8_t *whole,
                     struct error *e)
{
    struct convert_form from = {.type = input->type,
                                .layout = input->layout,
                                .w_stride = input->w_stride,
                                .h_stride = input->h_stride};
    return convert_input(io, &from, input->data, input->size, whole, io->logical.size, e);
}

// Data that are what the NPU reads already need one copy.
static bool is_as_read(const struct npu_model *m, uint32_t i, const struct npu_input *input)
{
    const struct open_port *port = &m->inputs[i];
    const struct tensor_io *io = &m->info.inputs[i];
    bool packed = port->layout.block == port->layout.c || io->native.layout == TENSOR_NC1HWC2;
    return m->file.batch == 1 && rknn_layout_is_native(&port->layout) && packed &&
           input->pass_through && io->native.layout != TENSOR_NCHW &&
           input->size == io->native.size && port->layout.size == io->native.size;
}

int open_put_input(struct npu_context *c, uint32_t i, uint32_t item, const struct npu_input *input,
                   struct error *e)
{
    const struct npu_model *m = c->model;
    const struct tensor_io *io = &m->info.inputs[i];
    const struct open_port *port = &m->inputs[i];
    if (is_as_read(m, i, input)) {
        uint64_t at = open_port_offset(m, port);
        memcpy(open_context_map(c, at), input->data, input->size);
        return open_context_sync(c, at, input->size, PROVIDER_TO_DEVICE, e);
    }
    cleanup(free_p) uint8_t *whole = malloc(io->logical.size + 1);
    if (!whole)
        return error_no_memory(e, "an input", io->logical.size);
    int s = 0;
    if (input->converted) {
        s = expect_size(io->logical.name, input->size, io->logical.size, STATUS_INPUT_INVALID, e);
        if (s == 0)
            memcpy(whole, input->data, input->size);
    } else if (input->pass_through) {
        s = from_native(io, input, whole, e);
    } else {
        s = input->stored ? from_stored(io, input, whole, e) : from_real(io, input, whole, e);
    }
    if (s == 0)
        s = put_port(c, port, io->logical.layout == TENSOR_NHWC, whole + item * port->dense, e);
    return s < 0 ? error_prefix(e, "input %u", i) : 0;
}

// ---- outputs ----

// 4-D outputs are NCHW, as programs ask for most.
int open_take_output(struct npu_context *c, uint32_t i, uint32_t item, uint8_t *whole,
                     struct error *e)
{
    const struct open_port *port = &c->model->outputs[i];
    int s = take_port(c, port, false, whole + item * port->dense, e);
    return s < 0 ? error_prefix(e, "output %u", i) : 0;
}

static int give_form(const struct tensor_io *io, const uint8_t *whole,
                     const struct npu_output *output, struct error *e)
{
    const struct convert_form from = {.type = io->logical.type, .layout = io->logical.layout};
    uint32_t dims[4];
    size_t expected;
    convert_dims(&io->logical, dims);
    int s = convert_form_bytes(dims, output->form, &expected, e);
    if (s == 0)
        s = expect_size(io->logical.name, output->size, expected, STATUS_OUTPUT_INVALID, e);
    return s < 0 ? s
                 : convert_output(&io->logical, dims, &from, whole, io->logical.size, output->form,
                                  output->data, output->size, e);
}

int open_give_output(const struct npu_model *m, uint32_t i, const uint8_t *whole,
                     const struct npu_output *output, struct error *e)
{
    const struct tensor_io *io = &m->info.outputs[i];
    int s = 0;
    if (output->form) {
        s = give_form(io, whole, output, e);
    } else {
        s = expect_size(io->logical.name, output->size, io->logical.size, STATUS_OUTPUT_INVALID, e);
        if (s == 0)
            memcpy(output->data, whole, output->size);
    }
    return s < 0 ? error_prefix(e, "output %u", i) : 0;
}
