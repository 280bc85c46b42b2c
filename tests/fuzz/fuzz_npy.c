// .npy files: whatever the bytes, an array that agrees with its own header, or words.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/format/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy a;
    struct failure f = {0};
    int r = npy_parse(data, size, &a, &f);
    if (r) {
        check(r == f.code && f.text[0]);
        return 0;
    }
    size_t bytes = npy_type_size(a.type);
    for (size_t i = 0; i < a.n_dims; i++)
        bytes *= a.shape[i];
    check(a.n_dims <= NPY_MAX_DIMS && bytes == a.size && a.size < size);
    check(memcmp(a.data, data + size - a.size, a.size) == 0);
    npy_done(&a);
    return 0;
}
