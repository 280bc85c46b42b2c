// .npy files: a magic, the header's length, the header (a Python dictionary), the numbers.
#include "npu/rknnrt/dump/dump_npy.h"

#include <stdio.h>
#include <stdlib.h>

#define MAGIC      "\x93NUMPY"
#define MAGIC_SIZE 6
#define MAX_HEADER 4096

static const struct {
    const char *name;
    enum tensor_type type;
} types[] = {{"<f4", TENSOR_FLOAT32}, {"<f2", TENSOR_FLOAT16}, {"|i1", TENSOR_INT8},
             {"|u1", TENSOR_UINT8},   {"<i2", TENSOR_INT16},   {"<u2", TENSOR_UINT16},
             {"<i4", TENSOR_INT32},   {"<u4", TENSOR_UINT32},  {"<i8", TENSOR_INT64},
             {"|b1", TENSOR_BOOL}};

static int no_file(struct error *e, const char *why)
{
    return error_set(e, STATUS_FAIL, "not a .npy file of a known kind: %s", why);
}

// The header's text and what lies behind it.
static int split(struct bytes file, struct bytes *ret_header, struct bytes *ret_data,
                 struct error *e)
{
    unsigned version = file.size > MAGIC_SIZE ? file.data[MAGIC_SIZE] : 0;
    size_t start = version == 1 ? 10 : 12;
    if (file.size < start || memcmp(file.data, MAGIC, MAGIC_SIZE) != 0 || version < 1 ||
        version > 3)
        return no_file(e, "no such magic");
    size_t length = version == 1 ? read_le16(file.data + 8) : read_le32(file.data + 8);
    if (length >= MAX_HEADER || !bytes_slice(file, start, length, ret_header))
        return no_file(e, "its header is cut, or too long");
    return bytes_slice(file, start + length, file.size - start - length, ret_data)
               ? 0
               : no_file(e, "no data");
}

// What stands behind 'key': in the dictionary, without spaces; NULL: it is not there.
static const char *find(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

static int read_type(const char *header, enum tensor_type *ret, struct error *e)
{
    const char *text = find(header, "descr");
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (*text == '\'' && strncmp(text + 1, types[i].name, 3) == 0 && text[4] == '\'') {
            *ret = types[i].type;
            return 0;
        }
    return no_file(e, "the type of its numbers");
}

// "(1, 16, 8, 8)", "(10,)"; a number alone, "()", is a list of one.
static int read_shape(const char *header, struct tensor_attr *a, struct error *e)
{
    const char *p = find(header, "shape");
    uint64_t n = 1;
    if (!p || *p++ != '(')
        return no_file(e, "no shape");
    while (*p >= '0' && *p <= '9') {
        char *end;
        unsigned long long dim = strtoull(p, &end, 10);
        if (a->n_dims == TENSOR_MAX_DIMS || dim > UINT32_MAX ||
            __builtin_mul_overflow(n, dim, &n) || n > UINT32_MAX)
            return no_file(e, "its shape");
        a->dims[a->n_dims++] = (uint32_t)dim;
        for (p = end; *p == ',' || *p == ' '; p++)
            continue;
    }
    if (*p != ')' || n == 0)
        return no_file(e, "its shape");
    if (a->n_dims == 0)
        a->dims[a->n_dims++] = 1;
    a->n_elems = (uint32_t)n;
    return 0;
}

int dump_npy_parse(struct bytes file, struct tensor_attr *ret_attr, struct bytes *ret_data,
                   struct error *e)
{
    struct tensor_attr a = {.scale = 1, .layout = TENSOR_UNDEFINED};
    struct bytes header, data;
    char text[MAX_HEADER];
    size_t size;
    int r = split(file, &header, &data, e);
    if (r < 0)
        return r;
    memcpy(text, header.data, header.size);
    text[header.size] = 0;
    const char *order = find(text, "fortran_order");
    if (!order || strncmp(order, "False", 5) != 0)
        return no_file(e, "the order of its numbers");
    r = read_type(text, &a.type, e);
    if (r == 0)
        r = read_shape(text, &a, e);
    if (r < 0)
        return r;
    if (!tensor_bytes(a.type, a.n_elems, &size) || size > UINT32_MAX || size != data.size)
        return no_file(e, "its size is not that of its shape");
    a.size = a.size_with_stride = (uint32_t)size;
    *ret_attr = a;
    *ret_data = data;
    return 0;
}
