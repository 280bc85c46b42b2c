// Arrays in numpy's .npy files.
#include "tools/format/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cleanup.h"
#include "tools/format/output_file.h"

#define MAGIC      "\x93NUMPY"
#define MAGIC_SIZE 6
#define ALIGN      64 // of the data in files that are written

static const struct {
    rknn_tensor_type type;
    const char *name; // in files, without the byte order
    size_t size;
    const char *word; // numpy.dtype's own
} types[] = {
    {RKNN_TENSOR_FLOAT32, "f4", 4, "float32"}, {RKNN_TENSOR_FLOAT16, "f2", 2, "float16"},
    {RKNN_TENSOR_INT8, "i1", 1, "int8"},       {RKNN_TENSOR_UINT8, "u1", 1, "uint8"},
    {RKNN_TENSOR_INT16, "i2", 2, "int16"},     {RKNN_TENSOR_UINT16, "u2", 2, "uint16"},
    {RKNN_TENSOR_INT32, "i4", 4, "int32"},     {RKNN_TENSOR_UINT32, "u4", 4, "uint32"},
    {RKNN_TENSOR_INT64, "i8", 8, "int64"},     {RKNN_TENSOR_BOOL, "b1", 1, "bool"},
};

#define N_TYPES (sizeof types / sizeof *types)

// The header is the text of a Python dict with the keys descr, fortran_order and shape.
struct reader {
    const char *p, *end;
};

static void skip_space(struct reader *r)
{
    while (r->p < r->end && isspace((unsigned char)*r->p))
        r->p++;
}

static bool accept(struct reader *r, char c)
{
    skip_space(r);
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static bool accept_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_space(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static bool read_string(struct reader *r, char *ret, size_t size)
{
    size_t n = 0;
    skip_space(r);
    char quote = r->p < r->end ? *r->p : 0;
    if (quote != '\'' && quote != '"')
        return false;
    for (r->p++; r->p < r->end && *r->p != quote; r->p++) {
        if (n + 1 == size)
            return false;
        ret[n++] = *r->p;
    }
    ret[n] = 0;
    return accept(r, quote);
}

static bool read_dim(struct reader *r, uint64_t *ret)
{
    uint64_t n = 0;
    skip_space(r);
    if (r->p == r->end || !isdigit((unsigned char)*r->p))
        return false;
    for (; r->p < r->end && isdigit((unsigned char)*r->p); r->p++)
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*r->p - '0'), &n))
            return false;
    *ret = n;
    return true;
}

static bool read_shape(struct reader *r, struct npy *a)
{
    if (!accept(r, '('))
        return false;
    while (!accept(r, ')')) {
        if (a->n_dims == NPY_MAX_DIMS || !read_dim(r, &a->shape[a->n_dims++]))
            return false;
        if (!accept(r, ',')) {
            if (!accept(r, ')'))
                return false;
            break;
        }
    }
    return true;
}

static int read_type(const char *descr, struct npy *a, struct failure *f)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (!*descr || !strchr("<>|=", *descr) || strcmp(descr + 1, types[i].name) != 0)
            continue;
        if (*descr == '>' && types[i].size > 1)
            return failure_set(f, EXIT_INPUT, "big-endian data (\"%s\"); save it little-endian",
                               descr);
        a->type = types[i].type;
        return 0;
    }
    return failure_set(f, EXIT_INPUT,
                       "elements of type \"%s\"; an input can be float32, float16, int8, uint8, "
                       "int16, uint16, int32, uint32, int64 or bool (numpy: .astype)",
                       descr);
}

static int bad_header(struct failure *f)
{
    return failure_set(f, EXIT_INPUT, "the .npy header is damaged");
}

static int read_header(struct reader *r, struct npy *a, struct failure *f)
{
    char key[32], descr[32] = "";
    bool has_shape = false, fortran = false;
    if (!accept(r, '{'))
        return bad_header(f);
    while (!accept(r, '}')) {
        if (!read_string(r, key, sizeof key) || !accept(r, ':'))
            return bad_header(f);
        bool ok = false;
        if (strcmp(key, "descr") == 0)
            ok = read_string(r, descr, sizeof descr);
        else if (strcmp(key, "fortran_order") == 0)
            ok = (fortran = accept_word(r, "True")) || accept_word(r, "False");
        else if (strcmp(key, "shape") == 0 && !has_shape)
            ok = has_shape = read_shape(r, a);
        if (!ok)
            return bad_header(f);
        accept(r, ',');
    }
    if (!has_shape || !*descr)
        return bad_header(f);
    if (fortran)
        return failure_set(f, EXIT_INPUT,
                           "column-major order; save it as numpy.ascontiguousarray()");
    return read_type(descr, a, f);
}

// Finds header text and data.
static int split(const uint8_t *bytes, size_t size, struct reader *ret, size_t *ret_data,
                 struct failure *f)
{
    if (size < MAGIC_SIZE + 4 || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
        return failure_set(f, EXIT_INPUT, "not a .npy file");
    unsigned version = bytes[MAGIC_SIZE];
    if (version < 1 || version > 3)
        return failure_set(f, EXIT_INPUT, ".npy format version %u; 1 to 3 are known", version);
    size_t width = version == 1 ? 2 : 4, start = MAGIC_SIZE + 2 + width, length = 0;
    if (size < start)
        return bad_header(f);
    for (size_t i = width; i-- > 0;)
        length = length << 8 | bytes[MAGIC_SIZE + 2 + i];
    if (length > size - start)
        return bad_header(f);
    *ret = (struct reader){(const char *)bytes + start, (const char *)bytes + start + length};
    *ret_data = start + length;
    return 0;
}

int npy_parse(const void *bytes, size_t size, struct npy *ret, struct failure *f)
{
    struct npy a = {0};
    struct reader reader;
    size_t data;
    int r = split(bytes, size, &reader, &data, f);
    if (r == 0)
        r = read_header(&reader, &a, f);
    if (r)
        return r;
    a.size = npy_type_size(a.type);
    for (size_t i = 0; i < a.n_dims; i++)
        if (__builtin_mul_overflow(a.size, a.shape[i], &a.size))
            return bad_header(f);
    if (a.size != size - data)
        return failure_set(f, EXIT_INPUT, "%zu bytes of data where its header says %zu",
                           size - data, a.size);
    a.data = malloc(a.size ? a.size : 1);
    if (!a.data)
        return failure_no_memory(f);
    memcpy(a.data, (const char *)bytes + data, a.size);
    *ret = a;
    return 0;
}

int npy_read(const char *path, struct npy *ret, struct failure *f)
{
    struct stat status;
    cleanup(fclose_p) FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &status) < 0)
        return failure_set(f, EXIT_INPUT, "%s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return failure_set(f, EXIT_INPUT, "not an ordinary file");
    size_t size = (size_t)status.st_size;
    cleanup(free_p) void *bytes = malloc(size ? size : 1);
    if (!bytes)
        return failure_no_memory(f);
    if (fread(bytes, 1, size, file) != size)
        return failure_set(f, EXIT_INPUT, "%s", ferror(file) ? strerror(errno) : "it shrank");
    return npy_parse(bytes, size, ret, f);
}

void npy_done(struct npy *a)
{
    free(a->data);
    *a = (struct npy){0};
}

size_t npy_type_size(rknn_tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].size;
    return 0;
}

bool npy_type_named(const char *word, rknn_tensor_type *ret)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].word, word) == 0) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

const char *npy_type_word(rknn_tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].word;
    return NULL;
}

static const char *type_name(rknn_tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].name;
    return NULL;
}

// Version 1, padded with spaces so that the data begins at a multiple of ALIGN, as numpy does.
static void write_header(FILE *file, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims)
{
    char text[1024];
    size_t n =
        (size_t)snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                         npy_type_size(type) == 1 ? '|' : '<', type_name(type));
    for (uint32_t i = 0; i < n_dims; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%s", dims[i],
                              i + 1 < n_dims ? " " : "");
    n += (size_t)snprintf(text + n, sizeof text - n, "), }");
    size_t start = MAGIC_SIZE + 4, end = (start + n + ALIGN) / ALIGN * ALIGN, length = end - start;
    fwrite(MAGIC "\x01\x00", 1, MAGIC_SIZE + 2, file);
    fputc((int)(length & 0xff), file);
    fputc((int)(length >> 8), file);
    fprintf(file, "%-*s\n", (int)length - 1, text);
}

static void write_file(FILE *file, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims,
                       const void *data)
{
    size_t size = npy_type_size(type);
    for (uint32_t i = 0; i < n_dims; i++)
        size *= dims[i];
    write_header(file, type, dims, n_dims);
    fwrite(data, 1, size, file);
}

int npy_write(const char *path, rknn_tensor_type type, const uint32_t *dims, uint32_t n_dims,
              const void *data, struct failure *f)
{
    struct output_file file;
    if (!type_name(type) || n_dims > RKNN_MAX_DIMS)
        return failure_set(f, EXIT_RUNTIME, "%s: numpy has no type for %s", path,
                           get_type_string(type));
    int r = output_file_open(&file, path, f);
    if (r)
        return r;
    write_file(file.stream, type, dims, n_dims, data);
    return output_file_close(&file, f);
}
