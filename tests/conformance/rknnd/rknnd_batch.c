// A batch is divided by its inputs among as many idle cores as the program allows.
#include "../conformance.h"
#include "rknnd.h"

// Each core has its part of the batch in each layer, the first ones what does not divide evenly.
static void expect_parts(rknn_context c, const uint64_t parts[3])
{
    rknnd_list *layers;
    NEED_OK(rknnd_get_layers(c, &layers));
    EXPECT_CMP(layers->n, >, 0);
    for (uint32_t i = 0; i < layers->n; i++) {
        const rknnd_layer *l = rknnd_layer_at(layers, i);
        EXPECT_CMP(l->n_core_work, ==, 3);
        for (uint32_t core = 0; core < l->n_core_work; core++)
            EXPECT_CMP(l->core_work[core], ==, parts[core]);
    }
    rknnd_free(layers);
}

static void run(rknn_context c, const uint64_t parts[3])
{
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "batch");
    expect_parts(c, parts);
}

int main(int argc, char **argv)
{
    static const uint64_t on_one[] = {3, 0, 0}, on_two[] = {2, 1, 0}, on_three[] = {1, 1, 1};
    conformance_start(argc, argv);
    rknn_context c = conformance_open("batch.rknn", RKNN_FLAG_COLLECT_PERF_MASK);
    conformance_set_inputs(c, "batch");
    run(c, on_three);
    EXPECT_OK(rknn_set_batch_core_num(c, 1));
    run(c, on_one);
    EXPECT_OK(rknn_set_batch_core_num(c, 2));
    run(c, on_two);
    EXPECT_OK(rknn_set_batch_core_num(c, 3));
    run(c, on_three);
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_batch_core_num(c, 4));
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
