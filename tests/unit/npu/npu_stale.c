// A backend's module that was built with another npu.h. STALE_VERSION, STALE_SIZE and STALE_JOB
// (how much smaller) say what was different; without any, its table is one from before tables had
// versions.
#include "npu/npu.h"

#ifdef STALE_VERSION
#define SIZE(name)                                                                                 \
    [NPU_STRUCT_##name] =                                                                          \
        sizeof(struct name) - (NPU_STRUCT_##name == NPU_STRUCT_npu_job ? STALE_JOB : 0),

__attribute__((visibility("default"))) const struct npu_backend npu_backend = {
    .api_version = STALE_VERSION,
    .size = sizeof(struct npu_backend) - STALE_SIZE,
    .struct_sizes = {NPU_STRUCT_LIST(SIZE)},
    .name = "stale",
};
#else
extern const char *const unversioned[];
__attribute__((visibility("default")))
const char *const unversioned[] __asm__(NPU_BACKEND_SYMBOL) = {"stale"};
#endif
