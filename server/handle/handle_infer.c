// INFER: checks a request against the model before a byte of its inputs is read, makes the job, and
// directs the payload.
//
//   payload:  write 0 | write 1 | ... | input 0 | input 1 | ...
//                |                        |
//                v                        v   at multiples of INPUT_ALIGNMENT
//          bound memory             job's buffer (unless the input is bound)
//
// The connection reads each part to its place without a copy between; on_inputs() then starts the
// job. handle_dump.c uses infer_new() and infer_receive() too.
#include "base/bytes.h"
#include "base/log.h"
#include "server/clients/session.h"
#include "server/config/options.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/jobs/context.h"
#include "server/jobs/job.h"
#include "server/jobs/job_custom.h"

#define INPUT_ALIGNMENT 64
#define CORE_MASK_ALL   0xffffu // RKNN_NPU_CORE_ALL
#define COLLECT_PERF    8u      // RKNN_FLAG_COLLECT_PERF_MASK

_Static_assert(sizeof((rknnd_Infer){0}.inputs) / sizeof(rknnd_InferInput) <= FRAME_MAX_SEGMENTS,
               "each input is a segment");

// An input's size is not what its form requires.
static int wrong_size(unsigned i, const struct tensor_io *io, const rknnd_InferInput *in,
                      const char *form, uint64_t expected, struct error *e)
{
    return error_set(e, STATUS_INPUT_INVALID, "input %u (%.64s) has %llu bytes, %s it takes %llu",
                     i, io->logical.name, (unsigned long long)in->size, form,
                     (unsigned long long)expected);
}

// An input in a type and layout of the client's choice, which is converted where the model runs. It
// has no padding: its size follows from its type and number of elements.
static int check_typed(unsigned i, const struct tensor_io *io, const rknnd_InferInput *in,
                       struct error *e)
{
    size_t expected;
    if (in->type >= TENSOR_TYPE_COUNT || in->layout >= TENSOR_LAYOUT_COUNT ||
        tensor_type_size((enum tensor_type)in->type) == 0)
        return error_set(e, STATUS_INPUT_INVALID, "input %u (%.64s) has type %u and layout %u", i,
                         io->logical.name, in->type, in->layout);
    if (io->logical.n_dims == 4 && in->layout != TENSOR_NHWC && in->layout != TENSOR_NCHW)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input %u (%.64s) has 4 dimensions, its layout is NHWC or NCHW, not %s", i,
                         io->logical.name, tensor_layout_name((enum tensor_layout)in->layout));
    if (!tensor_bytes((enum tensor_type)in->type, io->logical.n_elems, &expected) ||
        in->size != expected)
        return wrong_size(i, io, in, tensor_type_name((enum tensor_type)in->type), expected, e);
    return 0;
}

// One input that comes with the request. It is one of three forms: `converted` by the client to the
// model's type, `pass_through` (the device's native form, with or without stride), or typed. Inputs
// that `shrink` may be shorter than the native size.
static int check_input(unsigned i, const struct tensor_io *io, const rknnd_InferInput *in,
                       struct error *e)
{
    const struct tensor_attr *native = &io->native;
    if (in->converted && in->pass_through)
        return error_set(e, STATUS_INPUT_INVALID, "input %u is both converted and passed through",
                         i);
    if (in->converted && io->device_converts)
        return error_set(e, STATUS_INPUT_INVALID,
                         "input %u (%.64s) is converted, which only the device can do", i,
                         io->logical.name);
    if (io->shrinks && in->pass_through)
        return in->size <= native->size
                   ? 0
                   : wrong_size(i, io, in, "passed through, at most", native->size, e);
    if (in->converted)
        return in->size == io->logical.size
                   ? 0
                   : wrong_size(i, io, in, "converted", io->logical.size, e);
    if (in->pass_through)
        return in->size == native->size || in->size == native->size_with_stride
                   ? 0
                   : wrong_size(i, io, in, "passed through", native->size_with_stride, e);
    return check_typed(i, io, in, e);
}

static int check_shape_set(const struct model_info *info, const rknnd_Infer *m, struct error *e)
{
    return m->shape_set < info->n_shape_sets
               ? 0
               : error_set(e, STATUS_INPUT_INVALID, "shape set %u, the model has %u", m->shape_set,
                           info->n_shape_sets);
}

// An input that is bound to memory must not come with the request as well.
static int check_bound(unsigned i, const struct tensor_io *io, const rknnd_InferInput *in,
                       struct error *e)
{
    if (in->size == 0 && !in->converted && !in->pass_through)
        return 0;
    return error_set(e, STATUS_INPUT_INVALID,
                     "input %u (%.64s) is bound to memory, and yet it came", i, io->logical.name);
}

// Adds the inputs' bytes to *total. The sum cannot overflow: at most 128 sizes, each already
// compared with the model's.
static int check_inputs(const struct model_info *info, const struct binding *b,
                        const rknnd_Infer *m, uint64_t *total, struct error *e)
{
    const struct tensor_io *inputs = model_info_shape_set(info, m->shape_set);
    if (m->inputs_count != info->n_inputs)
        return error_set(e, STATUS_INPUT_INVALID, "%u inputs came, the model has %u",
                         (unsigned)m->inputs_count, info->n_inputs);
    for (unsigned i = 0; i < info->n_inputs; i++) {
        int r = (binding_find(b, i) ? check_bound : check_input)(i, &inputs[i], &m->inputs[i], e);
        if (r < 0)
            return r;
        *total += m->inputs[i].size; // at most 128 numbers that fit 32 bits and a factor of 8
    }
    return 0;
}

// Parts of bound inputs that the request changes. Each must lie inside the memory that is bound;
// the sum is bounded by the sizes of memories and FRAME_MAX_SEGMENTS.
static int check_writes(const struct model_info *info, const struct binding *b,
                        const rknnd_Infer *m, uint64_t *total, struct error *e)
{
    if (m->writes_count + m->inputs_count > FRAME_MAX_SEGMENTS)
        return error_set(e, STATUS_INPUT_INVALID, "%u inputs and %u changes of memory at once",
                         (unsigned)m->inputs_count, (unsigned)m->writes_count);
    for (unsigned i = 0; i < m->writes_count; i++) {
        const rknnd_InferWrite *w = &m->writes[i];
        const struct bound *place = w->input < info->n_inputs ? binding_find(b, w->input) : NULL;
        if (!place || w->offset > place->size || w->size > place->size - w->offset)
            return error_set(
                e, STATUS_INPUT_INVALID,
                "a change of %llu bytes at %llu of input %u, which are not in its memory",
                (unsigned long long)w->size, (unsigned long long)w->offset, w->input);
        if (place->memory->read_only)
            return error_set(e, STATUS_INPUT_INVALID,
                             "a change of input %u, whose memory is read-only", w->input);
        *total += w->size; // inside a memory
    }
    return 0;
}

// All that the payload is for must add up to its size, before its destination is set up.
static int check_payload(const struct model_info *info, const struct binding *b,
                         const rknnd_Infer *m, const struct frame_header *h, struct error *e)
{
    uint64_t total = 0;
    int r = binding_check_shape_set(b, info, m->shape_set, e);
    if (r == 0)
        r = check_inputs(info, b, m, &total, e);
    for (unsigned i = 0; i < m->outputs_back_count && r == 0; i++)
        if (m->outputs_back[i] >= info->n_outputs || m->outputs_back[i] >= FRAME_MAX_SEGMENTS)
            r = error_set(e, STATUS_OUTPUT_INVALID, "output %u: the model has %u",
                          m->outputs_back[i], info->n_outputs);
    if (r == 0)
        r = check_writes(info, b, m, &total, e);
    if (r == 0 && total != h->payload_size)
        r = error_set(e, STATUS_INPUT_INVALID, "the inputs are %llu bytes, %llu came with them",
                      (unsigned long long)total, (unsigned long long)h->payload_size);
    return r;
}

// Of several samples all tensors lie in memory of the client, each sample's behind those of the one
// before.
static int check_samples(const struct connection *c, const struct model_info *info,
                         const struct binding *b, const rknnd_Infer *m, struct error *e)
{
    if (m->samples <= 1)
        return 0;
    if (!(c->features & PROTOCOL_FEATURE_SAMPLES))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%u samples in a run: HELLO has not agreed on feature bit 1", m->samples);
    if (m->samples > PROTOCOL_MOST_SAMPLES || c->services->device->never_blocks ||
        m->custom_nodes.size + m->writes_count + m->outputs_back_count > 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%u samples in a run: up to %u, on a device that blocks, without custom "
                         "operators and copied memory",
                         m->samples, PROTOCOL_MOST_SAMPLES);
    for (uint32_t i = 0; i < info->n_inputs + info->n_outputs; i++) {
        const struct bound *place = binding_find(b, i);
        if (!place || place->size > (place->memory->buffer.size - place->offset) / m->samples)
            return error_set(
                e, STATUS_PARAM_INVALID,
                "%u samples in a run: tensor %.64s is not bound to memory with so many", m->samples,
                model_info_shape_set(info, m->shape_set)[i].logical.name);
    }
    return 0;
}

// Takes RKNN_NPU_CORE_* except AUTO: one core, or the first cores together (0_1, 0_1_2, ALL). On a
// single-core chip only AUTO is valid, as rknn_set_core_mask is not offered there.
static int read_core_mask(const struct services *s, uint32_t mask, struct scheduler_cores *ret,
                          struct error *e)
{
    const struct npu_device_info *device = s->device;
    const struct scheduler *scheduler = &s->jobs->scheduler;
    uint32_t all = (1u << scheduler->n_cores) - 1;
    bool one = (mask & (mask - 1)) == 0, first = (mask & (mask + 1)) == 0;
    if (scheduler->n_cores == 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "core mask 0x%x: %s has one core, only RKNN_NPU_CORE_AUTO (0) is possible",
                         mask, device->chip);
    if (mask == CORE_MASK_ALL)
        mask = all;
    *ret = (struct scheduler_cores){.mask = mask};
    if ((!one && !first && mask != all) || (mask & ~all) || !scheduler_can(scheduler, *ret))
        return error_set(e, STATUS_PARAM_INVALID, "core mask 0x%x: %s has %u cores", mask,
                         device->chip, scheduler->n_cores);
    return 0;
}

// Which cores the job wants. With AUTO the images of a batch run separately, on whichever cores are
// idle (SDK guide 5.6.1), at most as many as the client allows or the model can use.
static int read_cores(const struct services *s, const struct model_info *info, const rknnd_Infer *m,
                      struct scheduler_cores *ret, struct error *e)
{
    uint32_t n_cores = s->jobs->scheduler.n_cores < info->core_limit ? s->jobs->scheduler.n_cores
                                                                     : info->core_limit;
    uint32_t wanted = m->batch_cores ? m->batch_cores : n_cores;
    if (m->core_mask)
        return read_core_mask(s, m->core_mask, ret, e);
    if (wanted > n_cores)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a batch on %u cores: the model can have %u of %s", wanted, n_cores,
                         s->device->chip);
    *ret = (struct scheduler_cores){.any = wanted < info->batch ? wanted : info->batch,
                                    .or_fewer = info->batch > 1};
    return 0;
}

// Bytes in the job's buffer for all inputs, aligned.
static uint64_t input_room(const rknnd_Infer *m)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < m->inputs_count; i++)
        total += align_up(m->inputs[i].size, INPUT_ALIGNMENT);
    return total;
}

// Fills the job's inputs, and segments[] with the destinations of the payload, in its order.
// Returns how many segments there are.
static int place_inputs(struct job *j, const rknnd_Infer *m, struct iovec *segments)
{
    const struct binding *b = j->run.binding;
    uint8_t *at = j->run.buffer->input;
    int n = 0;
    for (unsigned i = 0; i < m->writes_count; i++) {
        const rknnd_InferWrite *w = &m->writes[i];
        const struct bound *place = binding_find(b, w->input);
        segments[n++] =
            (struct iovec){place->memory->buffer.map + place->offset + w->offset, (size_t)w->size};
    }
    for (unsigned i = 0; i < j->n_inputs; i++) {
        const rknnd_InferInput *in = &m->inputs[i];
        if (binding_find(b, i)) {
            j->inputs[i] = binding_input(binding_find(b, i));
            continue;
        }
        j->inputs[i] = (struct npu_input){
            .data = at,
            .size = (size_t)in->size,
            .type = (enum tensor_type)in->type,
            .layout = (enum tensor_layout)in->layout,
            .pass_through = in->pass_through,
            .converted = in->converted,
        };
        segments[n++] = (struct iovec){at, (size_t)in->size};
        at += align_up(in->size, INPUT_ALIGNMENT);
    }
    return n;
}

// The payload is complete.
static void on_inputs(struct connection *c, void *owner)
{
    (void)c;
    job_start(owner);
}

// A job with what its run needs of custom operators; *m is checked but for those.
static int new_job(const struct services *s, struct context *x, const rknnd_Infer *m,
                   uint64_t output_room, struct job **ret, struct error *e)
{
    const struct model_info *info = runner_info(x->model->runner);
    struct custom_set set;
    uint64_t custom = 0;
    int r = custom_set_from_message(m->custom_nodes, info->custom->n, &set, e);
    if (r == 0 && m->custom_nodes.size > 0)
        r = job_custom_room(info, &set, output_room, s->options->max_payload, &custom, e);
    if (r == 0)
        r = job_new(s->jobs, x, info->n_inputs, input_room(m), output_room + custom, ret, e);
    if (r < 0)
        return r;
    (*ret)->output_size = output_room;
    r = m->custom_nodes.size > 0 ? job_custom_new(&(*ret)->run, &(*ret)->request, &(*ret)->hold,
                                                  info, &set, output_room, &(*ret)->custom, e)
                                 : 0;
    if (r < 0)
        job_drop(*ret);
    return r;
}

// Everything that can be refused is refused here, before job_charge(): afterwards the job must be
// answered.
int infer_new(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
              uint64_t output_room, struct job **ret, struct error *e)
{
    struct context *x = session_context(c->session, m->context, e);
    struct scheduler_cores cores;
    struct job *j;
    if (!x)
        return STATUS_CTX_INVALID;
    const struct model_info *info = runner_info(x->model->runner);
    int r = check_shape_set(info, m, e);
    if (r == 0)
        r = check_payload(info, x->binding, m, h, e);
    if (r == 0)
        r = check_samples(c, info, x->binding, m, e);
    if (r == 0)
        r = job_check_samples(x->model, m->samples, e);
    if (r == 0)
        r = read_cores(c->services, info, m, &cores, e);
    if (r == 0)
        r = new_job(c->services, x, m, output_room, &j, e);
    if (r != 0)
        return r;
    j->cores = cores;
    j->run.shape_set = m->shape_set;
    j->run.samples = m->samples;
    j->no_outputs = m->no_outputs;
    for (unsigned i = 0; i < m->outputs_back_count; i++)
        j->outputs_back[m->outputs_back[i] / 64] |= UINT64_C(1) << m->outputs_back[i] % 64;
    if (m->output_limit > 0 && m->output_limit < output_room)
        j->output_size = m->output_limit;
    j->limit_ms = m->timeout_ms;
    j->admit = m->admit;
    j->run.collect_perf = m->collect_perf || (x->flags & COLLECT_PERF);
    *ret = j;
    return 0;
}

// A request without payload (all inputs bound, no writes) starts at once.
void infer_receive(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
                   struct job *j)
{
    struct iovec segments[FRAME_MAX_SEGMENTS];
    int n = place_inputs(j, m, segments);
    job_charge(j, c, h);
    if (h->payload_size > 0)
        connection_receive(c, segments, n, on_inputs, j);
    else
        job_start(j);
}

// The shape set is checked before it selects the sizes of the outputs.
int handle_infer(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    const rknnd_Infer *m = &any->INFER_request;
    struct context *x = session_context(c->session, m->context, e);
    struct job *j;
    if (!x)
        return STATUS_CTX_INVALID;
    const struct model_info *info = runner_info(x->model->runner);
    int r = check_shape_set(info, m, e);
    if (r == 0)
        r = infer_new(c, h, m, binding_output_size(x->binding, info, m->shape_set), &j, e);
    if (r == 0)
        infer_receive(c, h, m, j);
    return r;
}
