// Layers in .npy files.
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "tests/standin/standin.h"

static const char *const types[TENSOR_TYPE_COUNT] = {
    [TENSOR_FLOAT32] = "<f4", [TENSOR_FLOAT16] = "<f2", [TENSOR_INT8] = "|i1",
    [TENSOR_UINT8] = "|u1",   [TENSOR_INT16] = "<i2",   [TENSOR_INT32] = "<i4",
    [TENSOR_INT64] = "<i8",   [TENSOR_BOOL] = "|b1"};

static bool wants(struct npu_tap *tap, const char *name)
{
    (void)tap;
    (void)name;
    return true;
}

static void write_header(FILE *f, const struct tensor_attr *a)
{
    char text[512];
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     types[a->type]);
    for (uint32_t i = 0; i < a->n_dims; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%u, ", a->dims[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    n += snprintf(text + n, sizeof text - (size_t)n, "%*s\n", 63 - (10 + n) % 64, "");
    fwrite("\x93NUMPY\x01", 1, 8, f);
    fwrite((uint8_t[]){(uint8_t)n, (uint8_t)(n >> 8)}, 1, 2, f);
    fwrite(text, 1, (size_t)n, f);
}

static int dump(struct npu_tap *tap, const struct npu_tensor *t, struct error *e)
{
    struct standin_dump *d = container_of(tap, struct standin_dump, npu);
    char name[TENSOR_NAME_LEN], path[4096];
    (void)e;
    snprintf(name, sizeof name, "%s", t->attr->name);
    for (char *p = name; *p; p++)
        *p = *p == '/' ? '_' : *p;
    snprintf(path, sizeof path, "%s/%03u_%s.npy", d->folder, d->n++, name);
    FILE *f = fopen(path, "wbe");
    if (!f)
        return STATUS_FAIL;
    write_header(f, t->attr);
    fwrite(t->data, 1, t->attr->size, f);
    return fclose(f) == 0 ? 0 : STATUS_FAIL;
}

void standin_dump_init(struct standin_dump *d)
{
    const char *level = getenv("RKNN_LOG_LEVEL");
    *d = (struct standin_dump){.npu = {wants, dump}};
    if (level && atoi(level) >= 5)
        d->folder = getenv("RKNN_STANDIN_DUMPS");
}
