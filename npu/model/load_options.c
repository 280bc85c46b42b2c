// Load options: text of a program, one option per line. The only one so far fixes shapes of ONNX
// inputs:
//
//      shape NAME=1x3x224x224,1x3x112x112      one or several shape sets
//
// Names may contain "=", so the last one separates. Everything here is untrusted.
#include "npu/model/load_options.h"

#include <stdlib.h>
#include <string.h>

#define SHAPE "shape "

// How often c occurs: an upper bound for what is allocated.
static uint32_t count(const char *text, size_t n, char c)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += text[i] == c;
    return found;
}

// "1x3x224x224" up to `end`. False: not numbers above 0, or too many.
static bool parse_dims(const char *text, const char *end, uint32_t *dims, uint32_t *ret_n)
{
    uint32_t n = 0;
    while (text < end) {
        char *after;
        if (*text < '0' || *text > '9' || n == LOAD_MAX_DIMS)
            return false;
        unsigned long v = strtoul(text, &after, 10);
        if (v == 0 || v > INT32_MAX || (after < end && (*after != 'x' || after + 1 == end)))
            return false;
        dims[n++] = (uint32_t)v;
        text = after + 1;
    }
    *ret_n = n;
    return true;
}

// All shapes of "1x3x224x224,1x3x112x112"; they must be of one length.
static bool parse_shapes(struct load_shape *s, const char *text, const char *end, uint32_t *dims)
{
    for (uint32_t i = 0; i < s->n_shapes; i++) {
        uint32_t shape[LOAD_MAX_DIMS], n;
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *shape_end = comma ? comma : end;
        if (!parse_dims(text, shape_end, shape, &n) || (i > 0 && n != s->n_dims))
            return false;
        s->n_dims = n;
        memcpy(dims + (size_t)i * n, shape, n * sizeof *shape);
        text = shape_end + 1;
    }
    s->dims = dims;
    return true;
}

// "NAME=ROW,ROW,…"
static int parse_shape(struct load_options *o, struct pool *pool, const char *text, size_t size,
                       struct error *e)
{
    const char *equals = memrchr(text, '=', size), *end = text + size;
    if (!equals || equals == text)
        return error_set(e, STATUS_PARAM_INVALID,
                         "shape \"%.*s\" is not of the form NAME=1x3x224x224", (int)size, text);
    struct load_shape *s = &o->shapes[o->n_shapes];
    *s = (struct load_shape){.n_shapes = count(equals, (size_t)(end - equals), ',') + 1};
    uint32_t *dims = pool_alloc(pool, (size_t)s->n_shapes * LOAD_MAX_DIMS, sizeof *dims);
    s->input = pool_text(pool, (struct bytes){(const uint8_t *)text, (size_t)(equals - text)});
    if (!dims || !s->input)
        return error_no_memory(e, "load options", size);
    if (!parse_shapes(s, equals + 1, end, dims))
        return error_set(e, STATUS_PARAM_INVALID,
                         "shape \"%.*s\": shapes are up to %u numbers above 0 like "
                         "1x3x224x224, and all of one length",
                         (int)size, text, LOAD_MAX_DIMS);
    if (load_options_shape(o, s->input))
        return error_set(e, STATUS_PARAM_INVALID, "input %s is given two shapes", s->input);
    o->n_shapes++;
    return 0;
}

// A known option, or an error that names the line.
static int parse_line(struct load_options *o, struct pool *pool, const char *line, size_t size,
                      struct error *e)
{
    size_t skip = strlen(SHAPE);
    if (size < skip || memcmp(line, SHAPE, skip) != 0)
        return error_set(e, STATUS_PARAM_INVALID, "load option \"%.*s\" is not known", (int)size,
                         line);
    return parse_shape(o, pool, line + skip, size - skip, e);
}

// Inputs with one shape have it in every set; all others must have the same number of shapes, since
// set k takes the k-th of each.
static int check_shape_sets(struct load_options *o, struct error *e)
{
    o->n_shape_sets = 1;
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (o->shapes[i].n_shapes > o->n_shape_sets)
            o->n_shape_sets = o->shapes[i].n_shapes;
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (o->shapes[i].n_shapes != 1 && o->shapes[i].n_shapes != o->n_shape_sets)
            return error_set(e, STATUS_PARAM_INVALID,
                             "input %s has %u shapes, another one %u: give each one shape, or the "
                             "same number",
                             o->shapes[i].input, o->shapes[i].n_shapes, o->n_shape_sets);
    return 0;
}

int load_options_parse(struct load_options *o, struct pool *pool, const char *text, struct error *e)
{
    size_t size = text ? strlen(text) : 0;
    *o = (struct load_options){0};
    o->shapes = pool_alloc(pool, (size_t)count(text, size, '\n') + 1, sizeof *o->shapes);
    if (!o->shapes)
        return error_no_memory(e, "load options", size);
    for (const char *line = text, *end; size > 0 && line < text + size; line = end + 1) {
        end = strchrnul(line, '\n');
        int r = end > line ? parse_line(o, pool, line, (size_t)(end - line), e) : 0;
        if (r < 0)
            return r;
    }
    return check_shape_sets(o, e);
}

const struct load_shape *load_options_shape(const struct load_options *o, const char *input)
{
    for (uint32_t i = 0; i < o->n_shapes; i++)
        if (strcmp(o->shapes[i].input, input) == 0)
            return &o->shapes[i];
    return NULL;
}
