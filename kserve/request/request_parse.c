#include "kserve/request/request_parse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kserve/request/request_json.h"

void request_done(struct request *r)
{
    for (unsigned i = 0; i < r->n_inputs; i++) {
        free(r->inputs[i].made);
        memory_give(r->share, r->inputs[i].taken);
    }
    r->n_inputs = 0;
}

bool request_is_binary(const struct request *r, unsigned output)
{
    const struct request_output *o = output < r->n_outputs ? &r->outputs[output] : NULL;
    return o && o->has_binary ? o->binary : r->wants_binary || r->raw;
}

// ---- bytes behind the JSON ----------------------------------------------------------------------

static int take_binary(struct request_input *in, const uint8_t **next, uint64_t *left,
                       struct error *e)
{
    uint64_t size;
    if (in->given & (GIVEN_DATA | GIVEN_LATE))
        return error_set(e, STATUS_PARAM_INVALID,
                         "input \"%s\" has data and binary_data_size: one of them", in->name);
    if (__builtin_mul_overflow(in->n_elems, in->type->size, &size) ||
        (uint64_t)in->binary_size != size)
        return error_set(e, STATUS_PARAM_INVALID,
                         "input \"%s\": binary_data_size is %" PRId64 ", and %" PRIu64
                         " elements of %s do not take that",
                         in->name, in->binary_size, in->n_elems, in->type->name);
    if (size > *left)
        return error_set(e, STATUS_PARAM_INVALID,
                         "input \"%s\": the body ends %" PRIu64 " bytes before its binary data",
                         in->name, size - *left);
    in->data = *next;
    in->size = size;
    *next += size;
    *left -= size;
    return 0;
}

static int check_given(struct request_input *in, const uint8_t **next, uint64_t *left,
                       struct error *e)
{
    const char *missing = !(in->given & GIVEN_NAME)    ? "name"
                          : !(in->given & GIVEN_SHAPE) ? "shape"
                          : !(in->given & GIVEN_TYPE)  ? "datatype"
                                                       : NULL;
    if (missing)
        return error_set(e, STATUS_PARAM_INVALID, "an input (\"%s\") has no \"%s\"", in->name,
                         missing);
    if (in->binary_size >= 0)
        return take_binary(in, next, left, e);
    if (!(in->given & GIVEN_DATA))
        return error_set(e, STATUS_PARAM_INVALID,
                         "input \"%s\" has neither data nor binary_data_size", in->name);
    in->data = in->made;
    in->size = in->n_elems * in->type->size;
    return 0;
}

static int check_names(const struct request *r, struct error *e)
{
    for (unsigned i = 0; i < r->n_inputs; i++)
        for (unsigned k = 0; k < i; k++)
            if (strcmp(r->inputs[i].name, r->inputs[k].name) == 0)
                return error_set(e, STATUS_PARAM_INVALID, "input \"%s\" comes twice",
                                 r->inputs[i].name);
    for (unsigned i = 0; i < r->n_outputs; i++) {
        if (!r->outputs[i].name[0])
            return error_set(e, STATUS_PARAM_INVALID, "an output has no \"name\"");
        for (unsigned k = 0; k < i; k++)
            if (strcmp(r->outputs[i].name, r->outputs[k].name) == 0)
                return error_set(e, STATUS_PARAM_INVALID, "output \"%s\" is asked for twice",
                                 r->outputs[i].name);
    }
    return 0;
}

int request_take_tensors(struct request *r, const uint8_t *body, size_t size, size_t header,
                         struct error *e)
{
    int s;
    const uint8_t *next = body + header;
    uint64_t left = size - header;
    for (unsigned i = 0; i < r->n_inputs; i++)
        if ((s = check_given(&r->inputs[i], &next, &left, e)) < 0)
            return s;
    if (r->n_inputs == 0)
        return error_set(e, STATUS_PARAM_INVALID, "the request has no \"inputs\"");
    if (left > 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%" PRIu64 " bytes of the body belong to no input: Inference-Header-"
                         "Content-Length or a binary_data_size is wrong",
                         left);
    return check_names(r, e);
}

static int parse_parts(struct request *r, const uint8_t *body, size_t size, size_t header,
                       struct error *e)
{
    int s = request_read_json(r, body, header, e);
    return s < 0 ? s : request_take_tensors(r, body, size, header, e);
}

// All but the tensors, which are begun as they come: a request's room is 45 KB.
static void request_begin(struct request *r)
{
    r->id[0] = r->model[0] = r->version[0] = 0;
    r->n_inputs = r->n_outputs = 0;
    r->has_id = r->wants_binary = r->raw = false;
    r->timeout_us = 0;
}

int request_parse(struct request *r, const uint8_t *body, size_t size, int64_t header,
                  struct error *e)
{
    request_begin(r);
    if (header == 0) {
        r->raw = true;
        r->n_inputs = 1;
        r->inputs[0] = (struct request_input){.data = body, .size = size, .binary_size = -1};
        return 0;
    }
    if (header > 0 && (uint64_t)header > size)
        return error_set(e, STATUS_PARAM_INVALID,
                         "Inference-Header-Content-Length is %" PRId64 ", the body has %zu bytes",
                         header, size);
    int s = parse_parts(r, body, size, header < 0 ? size : (size_t)header, e);
    if (s < 0)
        request_done(r);
    return s;
}
