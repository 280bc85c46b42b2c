// npy_copy FROM TO: reads one .npy file and writes it again, for test_npy.py.
#include <stdio.h>

#include "tools/format/npy.h"

int main(int argc, char **argv)
{
    struct npy a;
    struct failure f = {0};
    if (argc != 3)
        return EXIT_USAGE;
    int r = npy_read(argv[1], &a, &f);
    if (r == 0) {
        uint32_t dims[NPY_MAX_DIMS];
        for (size_t i = 0; i < a.n_dims; i++)
            dims[i] = (uint32_t)a.shape[i];
        r = npy_write(argv[2], a.type, dims, (uint32_t)a.n_dims, a.data, &f);
        npy_done(&a);
    }
    if (r)
        fprintf(stderr, "%s\n", f.text);
    return r;
}
