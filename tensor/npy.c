// Arrays in numpy's .npy files.
#include "tensor/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "tensor/convert.h"

#define MAGIC_SIZE 6
#define ALIGNMENT  64 // of the data in files that are written

static const struct {
    enum tensor_type type;
    const char *name; // in files, without the byte order
    size_t size;
    const char *word; // numpy.dtype's own
} types[] = {
    {TENSOR_FLOAT32, "f4", 4, "float32"}, {TENSOR_FLOAT16, "f2", 2, "float16"},
    {TENSOR_INT8, "i1", 1, "int8"},       {TENSOR_UINT8, "u1", 1, "uint8"},
    {TENSOR_INT16, "i2", 2, "int16"},     {TENSOR_UINT16, "u2", 2, "uint16"},
    {TENSOR_INT32, "i4", 4, "int32"},     {TENSOR_UINT32, "u4", 4, "uint32"},
    {TENSOR_INT64, "i8", 8, "int64"},     {TENSOR_BOOL, "b1", 1, "bool"},
};

#define N_TYPES (sizeof types / sizeof *types)

// The header is the text of a Python dict with the keys descr, fortran_order and shape.
struct reader {
    const char *p, *end;
};

static void skip_spaces(struct reader *r)
{
    while (r->p < r->end && isspace((unsigned char)*r->p))
        r->p++;
}

static bool accept_char(struct reader *r, char c)
{
    skip_spaces(r);
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

static bool accept_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_spaces(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static bool read_string(struct reader *r, char *ret, size_t size)
{
    size_t n = 0;
    skip_spaces(r);
    char quote = r->p < r->end ? *r->p : 0;
    if (quote != '\'' && quote != '"')
        return false;
    for (r->p++; r->p < r->end && *r->p != quote; r->p++) {
        if (n + 1 == size)
            return false;
        ret[n++] = *r->p;
    }
    ret[n] = 0;
    return accept_char(r, quote);
}

static bool read_dim(struct reader *r, uint64_t *ret)
{
    uint64_t n = 0;
    skip_spaces(r);
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
    if (!accept_char(r, '('))
        return false;
    while (!accept_char(r, ')')) {
        if (a->n_dims == NPY_MAX_DIMS || !read_dim(r, &a->shape[a->n_dims++]))
            return false;
        if (!accept_char(r, ',')) {
            if (!accept_char(r, ')'))
                return false;
            break;
        }
    }
    return true;
}

// NumPy has more of them, which nothing here computes with: complex numbers, strings, objects. The
// words name what to convert to.
static int refuse_type(const char *descr, struct error *e)
{
    return error_set(e, STATUS_FAIL,
                     "elements of type \"%s\"; known are float64, float32, float16, int8, uint8, "
                     "int16, uint16, int32, uint32, int64, uint64 and bool (numpy: .astype)",
                     descr);
}

static int read_type(const char *descr, struct npy *a, struct error *e)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (!*descr || !strchr("<>|=", *descr) || strcmp(descr + 1, types[i].name) != 0)
            continue;
        a->swapped = *descr == '>' && types[i].size > 1;
        a->type = types[i].type;
        return 0;
    }
    if (*descr && strchr("<>=", *descr) &&
        (strcmp(descr + 1, "f8") == 0 || strcmp(descr + 1, "u8") == 0)) {
        a->swapped = *descr == '>';
        a->wide = descr[1] == 'f' ? NPY_FLOAT64 : NPY_UINT64;
        a->type = descr[1] == 'f' ? TENSOR_FLOAT32 : TENSOR_INT64;
        return 0;
    }
    return refuse_type(descr, e);
}

static int bad_header(struct error *e)
{
    return error_set(e, STATUS_FAIL, "the .npy header is damaged");
}

static int read_header(struct reader *r, struct npy *a, struct error *e)
{
    char key[32], descr[32] = "";
    bool has_shape = false, has_order = false, fortran = false;
    if (!accept_char(r, '{'))
        return bad_header(e);
    while (!accept_char(r, '}')) {
        if (!read_string(r, key, sizeof key) || !accept_char(r, ':'))
            return bad_header(e);
        bool ok = false;
        if (strcmp(key, "descr") == 0)
            ok = read_string(r, descr, sizeof descr);
        else if (strcmp(key, "fortran_order") == 0)
            ok = has_order = (fortran = accept_word(r, "True")) || accept_word(r, "False");
        else if (strcmp(key, "shape") == 0 && !has_shape)
            ok = has_shape = read_shape(r, a);
        if (!ok)
            return bad_header(e);
        accept_char(r, ',');
    }
    if (!has_shape || !has_order || !*descr)
        return bad_header(e);
    a->columns = fortran;
    return read_type(descr, a, e);
}

// Finds header text and data.
static int split_file(struct bytes file, struct reader *ret, struct bytes *ret_data,
                      struct error *e)
{
    if (file.size < MAGIC_SIZE + 4 || !bytes_start_with(file, NPY_MAGIC))
        return error_set(e, STATUS_FAIL, "not a .npy file");
    unsigned version = file.data[MAGIC_SIZE];
    if (version < 1 || version > 3)
        return error_set(e, STATUS_FAIL, ".npy format version %u; 1 to 3 are known", version);
    size_t start = MAGIC_SIZE + 2 + (version == 1 ? 2 : 4);
    if (file.size < start)
        return bad_header(e);
    const uint8_t *length = file.data + MAGIC_SIZE + 2;
    struct bytes text;
    if (!bytes_slice(file, start, version == 1 ? read_le16(length) : read_le32(length), &text))
        return bad_header(e);
    start += text.size;
    *ret = (struct reader){(const char *)text.data, (const char *)text.data + text.size};
    *ret_data = (struct bytes){file.data + start, file.size - start};
    return 0;
}

int npy_parse_any(struct bytes file, struct npy *ret, struct error *e)
{
    struct npy a = {0};
    struct reader reader;
    int r = split_file(file, &reader, &a.data, e);
    if (r == 0)
        r = read_header(&reader, &a, e);
    if (r < 0)
        return r;
    uint64_t size = a.wide ? sizeof(double) : npy_type_size(a.type);
    for (size_t i = 0; i < a.n_dims; i++)
        if (__builtin_mul_overflow(size, a.shape[i], &size))
            return bad_header(e);
    if (size != a.data.size)
        return error_set(e, STATUS_FAIL, "%zu bytes of data where its header says %" PRIu64,
                         a.data.size, size);
    *ret = a;
    return 0;
}

int npy_parse(struct bytes file, struct npy *ret, struct error *e)
{
    struct npy a;
    int r = npy_parse_any(file, &a, e);
    if (r == 0 && a.columns)
        return error_set(e, STATUS_FAIL,
                         "column-major order; save it as numpy.ascontiguousarray()");
    if (r == 0 && a.swapped)
        return error_set(e, STATUS_FAIL, "big-endian data; save it little-endian");
    if (r == 0 && a.wide)
        return refuse_type(a.wide == NPY_FLOAT64 ? "<f8" : "<u8", e);
    if (r == 0)
        *ret = a;
    return r;
}

static void copy_element(uint8_t *dst, const uint8_t *src, size_t size, bool swapped)
{
    uint8_t own[sizeof(double)];
    for (size_t i = 0; i < size; i++)
        own[i] = src[swapped ? size - 1 - i : i];
    memcpy(dst, own, size);
}

// The last index runs fastest in a tensor, the first one in such a file.
static void copy_columns(const struct npy *a, uint8_t *dst, size_t size)
{
    uint64_t at[NPY_MAX_DIMS] = {0}, stride[NPY_MAX_DIMS], step = size;
    const uint8_t *src = a->data.data;
    for (size_t i = 0; i < a->n_dims; step *= a->shape[i++])
        stride[i] = step;
    for (size_t done = 0; done < a->data.size; done += size) {
        copy_element(dst + done, src, size, a->swapped);
        for (size_t i = a->n_dims; i-- > 0;) {
            src += stride[i];
            if (++at[i] < a->shape[i])
                break;
            src -= stride[i] * a->shape[i];
            at[i] = 0;
        }
    }
}

// In place: what is written is no longer than what was read.
static int narrow(const struct npy *a, uint8_t *data, size_t *ret_size, struct error *e)
{
    size_t n = a->data.size / sizeof(double);
    for (size_t i = 0; i < n; i++) {
        double v;
        uint64_t bits = read_le64(data + i * sizeof bits);
        memcpy(&v, &bits, sizeof v);
        if (a->wide == NPY_UINT64 && bits > INT64_MAX)
            return error_set(e, STATUS_FAIL,
                             "element %zu is %llu; uint64 is taken as int64, which ends at 2^63", i,
                             (unsigned long long)bits);
        if (a->wide == NPY_FLOAT64 && !convert_fits_float(v))
            return error_set(e, STATUS_FAIL,
                             "element %zu is %.17g, which no float32 equals or comes near; float64 "
                             "is taken as float32",
                             i, v);
        if (a->wide == NPY_FLOAT64)
            write_le32(data + i * sizeof(float), float_bits((float)v));
    }
    *ret_size = n * (a->wide == NPY_FLOAT64 ? sizeof(float) : sizeof(int64_t));
    return 0;
}

int npy_take(const struct npy *a, void *dst, size_t *ret_size, struct error *e)
{
    size_t size = a->wide ? sizeof(double) : npy_type_size(a->type);
    *ret_size = a->data.size;
    if (a->columns)
        copy_columns(a, dst, size);
    for (size_t at = 0; !a->columns && a->swapped && at < a->data.size; at += size)
        copy_element((uint8_t *)dst + at, a->data.data + at, size, true);
    if (!a->columns && !a->swapped && a->data.size)
        memmove(dst, a->data.data, a->data.size);
    return a->wide ? narrow(a, dst, ret_size, e) : 0;
}

size_t npy_type_size(enum tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].size;
    return 0;
}

bool npy_type_named(const char *word, enum tensor_type *ret)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].word, word) == 0) {
            *ret = types[i].type;
            return true;
        }
    return false;
}

static const char *type_name(enum tensor_type type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].name;
    return NULL;
}

size_t npy_header(char ret[static NPY_HEADER_SIZE], enum tensor_type type, const uint32_t *dims,
                  uint32_t n_dims)
{
    const size_t start = MAGIC_SIZE + 4;
    char *text = ret + start;
    size_t room = NPY_HEADER_SIZE - start;
    size_t n = (size_t)snprintf(text, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                                npy_type_size(type) == 1 ? '|' : '<', type_name(type));
    for (uint32_t i = 0; i < n_dims; i++)
        n += (size_t)snprintf(text + n, room - n, "%u,%s", dims[i], i + 1 < n_dims ? " " : "");
    n += (size_t)snprintf(text + n, room - n, "), }");
    size_t end = (size_t)align_up(start + n + 1, ALIGNMENT);
    memset(text + n, ' ', end - start - n);
    ret[end - 1] = '\n';
    memcpy(ret, NPY_MAGIC "\x01\x00", MAGIC_SIZE + 2);
    write_le16(ret + MAGIC_SIZE + 2, (uint16_t)(end - start));
    return end;
}
