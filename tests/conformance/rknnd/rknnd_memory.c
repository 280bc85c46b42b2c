// What a program writes into an rknn_tensor_mem: a place that the memory does not have is refused,
// never passed over.
#include "../conformance.h"
#include "rknn_matmul_api.h"

#define SIZE (1u << 16)

// Each function that takes memory, with one whose struct says something else than it was made with.
static void expect_refused(rknn_context c, rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "rknn_create_mem_from_fd()",
                   rknn_set_io_mem(c, mem, attr));
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "rknn_create_mem_from_fd()",
                   rknn_mem_sync(c, mem, RKNN_MEMORY_SYNC_TO_DEVICE));
}

static void expect_refused_matmul(void)
{
    rknn_matmul_info info = {.M = 1, .K = 64, .N = 64, .type = RKNN_INT8_MM_INT8_TO_INT32};
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    rknn_tensor_mem *b = rknn_create_mem(c, io.B.size);
    NEED(b);
    b->size += 64;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "rknn_create_mem_from_fd()",
                   rknn_matmul_set_io_mem(c, b, &io.B));
    EXPECT_OK(rknn_destroy_mem(c, b)); // whatever stands there
    EXPECT_OK(rknn_matmul_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    rknn_context c = conformance_open("conv.rknn", 0);
    rknn_tensor_mem *all = rknn_create_mem(c, SIZE);
    rknn_tensor_attr attr = {.index = 0};
    NEED(all);
    NEED_OK(rknn_query(c, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr));
    rknn_tensor_mem *part = rknn_create_mem_from_fd(c, all->fd, all->virt_addr, SIZE / 2, SIZE / 2);
    NEED(part);
    EXPECT_OK(rknn_set_io_mem(c, part, &attr));
    const int32_t wrong[] = {0, SIZE / 2 - 1, SIZE / 2 + 1, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        part->offset = wrong[i];
        expect_refused(c, part, &attr);
    }
    part->offset = SIZE / 2;
    EXPECT_OK(rknn_set_io_mem(c, part, &attr));
    all->size = SIZE + 1;
    expect_refused(c, all, &attr);
    all->size = attr.size_with_stride; // less than there is
    EXPECT_OK(rknn_set_io_mem(c, all, &attr));
    expect_refused_matmul();
    EXPECT_OK(rknn_destroy_mem(c, part));
    EXPECT_OK(rknn_destroy_mem(c, all));
    EXPECT_OK(rknn_destroy(c));
    return conformance_finish();
}
