// .npy files: whatever the bytes, an array that agrees with its own header, or words.
#include <stdlib.h>

#include "tensor/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy a;
    struct error e = {0};
    struct npy again;
    int r = npy_parse_any((struct bytes){data, size}, &a, &e);
    check(npy_parse((struct bytes){data, size}, &again, NULL) ==
          (r == 0 && (a.wide || a.swapped || a.columns) ? STATUS_FAIL : r));
    if (r < 0) {
        check(r == e.code && e.text[0]);
        return 0;
    }
    size_t bytes = a.wide ? 8 : npy_type_size(a.type), narrowed;
    for (size_t i = 0; i < a.n_dims; i++)
        bytes *= a.shape[i];
    check(a.n_dims <= NPY_MAX_DIMS && bytes == a.data.size && a.data.size < size);
    check(a.data.data + a.data.size == data + size);
    void *numbers = malloc(bytes + 1);
    if (numbers && npy_take(&a, numbers, &narrowed, &e) == 0)
        check(narrowed == (a.wide ? bytes / 8 * npy_type_size(a.type) : bytes));
    free(numbers);
    return 0;
}
