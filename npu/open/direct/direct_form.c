// Two forms are one when every element is at the same place: strides of dimensions of one element
// do not matter. Values are compared by converting each one that there is.
#include "npu/open/direct/direct_form.h"

#define VALUES 256

// ---- values ----

// All bytes as values of this type, in each channel that is converted in its own way.
// Channels without a conversion of their own are like the first. Where it is refused for this type,
// nothing is known of its values. `plain`: all are stored as they are; `flipped`: with the
// highest bit turned over.
static int probe_bytes(const struct tensor_io *io, enum tensor_type type, bool *plain,
                       bool *flipped, struct error *e)
{
    uint8_t from[VALUES * 4], to[sizeof from];
    struct tensor_io some = *io;
    bool image = io->logical.n_dims == 4;
    uint32_t channels = image && io->preprocess.n_channels ? io->preprocess.n_channels : 1;
    struct convert_form form = {.type = type, .layout = image ? TENSOR_NHWC : TENSOR_UNDEFINED};
    const uint32_t dims[] = {1, 1, VALUES, channels};
    if (!image)
        some.preprocess.n_channels = 0;
    some.logical.n_dims = 4;
    memcpy(some.logical.dims, dims, sizeof dims);
    if (!image) {
        some.logical.n_dims = 1;
        some.logical.dims[0] = VALUES;
    }
    some.logical.n_elems = VALUES * channels;
    some.logical.size = some.logical.size_with_stride = VALUES * channels;
    for (uint32_t i = 0; i < VALUES * channels; i++)
        from[i] = (uint8_t)(i / channels);
    int s = convert_input(&some, &form, from, VALUES * channels, to, VALUES * channels, e);
    if (s < 0)
        return s;
    *plain = *flipped = true;
    for (uint32_t i = 0; i < VALUES * channels; i++) {
        *plain = *plain && to[i] == from[i];
        *flipped = *flipped && to[i] == (from[i] ^ 0x80);
    }
    return 0;
}

// Channels in another order (rgb2bgr) are at other places, whatever their values are.
static bool is_swapped(const struct tensor_io *io)
{
    bool swapped = false;
    for (uint32_t c = 0; c < io->preprocess.n_channels; c++)
        swapped = swapped || io->preprocess.order[c] != c;
    return swapped;
}

void direct_form_values(struct open_port *port, const struct tensor_io *io)
{
    static const enum tensor_type bytes[] = {TENSOR_INT8, TENSOR_UINT8};
    const struct tensor_attr *a = &io->logical;
    struct error refused; // such a conversion is refused when a program asks for it
    if (port->layout.element != 1) {
        port->same[a->type] =
            a->qnt == TENSOR_QNT_NONE && !io->preprocess.n_channels && !port->layout.flipped;
        return;
    }
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes && !is_swapped(io); i++) {
        bool plain, flipped;
        if (probe_bytes(io, bytes[i], &plain, &flipped, &refused) < 0)
            continue;
        port->same[bytes[i]] = port->layout.flipped ? flipped : plain;
        port->same_flipped[bytes[i]] = port->layout.flipped ? plain : flipped;
    }
}

// ---- places ----

// A form's places, as of memory; dims are N, C, H, W.
// Strides of 0 are those of packed elements. What has no layout is one row of all elements.
static struct rknn_memory_layout layout_of(const uint32_t dims[4], const struct convert_form *f)
{
    struct rknn_memory_layout l = {.n = dims[0], .c = dims[1], .h = dims[2], .w = dims[3]};
    uint64_t w = f->w_stride ? f->w_stride : l.w, h = f->h_stride ? f->h_stride : l.h;
    l.block = f->layout == TENSOR_NHWC ? l.c : f->layout == TENSOR_NC1HWC2 ? f->c2 : 1;
    l.column = l.block;
    l.row = w * l.column;
    l.plane = h * l.row;
    l.image = (l.c + l.block - 1) / (l.block ? l.block : 1) * l.plane;
    return l;
}

static bool is_same_place(const struct rknn_memory_layout *a, const struct rknn_memory_layout *b)
{
    bool same = a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w && a->block &&
                b->block && (a->n == 1 || a->image == b->image) &&
                (a->h == 1 || a->row == b->row) && (a->w == 1 || a->column == b->column);
    for (uint32_t c = 1; c < a->c && same; c++)
        same = c / a->block * a->plane + c % a->block == c / b->block * b->plane + c % b->block;
    return same;
}

// The form fits the tensor as a whole, for a tensor without four dimensions as one row. Of a batch
// each part has to be where the NPU has it, wherever the next one begins.
static bool is_form(const struct open_port *port, const struct tensor_io *io,
                    const struct convert_form *f)
{
    uint32_t dims[4];
    convert_dims(&io->logical, dims);
    if (f->layout == TENSOR_NC1HWC2 && !f->c2)
        return false;
    struct rknn_memory_layout l = layout_of(dims, f);
    if (l.n == port->batch * port->layout.n)
        l.n = port->layout.n;
    return is_same_place(&port->layout, &l);
}

static const char other_layout[] = "the NPU has its elements in other places";

// Blocks of channels end behind the last channel, where a form of fewer bytes ends before.
static const char *judge_bytes(const struct open_port *port, size_t size)
{
    size_t part = size / port->batch;
    if (port->batch > 1 && part % RKNN_PART_ALIGN)
        return "parts of its batch begin at no multiple of 64 bytes";
    return part < port->layout.size ? "it ends before what the NPU has of it" : NULL;
}

// ---- inputs ----

// As the model has it natively, lines padded to their stride or not.
static const char *judge_native(const struct open_port *port, const struct tensor_io *io,
                                const struct npu_input *input)
{
    const struct tensor_attr *a = &io->native;
    bool padded = input->size != a->size;
    struct convert_form f = {.type = a->type,
                             .layout = a->layout,
                             .w_stride = padded ? a->w_stride : 0,
                             .c2 = a->layout == TENSOR_NC1HWC2 ? a->dims[4] : 0};
    if (input->size != (padded ? a->size_with_stride : a->size))
        return "its size is not that of its form";
    if (!is_form(port, io, &f))
        return other_layout;
    return port->batch > 1 ? judge_bytes(port, input->size) : NULL;
}

bool direct_form_flips(const struct open_port *port, const struct npu_input *input)
{
    bool stored = input->pass_through || input->stored || input->converted;
    return !stored && port->n_flips && !port->same[input->type] && port->same_flipped[input->type];
}

// The size has to be exactly that of the form, as it has to be where it is copied: what a run would
// refuse is left to that, which has the better words.
const char *direct_form_input(const struct open_port *port, const struct tensor_io *io,
                              const struct npu_input *input)
{
    struct convert_form f = {
        .layout = input->layout, .w_stride = input->w_stride, .h_stride = input->h_stride};
    bool stored = input->pass_through || input->stored || input->converted;
    uint32_t dims[4];
    size_t size;
    if (io->device_converts || io->shrinks)
        return "the model takes it in a way of its own";
    if (stored && port->layout.flipped)
        return "the NPU reads it as bytes from 0 on, and it has them from -128 on";
    if (!stored && !port->same[input->type] && !direct_form_flips(port, input))
        return "its values have to be converted";
    if (input->pass_through)
        return judge_native(port, io, input);
    if (input->converted)
        f = (struct convert_form){.layout = io->logical.layout};
    f.type = stored ? io->logical.type : input->type;
    convert_dims(&io->logical, dims);
    if (convert_form_bytes(dims, &f, &size, NULL) < 0 || size != input->size)
        return "its size is not that of its form";
    return is_form(port, io, &f) ? judge_bytes(port, size) : other_layout;
}

// ---- outputs ----

// Outputs are not converted by the NPU: what it writes is what the model stores.
const char *direct_form_output(const struct open_port *port, const struct tensor_io *io,
                               const struct npu_output *output)
{
    const struct convert_form plain = {.type = io->logical.type, .layout = io->logical.layout};
    const struct convert_form *f = output->form ? output->form : &plain;
    uint32_t dims[4];
    size_t size;
    if (port->layout.flipped || f->type != io->logical.type)
        return "its values have to be converted";
    convert_dims(&io->logical, dims);
    if (convert_form_bytes(dims, f, &size, NULL) < 0 || size != output->size)
        return "its size is not that of its form";
    return is_form(port, io, f) ? judge_bytes(port, size) : other_layout;
}
