// The interface of mainline's driver for RK3588, "rocket" (from Linux 6.18 on), on nodes of accel.
// Facts: docs/open-runtime.md, "The kernel's side".
#pragma once

#include <stdint.h>

#define ROCKET_NAME  "rocket"
#define ROCKET_FIRST 0x40 // of DRM's requests

enum rocket_request { ROCKET_CREATE_BO, ROCKET_SUBMIT, ROCKET_PREP_BO, ROCKET_FINI_BO };

struct rocket_create_bo {
    uint32_t size;
    uint32_t handle;              // out
    uint64_t dma_address, offset; // out; offset: of mmap
};

struct rocket_task {
    uint32_t regcmd;       // address
    uint32_t regcmd_count; // words, with the trailer
};

struct rocket_job {
    uint64_t tasks, in_bo_handles, out_bo_handles; // pointers
    uint32_t task_count, task_struct_size, in_bo_handle_count, out_bo_handle_count;
};

struct rocket_submit {
    uint64_t jobs; // pointer
    uint32_t job_count, job_struct_size;
    uint64_t reserved;
};

struct rocket_prep_bo {
    uint32_t handle, reserved;
    int64_t timeout_ns; // CLOCK_MONOTONIC's time, not from now on
};

struct rocket_fini_bo {
    uint32_t handle, reserved;
};

_Static_assert(sizeof(struct rocket_create_bo) == 24 && sizeof(struct rocket_task) == 8 &&
                   sizeof(struct rocket_job) == 40 && sizeof(struct rocket_submit) == 24 &&
                   sizeof(struct rocket_prep_bo) == 16 && sizeof(struct rocket_fini_bo) == 8,
               "as the driver has them");
