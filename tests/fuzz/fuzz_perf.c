// Tables of layer times: whatever the text, layers whose strings are whole, or words.
#include <stdlib.h>

#include "npu/rknnrt/perf_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct perf p = {0};
    struct error e = {0};
    int r = perf_parse((struct bytes){data, size}, &p, &e);
    check(r == 0 || (r == e.code && e.text[0] && !p.layers));
    check(p.n == 0 || p.layers);
    for (size_t i = 0; i < p.n; i++) {
        const struct npu_layer *l = &p.layers[i];
        check(*l->name && *l->op && strlen(l->type) + strlen(l->target) <= size);
        check(strlen(l->input_shapes) + strlen(l->output_shapes) <= size);
        check(l->core_mask < 1u << NPU_MAX_CORES);
    }
    perf_done(&p);
    return 0;
}
