// Memory of the daemon's that an input is bound to, kept with a lane for as long as its requests
// have the same type, layout and shapes. Where the daemon refuses to bind it (is_refused), it is
// not asked again for that form, and the input travels with the run.
#include "kserve/model/shared_input.h"

#include <stddef.h>

static void destroy(struct shared_input *in, rknn_context context)
{
    if (in->memory)
        rknn_destroy_mem(context, in->memory);
    in->memory = NULL;
    in->is_bound = false;
}

static bool reserve(struct shared_input *in, rknn_context context, uint32_t size)
{
    if (in->memory && in->memory->size >= size)
        return true;
    destroy(in, context);
    in->memory = rknn_create_mem(context, size);
    return in->memory != NULL;
}

static void bind_memory(struct shared_input *in, rknn_context context,
                        const struct input_form *form)
{
    rknn_tensor_attr a = *form->attr;
    a.type = form->type;
    a.fmt = form->format;
    a.w_stride = a.h_stride = 0;
    a.pass_through = 0;
    in->is_bound =
        reserve(in, context, form->size) && rknn_set_io_mem(context, in->memory, &a) == RKNN_SUCC;
    in->is_refused = !in->is_bound;
}

uint8_t *shared_input_place(struct shared_input *in, rknn_context context,
                            const struct input_form *form)
{
    bool is_same = in->type == form->type && in->format == form->format && in->set == form->set;
    if (!is_same || !(in->is_bound || in->is_refused)) {
        in->type = form->type;
        in->format = form->format;
        in->set = form->set;
        bind_memory(in, context, form);
    }
    return in->is_bound ? in->memory->virt_addr : NULL;
}

int shared_input_written(const struct shared_input *in, rknn_context context)
{
    return rknn_mem_sync(context, in->memory, RKNN_MEMORY_SYNC_TO_DEVICE);
}

void shared_input_free(struct shared_input *in, rknn_context context)
{
    destroy(in, context);
    *in = (struct shared_input){0};
}
