// All inputs of a model.
#include "tools/input_set.h"

#include <stdlib.h>
#include <string.h>

#include "tools/input_file.h"
#include "tools/inputs.h"

int input_set_init(struct input_set *s, uint32_t n, struct failure *f)
{
    *s = (struct input_set){.n = n,
                            .inputs = calloc(n ? n : 1, sizeof *s->inputs),
                            .paths = calloc(n ? n : 1, sizeof *s->paths)};
    return s->inputs && s->paths ? 0 : failure_no_memory(f);
}

void input_set_done(struct input_set *s)
{
    for (uint32_t i = 0; s->inputs && i < s->n; i++)
        free(s->inputs[i].buf);
    free(s->inputs);
    free(s->paths);
    *s = (struct input_set){0};
}

int input_set_load(struct input_set *s, const struct model *m, const struct text_list *args,
                   rknn_tensor_format layout, struct failure *f)
{
    int r = input_set_init(s, m->n_inputs, f);
    if (r == 0)
        r = inputs_map(args->items, args->n, m->inputs, m->n_inputs, s->paths, f);
    for (uint32_t i = 0; r == 0 && i < s->n; i++) {
        r = input_file_load(&m->inputs[i], s->paths[i], layout, &s->inputs[i], f);
        if (r)
            failure_prefix(f, "input %u \"%s\": %s", i, m->inputs[i].name, s->paths[i]);
    }
    return r;
}

// splitmix64: small, seeded, the same everywhere.
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

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

// The type of the data for an input: halves are given as float32, int8 as the bytes of a picture.
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

static void fill(void *data, rknn_tensor_type type, uint32_t n, uint64_t *state)
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

int input_set_random(struct input_set *s, const struct model *m, uint32_t seed, struct failure *f)
{
    uint64_t state = seed;
    int r = input_set_init(s, m->n_inputs, f);
    for (uint32_t i = 0; r == 0 && i < s->n; i++) {
        const rknn_tensor_attr *attr = &m->inputs[i];
        rknn_tensor_type type = random_type(attr->type);
        size_t size = attr->n_elems * element_size(type);
        void *data = malloc(size ? size : 1);
        if (!data)
            return failure_no_memory(f);
        fill(data, type, attr->n_elems, &state);
        s->inputs[i] = (rknn_input){
            .index = i, .buf = data, .size = (uint32_t)size, .type = type, .fmt = attr->fmt};
    }
    return r;
}
