// Load options, and an ONNX model that is loaded with them: a text, its end (0), a model file.
#include <stdlib.h>

#include "npu/model/onnx/onnx_graph.h"
#include "npu/sim/sim_executor.h"

#define SHAPE_SETS 3 // of shapes that are tried

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct load_options *o)
{
    for (uint32_t i = 0; i < o->n_shapes; i++) {
        const struct load_shape *s = &o->shapes[i];
        if (load_options_shape(o, s->input) != s)
            abort();
        const uint32_t *dims = load_shape_at(s, o->n_shape_sets - 1);
        for (uint32_t k = 0; k < s->n_dims; k++)
            if (!dims[k])
                abort();
    }
}

static void load(const struct load_options *o, struct bytes file)
{
    for (uint32_t i = 0; i < SHAPE_SETS && i < o->n_shape_sets; i++) {
        struct graph g;
        struct error e;
        if (onnx_graph(&g, file, o, i, &sim_executor, &e) < 0)
            return;
        graph_done(&g);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pool pool = {0};
    struct load_options o;
    struct error e;
    const uint8_t *end = memchr(data, 0, size);
    if (!end)
        return 0;
    struct bytes file = {end + 1, size - (size_t)(end - data) - 1};
    if (load_options_parse(&o, &pool, (const char *)data, &e) == 0) {
        check(&o);
        if (onnx_is_model(file))
            load(&o, file);
    }
    pool_done(&pool);
    return 0;
}
