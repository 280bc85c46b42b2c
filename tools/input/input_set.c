// All inputs of a model: read from files as the options say, or made up from a seed. The set owns
// the buffers; paths point into the command line or a list.
#include "tools/input/input_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "tools/input/input_check.h"
#include "tools/ui/rknn_error.h"

int input_set_init(struct input_set *s, uint32_t n, struct error *e)
{
    *s = (struct input_set){.n = n,
                            .inputs = calloc(n ? n : 1, sizeof *s->inputs),
                            .paths = calloc(n ? n : 1, sizeof *s->paths),
                            .files = calloc(n ? n : 1, sizeof *s->files)};
    return s->inputs && s->paths && s->files ? 0 : error_no_memory(e, "inputs", 0);
}

int input_set_give(const struct input_set *s, rknn_context context)
{
    return s->n ? rknn_inputs_set(context, s->n, s->inputs) : RKNN_SUCC;
}

void input_set_done(struct input_set *s)
{
    for (uint32_t i = 0; s->inputs && i < s->n; i++)
        free(s->inputs[i].buf);
    free(s->inputs);
    free(s->paths);
    free(s->files);
    *s = (struct input_set){0};
}

// The native attributes; asked for only where data is given in that form.
static int query_native(const struct model *m, uint32_t index, rknn_tensor_attr *ret,
                        struct error *e)
{
    *ret = (rknn_tensor_attr){.index = index};
    int r = rknn_query(m->context, RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, ret, sizeof *ret);
    return r < 0 ? rknn_error_set(e, r, "model %s", m->path) : 0;
}

// Failures name the input and its file; those of the steps below do not.
static int load_input(struct input_set *s, const struct model *m, uint32_t i,
                      const struct input_form *form, struct error *e)
{
    rknn_tensor_attr native = {0};
    const char *path = s->paths[i];
    int r = form->native ? query_native(m, i, &native, e) : 0;
    if (r)
        return r;
    r = input_file_load(&m->inputs[i], &native, path, form, &s->inputs[i], &s->files[i], e);
    return r ? error_prefix(e, "input %u \"%s\": %s", i, m->inputs[i].name,
                            strcmp(path, "-") == 0 ? "standard input" : path)
             : 0;
}

// It would give all inputs the same bytes, which is never meant.
static int check_standard_input(const struct input_set *s, struct error *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += strcmp(s->paths[i], "-") == 0;
    return n < 2 ? 0
                 : error_set(e, STATUS_PARAM_INVALID,
                             "-i -: standard input can be one input, not %u", n);
}

// All checks that need no file come first, so that no large file is read for nothing.
int input_set_load(struct input_set *s, const struct model *m, const struct text_list *args,
                   const struct input_options *options, struct error *e)
{
    cleanup(free_p) struct input_form *forms = calloc(m->n_inputs + 1, sizeof *forms);
    int r = input_set_init(s, m->n_inputs, e);
    if (r == 0 && !forms)
        r = error_no_memory(e, "inputs", 0);
    if (r == 0)
        r = input_forms_make(options, m->inputs, m->n_inputs, forms, e);
    if (r == 0)
        r = inputs_map(args->items, args->n, m->inputs, m->n_inputs, s->paths, e);
    if (r == 0)
        r = check_standard_input(s, e);
    for (uint32_t i = 0; r == 0 && i < s->n; i++)
        r = load_input(s, m, i, &forms[i], e);
    return r;
}

static void tell_picture(const struct input_file *file, FILE *out)
{
    const struct image_fitted *p = &file->fitted;
    if (p->fit != IMAGE_FIT_EXACT)
        fprintf(out, ": %ux%u to %ux%u by --fit %s", p->from_width, p->from_height, p->width,
                p->height, image_fit_name(p->fit));
    if (p->fit == IMAGE_LETTERBOX)
        fprintf(out, " (%ux%u at %u,%u; border %u,%u,%u)", p->fitted_width, p->fitted_height,
                p->left, p->top, p->colour[0], p->colour[1], p->colour[2]);
    if (p->fit == IMAGE_CROP)
        fprintf(out, " (of the picture %.6gx%.6g at %.6g,%.6g)", p->window.width, p->window.height,
                p->window.x, p->window.y);
    if (file->turned)
        fputs(": turned upright, as its EXIF data says", out);
    if (file->lost_alpha)
        fputs(": its alpha is left out", out);
    fputc('\n', out);
}

// To standard error, so that it does not mix with results in a pipe.
void input_set_tell(const struct input_set *s, const struct model *m, FILE *out)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct input_file *file = &s->files[i];
        bool as_it_is = file->fitted.fit == IMAGE_FIT_EXACT && !file->turned && !file->lost_alpha;
        char name[sizeof m->inputs[i].name + 1] = "";
        memcpy(name, m->inputs[i].name, sizeof m->inputs[i].name);
        text_make_printable(name);
        if (file->is_picture && m->inputs[i].type == RKNN_TENSOR_FLOAT32)
            fprintf(
                out,
                "input \"%s\": pixels go in as 0 to 255; if the float model wants another range "
                "(mean, scale), give it a .npy\n",
                name);
        if (!file->is_picture || as_it_is)
            continue;
        fprintf(out, "input \"%s\": %s", name, s->paths[i]);
        tell_picture(file, out);
    }
}

// The window in the picture's pixels, its place in the input, and the padding's colour.
static json_t *picture_json(const struct input_file *file)
{
    const struct image_fitted *p = &file->fitted;
    json_t *window =
        json_pack("[f, f, f, f]", p->window.x, p->window.y, p->window.width, p->window.height);
    json_t *pad = json_null();
    if (p->fit == IMAGE_LETTERBOX)
        pad = json_pack("[i, i, i]", p->colour[0], p->colour[1], p->colour[2]);
    return json_pack("{s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:b, s:b}", "width",
                     (json_int_t)p->from_width, "height", (json_int_t)p->from_height, "fit",
                     image_fit_name(p->fit), "window", window, "left", (json_int_t)p->left, "top",
                     (json_int_t)p->top, "fitted_width", (json_int_t)p->fitted_width,
                     "fitted_height", (json_int_t)p->fitted_height, "pad", pad, "turned",
                     (int)file->turned, "lost_alpha", (int)file->lost_alpha);
}

// Random data has no format.
json_t *input_set_json(const struct input_set *s, uint32_t index)
{
    const struct input_file *file = &s->files[index];
    if (!file->format)
        return json_null();
    return json_pack("{s:s, s:o}", "format", file->format, "picture",
                     file->is_picture ? picture_json(file) : json_null());
}

// splitmix64: the same numbers on every machine for a seed, so that results can be compared.
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Bytes of an element; 1 for 8-bit types and booleans.
static size_t element_size(rknn_tensor_type type)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
    case RKNN_TENSOR_INT32:
        return 4;
    case RKNN_TENSOR_INT64:
        return 8;
    case RKNN_TENSOR_INT16:
        return 2;
    default:
        return 1;
    }
}

// The type in which made-up data is given: float32 for fp16, and uint8 for int8 as a picture has
// it.
static rknn_tensor_type random_type(rknn_tensor_type type)
{
    switch (type) {
    case RKNN_TENSOR_FLOAT16:
        return RKNN_TENSOR_FLOAT32;
    case RKNN_TENSOR_INT8:
        return RKNN_TENSOR_UINT8;
    default:
        return type;
    }
}

// Each element takes one 64-bit number: reals its upper 24 bits as [-1, 1), bytes the lowest 8, all
// others its highest bit as 0 or 1.
static void fill_random(void *data, rknn_tensor_type type, uint32_t n, uint64_t *state)
{
    size_t size = element_size(type);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t random = next_random(state);
        int64_t small = (int64_t)(random >> 63);
        float real = (float)(random >> 40) / (float)(1 << 23) - 1;
        void *at = (char *)data + i * size;
        if (type == RKNN_TENSOR_FLOAT32)
            memcpy(at, &real, size);
        else if (type == RKNN_TENSOR_UINT8)
            memcpy(at, &random, size);
        else // the lower bytes come first on every machine that the RKNN API is for
            memcpy(at, &small, size);
    }
}

// All inputs take from one sequence: their data differs, but depends on the seed alone.
int input_set_random(struct input_set *s, const struct model *m, uint32_t seed, struct error *e)
{
    uint64_t state = seed;
    int r = input_set_init(s, m->n_inputs, e);
    for (uint32_t i = 0; r == 0 && i < s->n; i++) {
        const rknn_tensor_attr *attr = &m->inputs[i];
        rknn_tensor_type type = random_type(attr->type);
        size_t size = attr->n_elems * element_size(type);
        void *data = malloc(size ? size : 1);
        if (!data)
            return error_no_memory(e, "inputs", 0);
        fill_random(data, type, attr->n_elems, &state);
        s->inputs[i] = (rknn_input){
            .index = i, .buf = data, .size = (uint32_t)size, .type = type, .fmt = attr->fmt};
    }
    return r;
}
