// Which level of vector instructions kernels use: the least of what the CPU has and of what oneDNN
// may use.
//
// Tests: test_sim_*_AVX2, test_sim_*_SSE41 set oneDNN's variable.
#include "npu/sim/simd/kernel.h"

#include <dnnl.h>

enum kernel_level kernel_known;

static enum kernel_level kernel_look(void)
{
#ifdef __x86_64__
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    bool v3 = __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (v3 && (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core)
        return KERNEL_V4;
    if (v3 && (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2)
        return KERNEL_V3;
#endif
    return KERNEL_BASE;
}

enum kernel_level kernel_find_level(void)
{
    enum kernel_level level = kernel_look();
    __atomic_store_n(&kernel_known, level, __ATOMIC_RELAXED);
    return level;
}

bool kernel_has_vbmi(void)
{
#ifdef __x86_64__
    return kernel_level() == KERNEL_V4 && __builtin_cpu_supports("avx512vbmi");
#else
    return false;
#endif
}
