#include "tests/unit/npu/open/standin_npu.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct standin_npu standin;

int standin_npu_wrong(const char *format, ...)
{
    va_list a;
    va_start(a, format);
    fputs("stand-in: ", stderr);
    vfprintf(stderr, format, a);
    fputc('\n', stderr);
    va_end(a);
    ++*standin.wrong;
    return -EINVAL;
}

void standin_npu_begin(const struct device_calls *calls, uint64_t first_address, long *wrong)
{
    struct error e = {0};
    standin =
        (struct standin_npu){.next_address = first_address, .before = device_calls, .wrong = wrong};
    if (emu_npu_new("rk3588", &standin.memory, &standin.npu, &e) < 0)
        standin_npu_wrong("%s", e.text);
    device_calls = calls;
}

void standin_npu_end(void)
{
    device_calls = standin.before;
    emu_npu_free(standin.npu);
    emu_memory_done(&standin.memory);
}

uint64_t standin_npu_place(uint64_t size)
{
    uint64_t at = standin.next_address;
    standin.next_address += (size + 0x1fff) & ~0xfffull;
    return at;
}
