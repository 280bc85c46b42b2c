// Where the parser is in the request decides what a member or an element means; `members` says what
// each place takes. What is not there is refused.
#include "kserve/request/request_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/text/text.h"
#include "kserve/request/json_escapes.h"
#include "kserve/request/json_memory.h"

#define MAX_DEPTH 32
#define PIECE     65536 // bytes that yajl is given at once

enum place {
    NOWHERE,
    ROOT,
    PARAMETERS,
    INPUTS,
    INPUT,
    INPUT_PARAMETERS,
    SHAPE,
    DATA,
    OUTPUTS,
    OUTPUT,
    OUTPUT_PARAMETERS,
    N_PLACES
};

enum kind { TEXT, NUMBER, BOOLEAN, ARRAY, OBJECT };
static const char *const kind_names[] = {"a string", "a number", "true or false", "an array",
                                         "an object"};

struct value {
    enum kind kind;
    const char *text; // TEXT, NUMBER; does not end with 0
    size_t n;
    bool yes; // BOOLEAN
};

struct parser {
    struct request *request;
    struct error *e;
    size_t text_size;
    enum place places[MAX_DEPTH];
    uint32_t seen[MAX_DEPTH]; // bit i: members[i] has come there
    unsigned depth;
    const struct member *member; // whose value comes
    bool again;                  // the second pass: only data that came too early
    unsigned n_seen;             // inputs of this pass
    // The data that is read.
    bool skips;                        // it is not for this pass
    unsigned level;                    // of arrays in it
    uint64_t counts[REQUEST_MAX_DIMS]; // elements of the open arrays
    uint64_t n_read;
};

struct member {
    enum place place;
    const char *name;
    enum kind kind;
    int (*take)(struct parser *p, const struct value *v);
    enum place opens; // for arrays and objects
    bool may_be_null; // which is how some clients leave a member out
};

static struct request_input *input_now(struct parser *p)
{
    return &p->request->inputs[p->n_seen - 1];
}

static struct request_output *output_now(struct parser *p)
{
    return &p->request->outputs[p->request->n_outputs - 1];
}

// ---- members ------------------------------------------------------------------------------------

// yajl lets longer forms, halves of characters and what is beyond the last one pass.
static bool is_utf8(const char *text)
{
    uint32_t code;
    for (size_t n; *text; text += n)
        if ((n = text_character(text, &code)) == 0)
            return false;
    return true;
}

static int take_text(struct parser *p, const struct value *v, char ret[REQUEST_MAX_NAME])
{
    if (v->n >= REQUEST_MAX_NAME || memchr(v->text, 0, v->n))
        return error_set(p->e, STATUS_PARAM_INVALID, "\"%s\" is longer than %d bytes, or has a 0",
                         p->member->name, REQUEST_MAX_NAME - 1);
    memcpy(ret, v->text, v->n);
    ret[v->n] = 0;
    return is_utf8(ret)
               ? 0
               : error_set(p->e, STATUS_PARAM_INVALID, "\"%s\" is not UTF-8", p->member->name);
}

static int whole_number(struct parser *p, const char *what, const struct value *v, int64_t *ret)
{
    static const char *const name = "INT64";
    int64_t n = 0;
    if (!datatype_put(datatype_find(name, strlen(name)), v->text, v->n, &n) || n < 0)
        return error_set(p->e, STATUS_PARAM_INVALID, "%s: %.*s is no whole number from 0 on", what,
                         (int)(v->n < 40 ? v->n : 40), v->text);
    *ret = n;
    return 0;
}

static int take_id(struct parser *p, const struct value *v)
{
    p->request->has_id = true;
    return take_text(p, v, p->request->id);
}

static int take_model(struct parser *p, const struct value *v)
{
    return take_text(p, v, p->request->model);
}

static int take_version(struct parser *p, const struct value *v)
{
    return take_text(p, v, p->request->version);
}

static int take_wants_binary(struct parser *p, const struct value *v)
{
    p->request->wants_binary = v->yes;
    return 0;
}

// What a model without levels of priority makes of one: nothing, as in Triton.
static int take_priority(struct parser *p, const struct value *v)
{
    int64_t priority;
    return whole_number(p, "priority", v, &priority);
}

static int take_timeout(struct parser *p, const struct value *v)
{
    int64_t us;
    int r = whole_number(p, "timeout", v, &us);
    p->request->timeout_us = r == 0 ? (uint64_t)us : 0;
    return r;
}

static int take_classification(struct parser *p, const struct value *v)
{
    int64_t n;
    int r = whole_number(p, "classification", v, &n);
    if (r == 0 && (n == 0 || n > REQUEST_MAX_CLASSES))
        r = error_set(p->e, STATUS_PARAM_INVALID, "classification: there are 1 to %d classes",
                      REQUEST_MAX_CLASSES);
    output_now(p)->classes = r == 0 ? (uint32_t)n : 0;
    return r;
}

static int take_input_name(struct parser *p, const struct value *v)
{
    input_now(p)->given |= GIVEN_NAME;
    return take_text(p, v, input_now(p)->name);
}

static int take_datatype(struct parser *p, const struct value *v)
{
    struct request_input *in = input_now(p);
    in->given |= GIVEN_TYPE;
    if (!(in->type = datatype_find(v->text, v->n)))
        return error_set(p->e, STATUS_PARAM_INVALID,
                         "input \"%s\": models take no %.*s; there are " DATATYPES, in->name,
                         (int)(v->n < 40 ? v->n : 40), v->text);
    return 0;
}

static int begin_shape(struct parser *p, const struct value *v)
{
    struct request_input *in = input_now(p);
    (void)v;
    in->n_dims = 0;
    in->n_elems = 1;
    in->given |= GIVEN_SHAPE;
    return 0;
}

static int take_dim(struct parser *p, const struct value *v)
{
    struct request_input *in = input_now(p);
    int64_t n;
    if (v->kind != NUMBER)
        return error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": a shape is numbers", in->name);
    int r = whole_number(p, "shape", v, &n);
    if (r < 0)
        return r;
    if (in->n_dims == REQUEST_MAX_DIMS)
        return error_set(p->e, STATUS_PARAM_INVALID,
                         "input \"%s\": a shape has no more than %d dimensions", in->name,
                         REQUEST_MAX_DIMS);
    in->shape[in->n_dims++] = (uint64_t)n;
    if (__builtin_mul_overflow(in->n_elems, (uint64_t)n, &in->n_elems) ||
        in->n_elems > (uint64_t)INT64_MAX / 16)
        return error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": too many elements", in->name);
    return 0;
}

static int take_binary_size(struct parser *p, const struct value *v)
{
    return whole_number(p, "binary_data_size", v, &input_now(p)->binary_size);
}

static int take_output_name(struct parser *p, const struct value *v)
{
    return take_text(p, v, output_now(p)->name);
}

static int take_binary_data(struct parser *p, const struct value *v)
{
    output_now(p)->binary = v->yes;
    output_now(p)->has_binary = true;
    return 0;
}

// ---- data ---------------------------------------------------------------------------------------

// Each element takes two characters at least, so what is allocated is bounded by the text.
static int take_data(struct parser *p, const struct value *v)
{
    struct request_input *in = input_now(p);
    const unsigned known = GIVEN_SHAPE | GIVEN_TYPE;
    (void)v;
    in->given |= GIVEN_DATA;
    p->level = 0;
    p->n_read = p->counts[0] = 0;
    p->skips = p->again ? !(in->given & GIVEN_LATE) : (in->given & known) != known;
    if (p->skips && !p->again)
        in->given |= GIVEN_LATE;
    if (p->skips || (in->given & known) != known)
        return 0;
    if (in->n_elems > p->text_size / 2 + 1)
        return error_set(p->e, STATUS_PARAM_INVALID,
                         "input \"%s\": its shape has more elements than its data", in->name);
    size_t size = 0;
    if (__builtin_mul_overflow(in->n_elems, in->type->size, &size))
        return error_no_memory(p->e, "an input", in->n_elems);
    if (!memory_take(p->request->share, size, MEMORY_SOON_MS))
        return error_set(p->e, STATUS_MALLOC_FAIL,
                         "input \"%s\": too many large requests at once (--memory)", in->name);
    in->taken = size;
    in->made = malloc(size + 1);
    return in->made ? 0 : error_no_memory(p->e, "an input", size);
}

// Nested lists and flat ones are both allowed, so this is about how many elements there are, or
// about lists whose lengths differ from the shape.
static int data_disagrees(struct parser *p)
{
    return error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": its data does not have its shape",
                     input_now(p)->name);
}

// An element, or the begin of a list within the list. Where shape and type come behind the data,
// elements are only counted here, and read in a second pass.
static int take_element(struct parser *p, const struct value *v)
{
    struct request_input *in = input_now(p);
    if (v->kind == ARRAY) {
        if (++p->level >= REQUEST_MAX_DIMS)
            return data_disagrees(p);
        p->counts[p->level - 1]++;
        p->counts[p->level] = 0;
        return 0;
    }
    p->counts[p->level]++;
    if (p->skips)
        return 0;
    if (p->n_read == in->n_elems || (p->level > 0 && p->level + 1 != in->n_dims))
        return data_disagrees(p);
    void *to = in->made + p->n_read++ * in->type->size;
    bool fits = v->kind == NUMBER ? datatype_put(in->type, v->text, v->n, to)
                : v->kind == BOOLEAN && in->type->rknn == RKNN_TENSOR_BOOL
                    ? datatype_put(in->type, v->yes ? "1" : "0", 1, to)
                    : false;
    if (!fits)
        return error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": element %llu is no %s",
                         in->name, (unsigned long long)p->n_read - 1, in->type->name);
    return 0;
}

// Of nested arrays each has to be as long as its dimension says; a flat one has all elements.
static int end_data(struct parser *p)
{
    const struct request_input *in = input_now(p);
    bool innermost = p->level == 0;
    bool nested = p->level > 0 || p->n_read != p->counts[0] || in->n_dims <= 1;
    if (!p->skips) {
        if (innermost && p->n_read != in->n_elems)
            return data_disagrees(p);
        if (nested && in->n_dims > 0 && p->counts[p->level] != in->shape[p->level])
            return data_disagrees(p);
    }
    if (!innermost)
        p->level--;
    return 0;
}

// ---- the grammar --------------------------------------------------------------------------------

// What opens a place of its own has nothing to be taken yet; members there have rules of their own.
static int skip_member(struct parser *p, const struct value *v)
{
    (void)p, (void)v;
    return 0;
}

static const struct member members[] = {
    {ROOT, "id", TEXT, take_id, NOWHERE, true},
    {ROOT, "model_name", TEXT, take_model, NOWHERE, true},
    {ROOT, "model_version", TEXT, take_version, NOWHERE, true},
    {ROOT, "parameters", OBJECT, skip_member, PARAMETERS, true},
    {ROOT, "inputs", ARRAY, skip_member, INPUTS, false},
    {ROOT, "outputs", ARRAY, skip_member, OUTPUTS, true},
    {PARAMETERS, "binary_data_output", BOOLEAN, take_wants_binary, NOWHERE, false},
    {PARAMETERS, "priority", NUMBER, take_priority, NOWHERE, false},
    {PARAMETERS, "timeout", NUMBER, take_timeout, NOWHERE, false},
    {INPUT, "name", TEXT, take_input_name, NOWHERE, false},
    {INPUT, "shape", ARRAY, begin_shape, SHAPE, false},
    {INPUT, "datatype", TEXT, take_datatype, NOWHERE, false},
    {INPUT, "parameters", OBJECT, skip_member, INPUT_PARAMETERS, true},
    {INPUT, "data", ARRAY, take_data, DATA, false},
    {INPUT_PARAMETERS, "binary_data_size", NUMBER, take_binary_size, NOWHERE, false},
    {OUTPUT, "name", TEXT, take_output_name, NOWHERE, false},
    {OUTPUT, "parameters", OBJECT, skip_member, OUTPUT_PARAMETERS, true},
    {OUTPUT_PARAMETERS, "binary_data", BOOLEAN, take_binary_data, NOWHERE, false},
    {OUTPUT_PARAMETERS, "classification", NUMBER, take_classification, NOWHERE, false},
};

#define N_MEMBERS (sizeof members / sizeof *members)
_Static_assert(N_MEMBERS <= 32, "a bit of parser.seen for each");

static int refuse_unknown(struct parser *p, const char *name, size_t n)
{
    static const char *const where[N_PLACES] = {
        [ROOT] = "a request",   [PARAMETERS] = "a request's parameters",
        [INPUT] = "an input",   [INPUT_PARAMETERS] = "an input's parameters",
        [OUTPUT] = "an output", [OUTPUT_PARAMETERS] = "an output's parameters"};
    enum place place = p->places[p->depth - 1];
    char known[200] = "";
    size_t end = 0;
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (members[i].place == place && end < sizeof known)
            end += (size_t)snprintf(known + end, sizeof known - end, "%s%s", end ? ", " : "",
                                    members[i].name);
    return error_set(p->e, STATUS_PARAM_INVALID, "\"%.*s\" is not known in %s; there may be: %s",
                     (int)(n < 60 ? n : 60), name, where[place], known);
}

static int open_place(struct parser *p, enum place place)
{
    if (p->depth == MAX_DEPTH)
        return error_set(p->e, STATUS_PARAM_INVALID, "the JSON is nested too deeply");
    p->seen[p->depth] = 0;
    p->places[p->depth++] = place;
    return 0;
}

static int new_tensor(struct parser *p, bool is_input)
{
    struct request *q = p->request;
    if ((is_input ? p->n_seen : q->n_outputs) == REQUEST_MAX_TENSORS)
        return error_set(p->e, STATUS_PARAM_INVALID, "more than %d inputs or outputs",
                         REQUEST_MAX_TENSORS);
    if (!is_input) {
        if (!p->again)
            q->outputs[q->n_outputs] = (struct request_output){0};
        q->n_outputs++;
        return open_place(p, OUTPUT);
    }
    if (!p->again)
        q->inputs[q->n_inputs++] = (struct request_input){.binary_size = -1, .n_elems = 1};
    p->n_seen++;
    return open_place(p, INPUT);
}

static int take_member(struct parser *p, const struct value *v)
{
    const struct member *m = p->member;
    p->member = NULL;
    if (!m)
        return error_set(p->e, STATUS_PARAM_INVALID, "%s stands where it means nothing",
                         kind_names[v->kind]);
    if (m->kind != v->kind)
        return error_set(p->e, STATUS_PARAM_INVALID, "\"%s\" is to be %s, not %s", m->name,
                         kind_names[m->kind], kind_names[v->kind]);
    p->member = m;
    bool only_data = p->again && m->take != take_data;
    int r = only_data ? 0 : m->take(p, v);
    p->member = NULL;
    return r == 0 && m->opens != NOWHERE ? open_place(p, m->opens) : r;
}

static int take_value(struct parser *p, const struct value *v)
{
    enum place place = p->depth ? p->places[p->depth - 1] : NOWHERE;
    int r;
    switch (place) {
    case NOWHERE:
        return v->kind == OBJECT
                   ? open_place(p, ROOT)
                   : error_set(p->e, STATUS_PARAM_INVALID, "the request is to be an object");
    case INPUTS:
    case OUTPUTS:
        if (v->kind != OBJECT)
            return error_set(p->e, STATUS_PARAM_INVALID, "inputs and outputs are objects");
        return new_tensor(p, place == INPUTS);
    case SHAPE:
        return p->again ? 0 : take_dim(p, v);
    case DATA:
        r = take_element(p, v);
        return r == 0 && v->kind == ARRAY ? open_place(p, DATA) : r;
    default:
        return take_member(p, v);
    }
}

// ---- yajl ---------------------------------------------------------------------------------------

static int on_null(void *owner)
{
    struct parser *p = owner;
    const struct member *m = p->member;
    p->member = NULL;
    if (m && m->may_be_null)
        return 1;
    if (p->depth && p->places[p->depth - 1] == DATA)
        error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": data is numbers, not null",
                  input_now(p)->name);
    else if (m)
        error_set(p->e, STATUS_PARAM_INVALID, "\"%s\" is to be %s, not null", m->name,
                  kind_names[m->kind]);
    else
        error_set(p->e, STATUS_PARAM_INVALID, "null stands where it means nothing");
    return 0;
}

static int on_boolean(void *owner, int yes)
{
    return take_value(owner, &(struct value){.kind = BOOLEAN, .yes = yes}) == 0;
}

static int on_number(void *owner, const char *text, size_t n)
{
    return take_value(owner, &(struct value){.kind = NUMBER, .text = text, .n = n}) == 0;
}

static int on_string(void *owner, const unsigned char *text, size_t n)
{
    struct parser *p = owner;
    const struct value v = {.kind = TEXT, .text = (const char *)text, .n = n};
    if (p->depth && p->places[p->depth - 1] == DATA)
        error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": data is numbers", input_now(p)->name);
    else
        return take_value(p, &v) == 0;
    return 0;
}

static int on_map(void *owner)
{
    struct parser *p = owner;
    if (p->depth && p->places[p->depth - 1] == DATA) {
        error_set(p->e, STATUS_PARAM_INVALID, "input \"%s\": data is numbers", input_now(p)->name);
        return 0;
    }
    return take_value(p, &(struct value){.kind = OBJECT}) == 0;
}

static int on_key(void *owner, const unsigned char *text, size_t n)
{
    struct parser *p = owner;
    enum place place = p->places[p->depth - 1];
    uint32_t *seen = &p->seen[p->depth - 1];
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const struct member *m = &members[i];
        if (m->place != place || strlen(m->name) != n || memcmp(m->name, text, n) != 0)
            continue;
        // Of two, some readers take the first and others the last.
        if (*seen & 1U << i) {
            error_set(p->e, STATUS_PARAM_INVALID, "\"%s\" stands there twice", m->name);
            return 0;
        }
        *seen |= 1U << i;
        p->member = m;
        return 1;
    }
    refuse_unknown(p, (const char *)text, n);
    return 0;
}

static int on_end_map(void *owner)
{
    struct parser *p = owner;
    p->depth--;
    return 1;
}

static int on_array(void *owner)
{
    return take_value(owner, &(struct value){.kind = ARRAY}) == 0;
}

static int on_end_array(void *owner)
{
    struct parser *p = owner;
    enum place place = p->places[--p->depth];
    return place != DATA || end_data(p) == 0;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end_map,
    .yajl_start_array = on_array,
    .yajl_end_array = on_end_array,
};

static int explain(yajl_handle h, const uint8_t *text, size_t at, size_t n, struct error *e)
{
    unsigned char *words = yajl_get_error(h, 0, text + at, n);
    size_t length = words ? strcspn((const char *)words, "\n") : 0;
    error_set(e, STATUS_PARAM_INVALID, "the JSON is broken near byte %zu: %.*s",
              at + yajl_get_bytes_consumed(h), (int)length, words ? (const char *)words : "");
    yajl_free_error(h, words);
    return STATUS_PARAM_INVALID;
}

// What one pass is about.
struct pass {
    struct parser *p;
    const uint8_t *text;
    size_t size;
};

// In pieces, because yajl's own buffer for what a piece cuts in two stays small, too.
static int parse_all(void *user, yajl_alloc_funcs *functions)
{
    const struct pass *t = user;
    yajl_handle h = yajl_alloc(&callbacks, functions, t->p);
    yajl_status s = yajl_status_ok;
    size_t at = 0, n = 0;
    for (; s == yajl_status_ok && at < t->size; at += n) {
        n = t->size - at < PIECE ? t->size - at : PIECE;
        s = yajl_parse(h, t->text + at, n);
    }
    if (s == yajl_status_ok)
        s = json_complete(h);
    int r = s == yajl_status_ok                ? 0
            : s == yajl_status_client_canceled ? t->p->e->code
                                               : explain(h, t->text, at - n, n, t->p->e);
    yajl_free(h);
    return r;
}

static int parse_pass(struct parser *p, const uint8_t *text, size_t size)
{
    return json_memory_run(parse_all, &(struct pass){p, text, size}, p->e);
}

int request_read_json(struct request *r, const uint8_t *text, size_t size, struct error *e)
{
    struct error own;
    struct parser p = {.request = r, .e = e ? e : &own, .text_size = size};
    int s = json_escapes_check(text, size, p.e);
    if (s == 0)
        s = parse_pass(&p, text, size);
    bool late = false;
    for (unsigned i = 0; s == 0 && i < r->n_inputs; i++) {
        const struct request_input *in = &r->inputs[i];
        if (in->given & GIVEN_LATE && !(in->given & GIVEN_SHAPE && in->given & GIVEN_TYPE))
            return 0; // what is missing is told by who checks
        late |= (in->given & GIVEN_LATE) != 0;
    }
    if (s < 0 || !late)
        return s;
    p = (struct parser){.request = r, .e = p.e, .text_size = size, .again = true};
    unsigned n_outputs = r->n_outputs;
    r->n_outputs = 0;
    s = parse_pass(&p, text, size);
    r->n_outputs = n_outputs;
    return s;
}
