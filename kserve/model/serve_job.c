// Everything that a request says is held against the model here, before anything is reserved or
// run: names, datatypes, shapes, the number of samples, the size of what would be answered. What
// comes behind this file can rely on it.
#include "kserve/model/serve_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Elements behind the first dimension.
static uint64_t elements_of_sample(const rknn_tensor_attr *a)
{
    uint64_t n = 1;
    for (uint32_t i = 1; i < a->n_dims; i++)
        n *= a->dims[i];
    return n;
}

uint64_t job_output_size(const struct served_model *m, unsigned set, uint32_t output)
{
    const rknn_tensor_attr *a = &m->sets[set].outputs[output];
    uint64_t n = m->batches ? elements_of_sample(a) : a->n_elems;
    return n * m->outputs[output].type->size;
}

void job_done(struct job *j)
{
    for (uint32_t i = 0; i < j->n_outputs; i++)
        free(j->outputs[i]);
}

// ---- inputs -------------------------------------------------------------------------------------

static const char *shape_text(const rknn_tensor_attr *a, bool batches, char ret[200])
{
    size_t n = (size_t)snprintf(ret, 200, "[");
    for (uint32_t i = 0; i < a->n_dims && n < 180; i++)
        n += (size_t)(i == 0 && batches
                          ? snprintf(ret + n, 200 - n, "-1")
                          : snprintf(ret + n, 200 - n, "%s%" PRIu32, i ? "," : "", a->dims[i]));
    snprintf(ret + n, 200 - n, "]");
    return ret;
}

// Whether the shape is the tensor's, from dimension `from` on; pictures may come with their
// channels in front.
static bool takes_shape(const struct request_input *in, const rknn_tensor_attr *a, uint32_t from,
                        rknn_tensor_format *ret)
{
    static const unsigned char planes[] = {0, 3, 1, 2};
    bool same = in->n_dims == a->n_dims, turned = same && a->n_dims == 4;
    for (uint32_t i = from; i < a->n_dims; i++) {
        same = same && in->shape[i] == a->dims[i];
        turned = turned && in->shape[i] == a->dims[planes[i & 3]];
    }
    bool is_nhwc = a->n_dims == 4 && a->fmt != RKNN_TENSOR_NCHW;
    *ret = a->n_dims != 4 ? a->fmt : is_nhwc ? RKNN_TENSOR_NHWC : RKNN_TENSOR_NCHW;
    if (same || !turned || !is_nhwc)
        return same;
    *ret = RKNN_TENSOR_NCHW;
    return true;
}

// Place of an input among the model's; clients may send inputs in any order.
static int input_index(const struct served_model *m, const char *name, struct error *e)
{
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (strcmp(m->inputs[i].name, name) == 0)
            return (int)i;
    return error_set(e, STATUS_PARAM_INVALID,
                     "model %s has no input \"%s\"; it has %u, the first is \"%s\"", m->name, name,
                     m->n_inputs, m->n_inputs ? m->inputs[0].name : "");
}

// A body of nothing but the only input, whose shape follows from its size.
static int take_raw(struct job *j, const struct request *r, const struct served_model *m,
                    struct error *e)
{
    const struct request_input *in = &r->inputs[0];
    if (m->n_inputs != 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "model %s has %u inputs: a body without JSON is for models with one",
                         m->name, m->n_inputs);
    const rknn_tensor_attr *a = &m->sets[0].inputs[0];
    uint64_t size = (m->batches ? elements_of_sample(a) : a->n_elems) * m->inputs[0].type->size;
    if (m->n_sets > 1 && !m->batches)
        return error_set(e, STATUS_PARAM_INVALID, "model %s has several shapes: say which, in JSON",
                         m->name);
    if (size == 0 || in->size % size != 0 || in->size == 0 || (!m->batches && in->size != size))
        return error_set(e, STATUS_PARAM_INVALID,
                         "the body has %" PRIu64 " bytes, input \"%s\" takes %" PRIu64 "%s",
                         in->size, m->inputs[0].name, size, m->batches ? " a sample" : "");
    uint64_t samples = in->size / size;
    j->samples = samples > UINT32_MAX ? UINT32_MAX : (uint32_t)samples;
    j->inputs[0] = (struct job_input){.data = in->data,
                                      .size = in->size,
                                      .type = m->inputs[0].type->rknn,
                                      .format = a->n_dims == 4 ? RKNN_TENSOR_NHWC : a->fmt};
    return 0;
}

// A datatype other than the one that metadata tell is fine where both are real values: a client may
// send FP16 or UINT8 for FP32. Integers that are no real values must be what the model takes.
static int takes_type(const struct request_input *in, const struct served_tensor *t,
                      struct error *e)
{
    if (in->type == t->type)
        return 0;
    if (in->type->rknn == RKNN_TENSOR_TYPE_MAX || (!t->as_float && t->type != in->type))
        return error_set(e, STATUS_PARAM_INVALID, "input \"%s\" is %s, and takes no %s", in->name,
                         t->type->name, in->type->name);
    return 0; // the library converts it, or says what it does not
}

// One input of the request goes to its place in the job, its data where they lie in the body. The
// number of samples is bounded here, before anything is computed from it; what is more than the
// model takes is refused with the other limits of a request.
static int match_input(struct job *j, const struct request_input *in, const struct served_model *m,
                       unsigned set, struct error *e)
{
    int i = input_index(m, in->name, e);
    if (i < 0)
        return i;
    const rknn_tensor_attr *a = &m->sets[set].inputs[i];
    struct job_input *to = &j->inputs[i];
    char shape[200];
    if (!takes_shape(in, a, m->batches, &to->format))
        return error_set(e, STATUS_PARAM_INVALID,
                         "input \"%s\" has not the shape that it takes: %s", in->name,
                         shape_text(a, m->batches, shape));
    if (m->batches && j->samples && in->shape[0] != j->samples)
        return error_set(e, STATUS_PARAM_INVALID, "inputs have different numbers of samples");
    j->samples = !m->batches ? 1 : in->shape[0] > 1 << 30 ? 1 << 30 : (uint32_t)in->shape[0];
    to->data = in->data;
    to->size = in->size;
    to->type = in->type->rknn;
    return takes_type(in, &m->inputs[i], e);
}

// All inputs against the shapes of one set; the words are of the first that does not fit.
static int match_inputs(struct job *j, const struct request *r, const struct served_model *m,
                        unsigned set, struct error *e)
{
    j->samples = 0;
    j->set = set;
    if (r->n_inputs != m->n_inputs)
        return error_set(e, STATUS_PARAM_INVALID, "%u inputs came, model %s takes %u", r->n_inputs,
                         m->name, m->n_inputs);
    for (unsigned i = 0; i < r->n_inputs; i++) {
        int s = match_input(j, &r->inputs[i], m, set, e);
        if (s < 0)
            return s;
    }
    return 0;
}

// Where shapes are more than numbers of samples, that of the first set which fits all inputs.
static int choose_inputs(struct job *j, const struct request *r, const struct served_model *m,
                         struct error *e)
{
    if (r->raw)
        return take_raw(j, r, m, e);
    int s = match_inputs(j, r, m, 0, e);
    for (unsigned set = 1; s < 0 && !m->batches && set < m->n_sets; set++)
        s = match_inputs(j, r, m, set, e);
    return s;
}

// A BOOL is a byte 0 or 1; what another one would be, backends do not agree on.
static int check_bools(const struct job *j, const struct served_model *m, struct error *e)
{
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        const struct job_input *in = &j->inputs[i];
        for (uint64_t k = 0; in->type == RKNN_TENSOR_BOOL && k < in->size; k++)
            if (in->data[k] > 1)
                return error_set(e, STATUS_PARAM_INVALID,
                                 "input \"%s\": element %" PRIu64 " is %u, and a BOOL is 0 or 1",
                                 m->inputs[i].name, k, in->data[k]);
    }
    return 0;
}

// ---- outputs ------------------------------------------------------------------------------------

static int find_outputs(struct job *j, const struct request *r, const struct served_model *m,
                        struct error *e)
{
    for (unsigned i = 0; i < r->n_outputs; i++) {
        unsigned k = 0;
        while (k < m->n_outputs && strcmp(m->outputs[k].name, r->outputs[i].name) != 0)
            k++;
        if (k == m->n_outputs)
            return error_set(e, STATUS_PARAM_INVALID,
                             "model %s has no output \"%s\"; it has %u, the first is \"%s\"",
                             m->name, r->outputs[i].name, m->n_outputs,
                             m->n_outputs ? m->outputs[0].name : "");
        j->asked[j->n_asked++] = k;
    }
    if (r->n_outputs == 0)
        while (j->n_asked < m->n_outputs) {
            j->asked[j->n_asked] = j->n_asked;
            j->n_asked++;
        }
    return 0;
}

static int reserve_outputs(struct job *j, const struct served_model *m, struct error *e)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        uint64_t size = job_output_size(m, j->set, i) * j->samples;
        total += size;
        if (total > m->options->max_tensor)
            return error_set(e, STATUS_PARAM_INVALID,
                             "%" PRIu32 " samples have more than %" PRIu64 " bytes of outputs",
                             j->samples, m->options->max_tensor);
        if (size >= PTRDIFF_MAX || !(j->outputs[i] = malloc((size_t)size + 1)))
            return error_no_memory(e, "outputs", size);
        j->n_outputs = i + 1;
    }
    return 0;
}

int job_prepare(struct job *j, const struct request *r, const struct served_model *m,
                struct error *e)
{
    j->n_outputs = j->n_asked = j->set = 0;
    j->timeout_ns = r->timeout_us < UINT64_MAX / 1000 ? r->timeout_us * 1000 : 0;
    if (m->n_inputs > REQUEST_MAX_TENSORS || m->n_outputs > REQUEST_MAX_TENSORS)
        return error_set(e, STATUS_FAIL,
                         "models with more than %d inputs or outputs are not served",
                         REQUEST_MAX_TENSORS);
    int s = choose_inputs(j, r, m, e);
    if (s == 0)
        s = check_bools(j, m, e);
    if (s < 0)
        return s;
    uint32_t most = m->per_run > 1 ? m->per_run : m->options->max_batch;
    if (j->samples == 0 || (m->batches && j->samples > most))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%" PRIu32 " samples: model %s takes 1 to %" PRIu32, j->samples, m->name,
                         m->batches ? most : 1);
    s = find_outputs(j, r, m, e);
    if (s == 0)
        s = reserve_outputs(j, m, e);
    if (s < 0)
        job_done(j);
    return s;
}
