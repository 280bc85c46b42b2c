// Arrays in numpy's .npy files (format versions 1 to 3).
//
//     "\x93NUMPY"  major  minor  length of the header (16 bits in version 1, else 32)
//     the header: text of a Python dictionary,
//         {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }
//     the elements, packed
#pragma once

#include "base/bytes.h"
#include "tensor/tensor.h"

#define NPY_MAGIC       "\x93NUMPY"
#define NPY_MAX_DIMS    32
#define NPY_HEADER_SIZE 1024 // of any header that is written

// Types of numpy that tensors do not have; data of them is narrowed (npy_take).
enum npy_wide { NPY_NOT_WIDE, NPY_FLOAT64, NPY_UINT64 };

struct npy {
    enum tensor_type type; // float32 and int64 where the file's is wide
    enum npy_wide wide;
    bool swapped; // elements are big-endian
    bool columns; // the first index runs fastest (fortran_order)
    size_t n_dims;
    uint64_t shape[NPY_MAX_DIMS];
    struct bytes data; // in the file: packed, and need not be aligned
};

/// A whole file. Refuses what is not an array of a type that tensors have (float64, for one),
/// column-major order, the other byte order, and files with more or fewer bytes than the shape
/// says: STATUS_FAIL.
int npy_parse(struct bytes file, struct npy *ret, struct error *e);

/// As npy_parse(), and takes float64 and uint64, either byte order and either order of indices as
/// well: `data` is still as the file has it.
int npy_parse_any(struct bytes file, struct npy *ret, struct error *e);

/// Elements as tensors have them: row-major, little-endian, float32 of float64 and int64 of uint64.
/// dst has room for a->data.size bytes; *ret_size is what is written. It may overlap `data` from
/// below, unless a->columns. Refuses values that would become others: what no float32 comes near,
/// whole numbers that no float32 equals, integers from 2^63 on.
int npy_take(const struct npy *a, void *dst, size_t *ret_size, struct error *e);

/// Everything in front of the elements, as numpy writes it: version 1, padded with spaces so that
/// the elements begin at a multiple of 64 bytes. The type is one that numpy has. Returns its size.
size_t npy_header(char ret[static NPY_HEADER_SIZE], enum tensor_type type, const uint32_t *dims,
                  uint32_t n_dims);

/// Bytes of one element of a type that numpy has; else 0 (INT4 and BF16).
size_t npy_type_size(enum tensor_type type);

/// The type of numpy's name ("float32"); false: there is none.
bool npy_type_named(const char *word, enum tensor_type *ret);
