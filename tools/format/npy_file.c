// Writes .npy files (numpy's format 1.0). Written through output_file, so that a file is there
// whole or not at all.
#include "tools/format/npy_file.h"

#include "base/file/output_file.h"

// The stream remembers failed writes; output_file_close() reports them.
int npy_file_write(const char *path, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims,
                   const void *data, struct error *e)
{
    struct output_file file;
    char header[NPY_HEADER_SIZE];
    size_t size = npy_file_type_size(type);
    if (!size || n_dims > RKNN_MAX_DIMS)
        return error_set(e, STATUS_FAIL, "%s: numpy has no type for %s", path,
                         get_type_string(type));
    int r = output_file_open(&file, path, e);
    if (r)
        return r;
    for (uint32_t i = 0; i < n_dims; i++)
        size *= dims[i];
    fwrite(header, 1, npy_header(header, (enum tensor_type)type, dims, n_dims), file.stream);
    fwrite(data, 1, size, file.stream);
    return output_file_close(&file, e);
}
