// Files that a runtime dumps: whatever the bytes, a tensor that is all there, or words.
#include <stdlib.h>

#include "npu/rknnrt/dump/dump_npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor_attr a;
    struct bytes numbers;
    struct error e = {0};
    int r = dump_npy_parse((struct bytes){data, size}, &a, &numbers, &e);
    if (r < 0) {
        check(r == e.code && e.text[0]);
        return 0;
    }
    check(a.size == numbers.size && numbers.data + numbers.size == data + size);
    memcpy(a.name, "x", 2);
    check(tensor_attr_check(&a, "it", &e) == 0);
    return 0;
}
