// Arrays in numpy's .npy files (format versions 1 to 3), row-major and little-endian.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rknn_api.h"
#include "tools/ui/failure.h"

#define NPY_MAX_DIMS 32

struct npy {
    rknn_tensor_type type;
    size_t n_dims;
    uint64_t shape[NPY_MAX_DIMS];
    void *data; // malloc'ed, packed
    size_t size;
};

/// Reads a whole array. Refuses what is not an array of a type that the RKNN API has (float64, for
/// one), column-major order, the other byte order, and files with more or fewer bytes than the
/// shape says. npy_done() frees the data. Failures are EXIT_INPUT and do not name the file.
int npy_read(const char *path, struct npy *ret, struct failure *f);
void npy_done(struct npy *a);

/// As npy_read, of a file that is in memory.
int npy_parse(const void *bytes, size_t size, struct npy *ret, struct failure *f);

/// Writes n elements' worth of `data` under a temporary name in the same folder, and renames it:
/// `path` is whole or not there. EXIT_RUNTIME for what numpy has no type for, and for all that can
/// happen to files.
int npy_write(const char *path, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims,
              const void *data, struct failure *f);

/// Bytes of one element of a type that numpy has; else 0 (INT4 and BF16).
size_t npy_type_size(rknn_tensor_type type);

/// The type of numpy's name ("float32"); false: there is none. And back; NULL: numpy has none.
bool npy_type_named(const char *word, rknn_tensor_type *ret);
const char *npy_type_word(rknn_tensor_type type);
