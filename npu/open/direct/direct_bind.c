// A context has one job at a time, so its commands may be changed between two: those few that take
// the address of a tensor which has moved. The arena's room for it stays, and is used again when a
// program binds something else.
#include "npu/open/direct/direct_bind.h"

#include "base/log.h"
#include "npu/open/direct/direct_form.h"

#define ALIGNMENT RKNN_PART_ALIGN // as tensors have it in the arena

// Where a program has a tensor.
struct direct_data {
    const struct npu_buffer *buffer; // NULL: no dma-buf
    const uint8_t *data;
    size_t size;
    const char *why; // its form is not the NPU's
    bool flips;      // it is if the chip takes 128 off
};

// Inputs count first, then outputs, as in npu_context.places.
static const struct open_port *port_of(const struct npu_model *m, uint32_t i)
{
    return i < m->info.n_inputs ? &m->inputs[i] : &m->outputs[i - m->info.n_inputs];
}

static const char *name_of(const struct npu_model *m, uint32_t i)
{
    return i < m->info.n_inputs ? m->info.inputs[i].logical.name
                                : m->info.outputs[i - m->info.n_inputs].logical.name;
}

// The form is looked at only where the model allows what it is looked at for.
static struct direct_data data_of(const struct npu_model *m, const struct npu_job *job, uint32_t i)
{
    const struct open_port *port = port_of(m, i);
    struct direct_data d = {0};
    if (i < m->info.n_inputs) {
        const struct npu_input *in = &job->inputs[i];
        d = (struct direct_data){.buffer = in->dmabuf, .data = in->data, .size = in->size};
        if (d.buffer && !port->why)
            d.why = direct_form_input(port, &m->info.inputs[i], in);
        d.flips = direct_form_flips(port, in);
    } else {
        const struct npu_output *out = &job->outputs[i - m->info.n_inputs];
        d = (struct direct_data){
            .buffer = out->data ? out->dmabuf : NULL, .data = out->data, .size = out->size};
        if (d.buffer && !port->why)
            d.why = direct_form_output(port, &m->info.outputs[i - m->info.n_inputs], out);
    }
    return d;
}

// Bytes from its first part to the end of its last.
static uint64_t extent_of(const struct open_port *port, uint64_t step)
{
    return (port->batch - 1) * step + port->layout.size;
}

// Imports the buffer. NULL, with *why: the tensor is to be copied.
// What can be known without the driver is looked at first, so that no buffer is imported in vain:
// an import pins its memory.
static const struct import *choose(const struct npu_model *m, const struct open_port *port,
                                   const struct direct_data *d, const char **why)
{
    const char *no_import = m->provider->ops->info(m->provider)->no_import;
    uint64_t offset = (uint64_t)(d->data - d->buffer->map);
    *why = no_import ? no_import : port->why ? port->why : d->why;
    if (!*why && offset % ALIGNMENT)
        *why = "it begins at no multiple of 64 bytes";
    if (!*why && (offset > d->buffer->size ||
                  extent_of(port, d->size / port->batch) > d->buffer->size - offset))
        *why = "it ends behind its dma-buf";
    if (*why)
        return NULL;
    const struct import *i = imports_get(m->imports, d->buffer);
    *why = !i ? "there is no memory" : i->memory ? NULL : i->why.text;
    return *why ? NULL : i;
}

// Commands between the first and the last that change are written back together.
static int set_address(struct npu_context *c, const struct open_port *port,
                       struct direct_place *place, uint64_t address, struct error *e)
{
    const struct npu_model *m = c->model;
    uint64_t first = UINT64_MAX, end = 0;
    if (place->address == address)
        return 0;
    for (uint64_t i = 0; i < port->n_patches; i++) {
        const struct open_port_patch *patch = &port->patches[i];
        uint8_t *at = c->commands->map + 8 * patch->command;
        write_le64(at, rknn_command_with(read_le64(at), (uint32_t)(address + patch->offset)));
        first = patch->command < first ? patch->command : first;
        end = patch->command + 1 > end ? patch->command + 1 : end;
    }
    place->address = address;
    int s = end ? m->provider->ops->memory_sync(m->provider, c->commands, 8 * first,
                                                8 * (end - first), PROVIDER_TO_DEVICE, e)
                : 0;
    if (s < 0)
        place->address = UINT64_MAX; // to be written again
    return s;
}

// What programs leave in the arena is as the file has it.
static int set_flip(struct npu_context *c, const struct open_port *port, struct direct_place *place,
                    enum direct_flip flip, struct error *e)
{
    const struct npu_model *m = c->model;
    uint64_t first = UINT64_MAX, end = 0;
    if (place->flip == flip || !port->n_flips)
        return 0;
    for (uint64_t i = 0; i < port->n_flips; i++) {
        uint64_t command = port->flips[i].command;
        uint32_t value = flip == DIRECT_FLIPPED ? port->flips[i].value
                                                : rknn_command_value(m->program.commands[command]);
        uint8_t *at = c->commands->map + 8 * command;
        write_le64(at, rknn_command_with(read_le64(at), value));
        first = command < first ? command : first;
        end = command + 1 > end ? command + 1 : end;
    }
    place->flip = DIRECT_UNKNOWN;
    int s = m->provider->ops->memory_sync(m->provider, c->commands, 8 * first, 8 * (end - first),
                                          PROVIDER_TO_DEVICE, e);
    if (s == 0)
        place->flip = flip;
    return s;
}

// A job that is as the one before says nothing, or a camera would fill the log.
static void say(const struct npu_model *m, uint32_t i, struct direct_place *place, const char *why)
{
    const char *what = i < m->info.n_inputs ? "input" : "output";
    if (why && why != place->said)
        log_info("%s %s is copied, and not left in the program's dma-buf: %s", what, name_of(m, i),
                 why);
    place->said = why;
}

// Where the tensor of this job is; without a job, or without a dma-buf, in the arena.
static int bind_port(struct npu_context *c, const struct npu_job *job, uint32_t i, struct error *e)
{
    const struct npu_model *m = c->model;
    const struct open_port *port = port_of(m, i);
    struct direct_place *place = &c->places[i];
    struct direct_data d = {0};
    const struct import *import = NULL;
    const char *why = NULL;
    if (job && m->imports)
        d = data_of(m, job, i);
    if (d.buffer) {
        import = choose(m, port, &d, &why);
        say(m, i, place, why);
    }
    place->import = import;
    int s = set_flip(c, port, place, import && d.flips ? DIRECT_FLIPPED : DIRECT_AS_FILE, e);
    if (s < 0)
        return s;
    if (!import)
        return set_address(c, port, place, open_context_address(c, open_port_offset(m, port)), e);
    place->offset = (uint64_t)(d.data - d.buffer->map);
    place->step = d.size / port->batch;
    return set_address(c, port, place, import->memory->address + place->offset, e);
}

int direct_bind(struct npu_context *c, const struct npu_job *job, struct error *e)
{
    uint32_t n = c->model->info.n_inputs + c->model->info.n_outputs;
    int s = 0;
    for (uint32_t i = 0; i < n && s == 0; i++)
        s = bind_port(c, job, i, e);
    // Nothing that a CPU has in its caches may be written over what the NPU writes.
    for (uint32_t i = c->model->info.n_inputs; i < n && s == 0; i++)
        if (c->places[i].import)
            s = direct_sync(c, i, PROVIDER_TO_DEVICE, e);
    return s;
}

int direct_part(struct npu_context *c, uint32_t item, struct error *e)
{
    uint32_t n = c->model->info.n_inputs + c->model->info.n_outputs;
    int s = 0;
    for (uint32_t i = 0; i < n && s == 0; i++) {
        struct direct_place *place = &c->places[i];
        if (place->import)
            s = set_address(c, port_of(c->model, i), place,
                            place->import->memory->address + place->offset + item * place->step, e);
    }
    return s;
}

// The whole tensor, since a driver may have it of whole buffers alone.
int direct_sync(struct npu_context *c, uint32_t port, enum provider_way way, struct error *e)
{
    struct provider *provider = c->model->provider;
    const struct direct_place *place = &c->places[port];
    return provider->ops->memory_sync(provider, place->import->memory, place->offset,
                                      extent_of(port_of(c->model, port), place->step), way, e);
}
