// Memory for zero copy: rknn_create_mem and what belongs to it.
#include "client/later.h"
#include "rknn_api.h"

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr,
                                                       void *virt_addr, uint32_t size)
{
    (void)ctx, (void)phys_addr, (void)virt_addr, (void)size;
    later_status("rknn_create_mem_from_phys");
    return NULL;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void *virt_addr,
                                                     uint32_t size, int32_t offset)
{
    (void)ctx, (void)fd, (void)virt_addr, (void)size, (void)offset;
    later_status("rknn_create_mem_from_fd");
    return NULL;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context ctx, void *mb_blk,
                                                         int32_t offset)
{
    (void)ctx, (void)mb_blk, (void)offset;
    later_status("rknn_create_mem_from_mb_blk");
    return NULL;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem(rknn_context ctx, uint32_t size)
{
    (void)ctx, (void)size;
    later_status("rknn_create_mem");
    return NULL;
}

RKNN_EXPORT rknn_tensor_mem *rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags)
{
    (void)ctx, (void)size, (void)alloc_flags;
    later_status("rknn_create_mem2");
    return NULL;
}

RKNN_EXPORT int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    (void)ctx, (void)mem;
    return later_status("rknn_destroy_mem");
}

// The misspelt name of old headers, which old programs import.
int rknn_destory_mem(rknn_context ctx, rknn_tensor_mem *mem);

RKNN_EXPORT int rknn_destory_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    return rknn_destroy_mem(ctx, mem);
}

RKNN_EXPORT int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    (void)ctx, (void)mem;
    return later_status("rknn_set_weight_mem");
}

RKNN_EXPORT int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem *mem)
{
    (void)ctx, (void)mem;
    return later_status("rknn_set_internal_mem");
}

RKNN_EXPORT int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem *mem, rknn_tensor_attr *attr)
{
    (void)ctx, (void)mem, (void)attr;
    return later_status("rknn_set_io_mem");
}

RKNN_EXPORT int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode)
{
    (void)context, (void)mem, (void)mode;
    return later_status("rknn_mem_sync");
}
