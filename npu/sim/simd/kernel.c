// Which level of vector instructions kernels use: the least of what the CPU has and of what oneDNN
// may use, which is AVX512-VNNI at most.
//
// oneDNN 2.6 writes behind the output of integer convolutions with AMX (jit:avx512_core_amx_int8:
// where the image has a zero point, and padding above or below alone), and behind scratch memory of
// the size that it asks for (brgconv:avx512_core_amx_int8). docs/decisions/0072 has the numbers.
//
// Tests: test_sim_conv; test_sim_*_AVX2, test_sim_*_SSE41 set oneDNN's variable.
#include "npu/sim/simd/kernel.h"

#include <dnnl.h>
#include <stdlib.h>
#include <strings.h>

enum kernel_level kernel_known;

#ifdef __x86_64__
// oneDNN's variable, of whose two names the first counts, says less than AVX512-VNNI. Words that
// oneDNN 2.6 does not know (AVX512_MIC is one) are no limit to it.
static bool kernel_is_limited(void)
{
    static const char *const lower[] = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE"};
    const char *isa = getenv("ONEDNN_MAX_CPU_ISA");
    if (!isa || !*isa)
        isa = getenv("DNNL_MAX_CPU_ISA");
    for (size_t i = 0; isa && i < sizeof lower / sizeof *lower; i++)
        if (strcasecmp(isa, lower[i]) == 0)
            return true;
    return false;
}

// oneDNN takes a limit only before it is first used, so this is done when we are loaded. A CPU
// without AVX512-VNNI has no AMX, but may have AVX-VNNI, which the limit would take away.
__attribute__((constructor)) static void kernel_limit(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vnni") && !kernel_is_limited())
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_vnni);
}
#endif

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
