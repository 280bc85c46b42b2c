// rknnd_run_samples: several samples in a request come out as each does alone; what they need is
// checked.
#include "../conformance.h"
#include "rknnd.h"

#define N       5
#define SETTLED 40

static rknn_context context;
static rknn_tensor_attr in = {.index = 0}, out = {.index = 0};

static void bind(rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    NEED(mem);
    EXPECT_OK(rknn_set_io_mem(context, mem, attr));
}

// Input bytes of sample i.
static void fill(uint32_t i, uint8_t *to)
{
    for (uint32_t k = 0; k < in.size_with_stride; k++)
        to[k] = (uint8_t)(k * 7 + i * 31 + k * i / 3);
}

// What each sample gives alone, one behind the other.
static uint8_t *run_alone(void)
{
    uint8_t *all = malloc((size_t)N * out.size);
    rknn_tensor_mem *input = rknn_create_mem(context, in.size_with_stride);
    rknn_tensor_mem *output = rknn_create_mem(context, out.size);
    NEED(all);
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "input 0 is not in memory",
                   rknnd_run_samples(context, 2));
    bind(input, &in);
    bind(output, &out);
    for (uint32_t i = 0; i < SETTLED; i++) // the server knows how long a run takes, or refuses
        NEED_OK(rknn_run(context, NULL));
    for (uint32_t i = 0; i < N; i++) {
        fill(i, input->virt_addr);
        NEED_OK(rknn_run(context, NULL));
        memcpy(all + (size_t)i * out.size, output->virt_addr, out.size);
    }
    EXPECT_CMP(memcmp(all, all + out.size, out.size), !=, 0);
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "", rknnd_run_samples(context, 2)); // no room
    EXPECT_OK(rknn_destroy_mem(context, input));
    EXPECT_OK(rknn_destroy_mem(context, output));
    return all;
}

// The server has no file of a program on another machine.
static bool has_copies(void)
{
    const char *server = getenv("RKNND_SERVER");
    return server && (strncmp(server, "tcp:", 4) == 0 || strncmp(server, "tls:", 4) == 0);
}

static void check_together(const uint8_t *wanted)
{
    rknn_tensor_mem *input = rknn_create_mem(context, N * in.size_with_stride);
    rknn_tensor_mem *output = rknn_create_mem(context, N * out.size);
    bind(input, &in);
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "", rknnd_run_samples(context, N)); // not yet
    bind(output, &out);
    for (uint32_t i = 0; i < N; i++)
        fill(i, (uint8_t *)input->virt_addr + (size_t)i * in.size_with_stride);
    if (has_copies()) {
        EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "is not in memory that the server has, too",
                       rknnd_run_samples(context, N));
    } else {
        EXPECT_OK(rknnd_run_samples(context, N));
        EXPECT_MEMORY(output->virt_addr, wanted, (size_t)N * out.size);
        memset(output->virt_addr, 0, (size_t)N * out.size);
        EXPECT_OK(rknnd_run_samples(context, 2)); // fewer than there is room for
        EXPECT_MEMORY(output->virt_addr, wanted, 2 * (size_t)out.size);
        EXPECT_CMP(((uint8_t *)output->virt_addr)[2 * out.size], ==, 0);
        EXPECT_OK(rknnd_run_samples(context, 1));
        EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "samples take", rknnd_run_samples(context, N + 1));
    }
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "1 to 1024", rknnd_run_samples(context, 0));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "1 to 1024", rknnd_run_samples(context, 1025));
    EXPECT_OK(rknn_run(context, NULL)); // the first one, as ever
    EXPECT_MEMORY(output->virt_addr, wanted, out.size);
    EXPECT_OK(rknn_destroy_mem(context, input));
    EXPECT_OK(rknn_destroy_mem(context, output));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    context = conformance_open("conv.rknn", 0);
    NEED_OK(rknn_query(context, RKNN_QUERY_NATIVE_INPUT_ATTR, &in, sizeof in));
    NEED_OK(rknn_query(context, RKNN_QUERY_OUTPUT_ATTR, &out, sizeof out));
    in.pass_through = 1;
    uint8_t *wanted = run_alone();
    check_together(wanted);
    free(wanted);
    EXPECT_OK(rknn_destroy(context));
    return conformance_finish();
}
