// Cores from text.
#include "tools/ui/core_mask.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rknn_api.h"

#define MAX_CORES 16

// "0x3": a mask of cores, at most RKNN_NPU_CORE_ALL.
static bool parse_hex_mask(const char *text, uint32_t *ret)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0 || !isxdigit((unsigned char)text[2]))
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 16);
    if (*end || errno || n == 0 || n > RKNN_NPU_CORE_ALL)
        return false;
    *ret = (uint32_t)n;
    return true;
}

// "0,1" or "0_1", as the API's names have it.
static bool parse_core_list(const char *text, uint32_t *ret)
{
    uint32_t mask = 0;
    for (const char *p = text;; p++) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return false;
        unsigned long core = strtoul(p, &end, 10);
        if (core >= MAX_CORES)
            return false;
        mask |= 1u << core;
        if (!*end)
            break;
        if (*end != ',' && *end != '_')
            return false;
        p = end;
    }
    *ret = mask;
    return true;
}

// Names first, then masks, then lists: "0" is core 0, "0x1" a mask.
int core_mask_option(void *mask, const char *text, struct error *e)
{
    uint32_t *ret = mask;
    if (strcmp(text, "auto") == 0)
        *ret = RKNN_NPU_CORE_AUTO;
    else if (strcmp(text, "all") == 0)
        *ret = RKNN_NPU_CORE_ALL;
    else if (!parse_hex_mask(text, ret) && !parse_core_list(text, ret))
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not auto, all, core numbers (0 or 0,1 or 0_1_2) "
                         "or a mask (0x3)",
                         text);
    return 0;
}
