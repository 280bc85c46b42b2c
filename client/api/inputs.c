// rknn_inputs_set: copies, or converts, the program's data into buffers of the context, from where
// the next run sends them. The program's buffers are free when the call returns.
//
//     pass_through                       bytes as they are, in the model's native form
//     narrower type than the model's,    sent as given; the server's worker converts
//     or the device converts itself
//     else                               converted here to the model's type and layout
//
// So the fewest bytes travel. Inputs that were bound to memory (rknn_set_io_mem) are unbound.
#include <string.h>
#include <sys/mman.h>

#include "client/api/context.h"
#include "client/api/mem.h"
#include "client/last_error.h"

// How one input is to go to the server.
struct plan {
    rknnd_InferInput form;
    bool convert;              // here; else the server's worker does
    enum tensor_layout layout; // of the program's data
    size_t size;               // bytes that are read of them: those that the type takes
};

// The error for a buffer that is too small. One that is too large is fine: some programs give the
// size of another type than that of their data. The first words are the vendor library's, as
// programs know them.
static int too_small(uint32_t given, size_t needed, uint32_t n_elems, const char *form,
                     struct error *e)
{
    return error_set(
        e, STATUS_PARAM_INVALID,
        "param input size(%u) < model input size(%zu): %u elements of %s (rknn_input's "
        "type says of what type buf is)",
        given, needed, n_elems, form);
}

// Only 4-D inputs have a layout; others are taken in the model's order.
static int check_layout(const rknn_input *in, const struct tensor_attr *a, enum tensor_layout *ret,
                        struct error *e)
{
    if (a->n_dims == 4 && in->fmt != RKNN_TENSOR_NHWC && in->fmt != RKNN_TENSOR_NCHW)
        return error_set(e, STATUS_INPUT_INVALID,
                         "format %s (%d): a 4-D input is NHWC or NCHW, or passed through",
                         get_format_string(in->fmt), (int)in->fmt);
    *ret = a->n_dims == 4 ? (enum tensor_layout)in->fmt : TENSOR_UNDEFINED;
    return 0;
}

// Decides for data in the program's own type and layout. It is converted here only if that does not
// make it larger.
static int plan_conversion(const rknn_input *in, const struct tensor_io *io, struct plan *ret,
                           struct error *e)
{
    const struct tensor_attr *a = &io->logical;
    size_t size;
    if ((unsigned)in->type >= TENSOR_TYPE_COUNT || !tensor_type_size((enum tensor_type)in->type))
        return error_set(e, STATUS_INPUT_INVALID, "type %s (%d) cannot be converted",
                         get_type_string(in->type), (int)in->type);
    if (!tensor_bytes((enum tensor_type)in->type, a->n_elems, &size))
        return error_set(e, STATUS_INPUT_INVALID, "%u elements of %s are too many", a->n_elems,
                         get_type_string(in->type));
    if (in->size < size)
        return too_small(in->size, size, a->n_elems, get_type_string(in->type), e);
    ret->size = size;
    int r = check_layout(in, a, &ret->layout, e);
    if (r == 0 && !io->device_converts) // the server's worker would say so at the run, too late
        r = convert_input_types(a, (enum tensor_type)in->type, e);
    if (r < 0)
        return r;
    ret->convert = size >= a->size && !io->device_converts;
    ret->form = (rknnd_InferInput){.size = ret->convert ? a->size : size,
                                   .type = ret->convert ? a->type : (uint32_t)in->type,
                                   .layout = ret->convert ? a->layout : ret->layout,
                                   .converted = ret->convert};
    return 0;
}

// Decides for data in the native form. With size_with_stride bytes the rows are padded to the
// pitch, else they are contiguous.
static int plan_pass_through(const rknn_input *in, const struct tensor_io *io, struct plan *ret,
                             struct error *e)
{
    const struct tensor_attr *a = &io->native;
    if (in->size < a->size)
        return too_small(in->size, a->size, a->n_elems, "the native form, to pass through", e);
    bool strided = a->size_with_stride > a->size && in->size >= a->size_with_stride;
    ret->convert = false;
    ret->size = strided ? a->size_with_stride : a->size;
    ret->form = (rknnd_InferInput){
        .size = ret->size, .type = a->type, .layout = a->layout, .pass_through = true};
    return 0;
}

// Buffers shared with the relay are mappings (stream_lend()), others malloc'ed.
static void free_room(struct input_room *room)
{
    if (room->lent)
        munmap(room->data, room->capacity);
    else
        free(room->data);
    *room = (struct input_room){0};
}

void input_free(struct input *in)
{
    free_room(&in->rooms[0]);
    free_room(&in->rooms[1]);
    *in = (struct input){0};
}

// A buffer of at least `size` bytes for an input. Large ones are shared with the relay if there is
// one, which then reads them in place. There are two per input: while the relay still reads the
// last run's, the other is filled.
static int make_room(struct context *c, uint32_t index, size_t size, struct input_room **ret,
                     struct error *e)
{
    struct input *slot = &c->inputs[index];
    struct stream *stream = &c->connection->stream;
    if (slot->rooms[slot->in_use].lent && stream_is_posted(stream, 2 * index + slot->in_use))
        slot->in_use = !slot->in_use;
    struct input_room *room = *ret = &slot->rooms[slot->in_use];
    uint32_t number = 2 * index + slot->in_use;
    void *lent = NULL;
    if (size <= room->capacity)
        return 0;
    if (number < STREAM_AREAS && size >= STREAM_AREA_MIN)
        lent = stream_lend(stream, number, size);
    uint8_t *data = lent ? lent : malloc(size);
    if (!data)
        return error_no_memory(e, "an input", size);
    free_room(room);
    *room = (struct input_room){.data = data, .capacity = size, .lent = lent};
    return 0;
}

// Until the data is complete the input counts as not set, so that a failure leaves no mixture.
static int set_input(struct context *c, const rknn_input *in, struct error *e)
{
    struct plan plan = {0};
    const struct tensor_io *io = context_input(c, in->index);
    struct input *slot = &c->inputs[in->index];
    struct input_room *room;
    if (!in->buf)
        return error_set(e, STATUS_INPUT_INVALID, "buf is NULL");
    int r =
        in->pass_through ? plan_pass_through(in, io, &plan, e) : plan_conversion(in, io, &plan, e);
    if (r < 0)
        return r;
    slot->form.size = 0; // until it is whole
    r = make_room(c, in->index, (size_t)plan.form.size, &room, e);
    if (r < 0)
        return r;
    if (plan.convert)
        r = convert_input(
            io, &(struct convert_form){.type = (enum tensor_type)in->type, .layout = plan.layout},
            in->buf, plan.size, room->data, (size_t)plan.form.size, e);
    else
        memcpy(room->data, in->buf, plan.size);
    if (r == 0)
        slot->form = plan.form;
    return r;
}

// What was set last counts: memory, or data given here. The memory's last reference is dropped
// without the connection's lock, since freeing it asks a server.
static int inputs_unbind(struct context *c, uint32_t index, struct error *e)
{
    struct mem *old = NULL;
    int r = context_bound(c, false, index) ? mem_unbind_input(c, index, &old, e) : 0;
    if (!old)
        return r;
    pthread_mutex_unlock(&c->connection->lock);
    mem_put(old);
    pthread_mutex_lock(&c->connection->lock);
    return r;
}

// Inputs not in the list keep the data they have.
static int set_inputs(struct context *c, uint32_t n, const rknn_input *inputs, struct error *e)
{
    if (n == 0 || n > c->info.n_inputs)
        return error_set(e, STATUS_PARAM_INVALID, "%u inputs given, the model has %u", n,
                         c->info.n_inputs);
    c->input_version++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = inputs[i].index;
        if (index >= c->info.n_inputs)
            return error_set(e, STATUS_INPUT_INVALID, "input %u: the model has %u", index,
                             c->info.n_inputs);
        int r = inputs_unbind(c, index, e);
        if (r == 0)
            r = set_input(c, &inputs[i], e);
        if (r < 0)
            return error_prefix(e, "input %u (%s)", index, context_input(c, index)->logical.name);
    }
    return 0;
}

RKNN_EXPORT int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[])
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter_model(context, &c, &e);
    if (r == 0 && !inputs)
        r = error_set(&e, STATUS_PARAM_INVALID, "inputs is NULL");
    if (r == 0)
        r = set_inputs(c, n_inputs, inputs, &e);
    return last_error_keep("rknn_inputs_set", r, &e);
}
