// Products of matrices: the file, and one run with whatever follows it as inputs.
#include <stdlib.h>

#include "npu/sim/matmul/product.h"

#define SMALL 4096u // elements of matrices that are multiplied

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_done(struct npu_job *job, int status)
{
    (void)job, (void)status;
}

// The run's parameters come first, then the scales; all of it is the matrices.
static void run_once(const struct product *p, struct bytes rest)
{
    static const uint8_t zeros[4 * SMALL];
    struct product_state *s;
    struct error e;
    if (rest.size < MATMUL_RUN_SIZE || product_state_new(p, &s, &e) < 0)
        return;
    struct bytes scales;
    bytes_slice(rest, MATMUL_RUN_SIZE, rest.size - MATMUL_RUN_SIZE, &scales);
    struct npu_input in[MATMUL_INPUTS] = {
        [MATMUL_A] = {.data = zeros, .size = p->io.inputs[MATMUL_A].native.size},
        [MATMUL_B] = {.data = zeros, .size = p->io.inputs[MATMUL_B].native.size},
        [MATMUL_SCALES] = {.data = scales.data, .size = scales.size},
        [MATMUL_RUN] = {.data = rest.data, .size = MATMUL_RUN_SIZE}};
    uint8_t *c = malloc(p->io.output.native.size);
    struct npu_output out = {.data = c, .size = p->io.output.native.size};
    struct npu_job job = {.inputs = in, .outputs = &out, .core_mask = 1, .done = on_done};
    product_run(s, &job, &e);
    product_run(s, &job, &e);
    free(c);
    product_state_free(s);
}

static bool is_small(const struct product *p)
{
    return p->io.inputs[MATMUL_A].native.n_elems <= SMALL &&
           p->io.inputs[MATMUL_B].native.n_elems <= SMALL && p->io.output.native.n_elems <= SMALL;
}

// The first two bytes: how long the file is.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const chips[] = {"rk3588", "rk3576", "rk3562", "rk3566"};
    struct product p;
    struct error e;
    struct bytes all = {data, size}, file, rest;
    if (size < 2 || !bytes_slice(all, 2, read_le16(data), &file) ||
        !bytes_slice(all, 2 + file.size, size - 2 - file.size, &rest))
        return 0;
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (product_init(&p, chip_find(chips[i]), file, &e) == 0 && is_small(&p))
            run_once(&p, rest);
    char *json = NULL;
    if (product_describe(file, &json, &e) == 0)
        free(json);
    return 0;
}
