// A tensor's elements are in raw_data, in a list of its type, or in another file (external_data:
// location, offset, length), which must lie in the model's folder.
#include "quant/model/quant_constant.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#define EXTERNAL 1

size_t quant_constant_count(const Quant__Tensor *t)
{
    size_t n = 1;
    if (t->n_dims > QUANT_MAX_DIMS)
        return 0;
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(n, (size_t)t->dims[i], &n) ||
            n > SIZE_MAX / 16)
            return 0;
    return n;
}

static size_t quant_constant_element(int32_t type)
{
    switch (type) {
    case QUANT_FLOAT:
    case QUANT_INT32:
        return 4;
    case QUANT_INT64:
    case 11: // double
    case 13: // uint64
        return 8;
    case QUANT_INT16:
    case 4:  // uint16
    case 10: // float16
    case 16: // bfloat16
        return 2;
    default:
        return type == 12 ? 4 : 1; // uint32
    }
}

// ---- other files ----

static const char *quant_constant_entry(const Quant__Tensor *t, const char *key)
{
    for (size_t i = 0; i < t->n_external_data; i++)
        if (strcmp(quant_text(t->external_data[i]->key), key) == 0)
            return t->external_data[i]->value;
    return NULL;
}

// No way out of the folder.
static bool quant_constant_inside(const char *location)
{
    if (!*location || *location == '/')
        return false;
    for (const char *at = location; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return false;
    return true;
}

// `size` bytes of the file that has the elements, malloc'ed.
static int quant_constant_read(const struct quant_model *m, const Quant__Tensor *t, size_t size,
                               void **ret, struct error *e)
{
    const char *location = quant_text(quant_constant_entry(t, "location"));
    const char *at = quant_text(quant_constant_entry(t, "offset"));
    cleanup(free_p) char *path = NULL;
    if (!quant_constant_inside(location))
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: its file \"%s\" is not in the model's folder",
                         quant_text(t->name), location);
    if (asprintf(&path, "%s/%s", m->folder, location) < 0) {
        path = NULL;
        return error_no_memory(e, "a weight", size);
    }
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    off_t offset = (off_t)strtoll(at, NULL, 10);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "weight %s: %s", quant_text(t->name),
                               path);
    if (offset < 0 || offset > st.st_size || size > (uint64_t)(st.st_size - offset))
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: %s ends before its elements",
                         quant_text(t->name), path);
    cleanup(free_p) void *data = malloc(size ? size : 1);
    if (!data)
        return error_no_memory(e, "a weight", size);
    for (size_t have = 0; have < size;) {
        ssize_t n = pread(fd, (char *)data + have, size - have, offset + (off_t)have);
        if (n <= 0)
            return error_set(e, STATUS_MODEL_INVALID, "weight %s: %s ends before its elements",
                             quant_text(t->name), path);
        have += (size_t)n;
    }
    *ret = steal_ptr(data);
    return 0;
}

int quant_constant_bring_in(struct quant_model *m, Quant__Tensor *t, struct error *e)
{
    size_t size = quant_constant_count(t) * quant_constant_element(t->data_type);
    cleanup(free_p) void *data = NULL;
    if (t->data_location != EXTERNAL)
        return 0;
    int r = quant_constant_read(m, t, size, &data, e);
    if (r < 0)
        return r;
    t->raw_data.data = quant_pool_take(&m->pool, size, 1);
    if (!t->raw_data.data)
        return error_no_memory(e, "a weight", size);
    memcpy(t->raw_data.data, data, size);
    t->raw_data.len = size;
    t->has_raw_data = true;
    t->has_data_location = false;
    t->data_location = 0;
    t->n_external_data = 0;
    return 0;
}

// ---- elements ----

static int quant_constant_finite(const Quant__Tensor *t, const float *v, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s: element %zu is not a finite number", quant_text(t->name),
                             i);
    return 0;
}

int quant_constant_floats(const struct quant_model *m, const Quant__Tensor *t, float **ret,
                          struct error *e)
{
    size_t n = quant_constant_count(t);
    if (t->data_type != QUANT_FLOAT || (!n && t->n_dims > QUANT_MAX_DIMS))
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: it is not float32",
                         quant_text(t->name));
    cleanup(free_p) void *data = NULL;
    const void *from = NULL;
    if (t->data_location == EXTERNAL) {
        int r = quant_constant_read(m, t, n * 4, &data, e);
        if (r < 0)
            return r;
    } else if (t->has_raw_data && t->raw_data.len == n * 4) {
        from = t->raw_data.data;
    } else if (!t->has_raw_data && t->n_float_data == n) {
        from = t->float_data;
    } else {
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: its elements are not %zu floats",
                         quant_text(t->name), n);
    }
    if (!data && !(data = malloc(n ? n * 4 : 1)))
        return error_no_memory(e, "a weight", n * 4);
    if (from && n)
        memcpy(data, from, n * 4);
    int r = quant_constant_finite(t, data, n, e);
    if (r == 0)
        *ret = steal_ptr(data);
    return r;
}

bool quant_constant_ints(const Quant__Tensor *t, int64_t *ret, size_t room, size_t *ret_n)
{
    size_t n = quant_constant_count(t);
    bool wide = t->data_type == QUANT_INT64;
    if (n > room || t->data_location == EXTERNAL || (!wide && t->data_type != QUANT_INT32))
        return false;
    if (t->has_raw_data && t->raw_data.len != n * (wide ? 8 : 4))
        return false;
    if (!t->has_raw_data && (wide ? t->n_int64_data : t->n_int32_data) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int32_t narrow = 0;
        if (!t->has_raw_data)
            ret[i] = wide ? t->int64_data[i] : t->int32_data[i];
        else if (wide)
            memcpy(&ret[i], t->raw_data.data + i * 8, 8);
        else
            memcpy(&narrow, t->raw_data.data + i * 4, 4);
        if (t->has_raw_data && !wide)
            ret[i] = narrow;
    }
    *ret_n = n;
    return true;
}
