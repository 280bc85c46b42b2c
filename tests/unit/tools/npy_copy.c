// npy_copy FROM TO: reads one .npy file as inputs are read, and writes it again, for test_npy.py.
#include <stdio.h>
#include <stdlib.h>

#include "tools/format/npy_file.h"
#include "tools/ui/exit_code.h"

static uint8_t file[1 << 20];

int main(int argc, char **argv)
{
    struct npy a;
    struct error e;
    uint32_t dims[NPY_MAX_DIMS];
    FILE *from = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!from)
        return EXIT_USAGE;
    struct bytes all = {file, fread(file, 1, sizeof file, from)};
    fclose(from);
    size_t size;
    int r = npy_parse_any(all, &a, &e);
    void *data = r < 0 ? NULL : malloc(a.data.size + 1);
    if (!data || npy_take(&a, data, &size, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        free(data);
        return EXIT_INPUT;
    }
    for (size_t i = 0; i < a.n_dims; i++)
        dims[i] = (uint32_t)a.shape[i];
    r = npy_file_write(argv[2], (rknn_tensor_type)a.type, dims, (uint32_t)a.n_dims, data, &e);
    free(data);
    if (r)
        fprintf(stderr, "%s\n", e.text);
    return (int)exit_code_of(r);
}
