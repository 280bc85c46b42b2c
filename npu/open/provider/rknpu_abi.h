// The interface of the maker's kernel driver, "rknpu", versions 0.8.0 to 0.9.8: a node of DRM
// (requests from 0x40 on), or the device /dev/rknpu (type 'r'), with the same structures. A
// request's number holds its structure's size. Facts: docs/open-runtime.md, "The kernel's side".
#pragma once

#include <stdint.h>

#define RKNPU_NAME      "rknpu"
#define RKNPU_MISC_NODE "/dev/rknpu"
#define RKNPU_MISC_TYPE 'r'
#define RKNPU_DRM_TYPE  'd'
#define RKNPU_DRM_FIRST 0x40

// Versions are major * 10000 + minor * 100 + patch.
#define RKNPU_VERSION(major, minor, patch) ((major)*10000u + (minor)*100u + (patch))

enum rknpu_request {
    RKNPU_ACTION,
    RKNPU_SUBMIT,
    RKNPU_MEM_CREATE,
    RKNPU_MEM_MAP,
    RKNPU_MEM_DESTROY,
    RKNPU_MEM_SYNC,
};

enum rknpu_action_flags {
    RKNPU_GET_HW_VERSION = 0,
    RKNPU_GET_DRV_VERSION = 1,
    RKNPU_GET_IOMMU_EN = 18,
    RKNPU_GET_TOTAL_SRAM_SIZE = 22,
    RKNPU_GET_FREE_SRAM_SIZE = 23,
    RKNPU_GET_IOMMU_DOMAIN_ID = 24, // from 0.9.6 on
};

enum rknpu_memory_flags {
    RKNPU_NON_CONTIGUOUS = 0x1,
    RKNPU_CACHEABLE = 0x2,
    RKNPU_KERNEL_MAPPING = 0x8, // needed of task records: the driver reads them
    RKNPU_IOMMU = 0x10,
    RKNPU_ZEROING = 0x20,
    RKNPU_DMA32_BIT = 0x80, // older drivers: not below 4 GB; newer ones: below 4 GB
    RKNPU_SRAM = 0x100,
};

enum rknpu_sync_flags { RKNPU_SYNC_TO_DEVICE = 1, RKNPU_SYNC_FROM_DEVICE = 2 };

enum rknpu_job_flags { RKNPU_JOB_PC = 1, RKNPU_JOB_PING_PONG = 4 };

struct rknpu_action {
    uint32_t flags, value;
};

// 48 bytes from 0.9.6 on; before, the first 40.
struct rknpu_mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
};
#define RKNPU_MEM_CREATE_OLD 40u

struct rknpu_mem_map {
    uint32_t handle, reserved;
    uint64_t offset;
};

struct rknpu_mem_destroy {
    uint32_t handle, reserved;
    uint64_t obj_addr;
};

struct rknpu_mem_sync {
    uint32_t flags, reserved;
    uint64_t obj_addr, offset, size;
};

#define RKNPU_SUBCORES 5

struct rknpu_submit {
    uint32_t flags, timeout; // ms, of which the driver waits three
    uint32_t task_start, task_number;
    uint32_t task_counter; // out
    int32_t priority;
    uint64_t task_obj_addr;
    uint32_t iommu_domain_id, reserved; // before 0.9.6: regcfg_obj_addr, 0
    uint64_t task_base_addr;
    int64_t hw_elapse_time; // out, ns; before 0.9.6: user_data
    uint32_t core_mask;
    int32_t fence_fd;
    struct {
        uint32_t start, number;
    } subcore[RKNPU_SUBCORES]; // of one or two cores: [core]; of three: [core + 2]
};

_Static_assert(sizeof(struct rknpu_action) == 8 && sizeof(struct rknpu_mem_create) == 48 &&
                   sizeof(struct rknpu_mem_map) == 16 && sizeof(struct rknpu_mem_destroy) == 16 &&
                   sizeof(struct rknpu_mem_sync) == 32 && sizeof(struct rknpu_submit) == 104,
               "as the driver has them");
