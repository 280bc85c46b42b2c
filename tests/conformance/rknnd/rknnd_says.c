// What rknnd says beyond the RKNN API.
#include "../conformance.h"
#include "rknnd.h"

const char *conformance_words(void)
{
    return rknnd_last_error();
}

uint32_t conformance_cores(rknn_context c)
{
    rknnd_run_info info = {.struct_size = sizeof info};
    NEED_OK(rknnd_get_run_info(c, &info));
    return info.core_mask;
}
