// What tests of the software NPU share.
#include "sim_support.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *sim_shared_folder(void)
{
    static char path[4096];
    const char *env = getenv("RKNND_SHARED");
    snprintf(path, sizeof path, "%s", env ? env : PROJECT_ROOT "/../shared");
    return access(path, R_OK) == 0 ? path : NULL;
}

static bool read_path(struct sim_file *f, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        return false;
    fseek(in, 0, SEEK_END);
    f->size = (size_t)ftell(in);
    rewind(in);
    f->data = malloc(f->size + 1);
    bool ok = f->data && fread(f->data, 1, f->size, in) == f->size;
    fclose(in);
    if (!ok)
        sim_file_free(f);
    return ok;
}

bool sim_file_read(struct sim_file *f, const char *format, ...)
{
    char path[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return read_path(f, path);
}

void sim_file_free(struct sim_file *f)
{
    free(f->data);
    *f = (struct sim_file){0};
}

static bool parse_header(struct sim_array *a, char *header)
{
    static const struct {
        const char *name;
        enum tensor_type type;
    } types[] = {{"'|u1'", TENSOR_UINT8}, {"'<f4'", TENSOR_FLOAT32}, {"'<f2'", TENSOR_FLOAT16}};
    char *shape = strstr(header, "'shape': (");
    size_t i = 0;
    while (i < 3 && !strstr(header, types[i].name))
        i++;
    if (i == 3 || !shape || strstr(header, "'fortran_order': True"))
        return false;
    a->type = types[i].type;
    a->bytes = tensor_type_size(a->type);
    for (char *p = shape + 10; *p && *p != ')' && a->n_dims < 8;) {
        a->dims[a->n_dims] = (uint32_t)strtoul(p, &p, 10);
        a->bytes *= a->dims[a->n_dims++];
        p += strspn(p, ", ");
    }
    return true;
}

bool sim_array_read(struct sim_array *a, const char *format, ...)
{
    char path[4096], header[512];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    *a = (struct sim_array){0};
    if (!read_path(&a->file, path))
        return false;
    size_t length = a->file.size > 10 ? read_le16(a->file.data + 8) : 0;
    if (length >= sizeof header || 10 + length > a->file.size) {
        sim_array_free(a);
        return false;
    }
    memcpy(header, a->file.data + 10, length);
    header[length] = 0;
    a->data = a->file.data + 10 + length;
    if (parse_header(a, header) && 10 + length + a->bytes == a->file.size)
        return true;
    sim_array_free(a);
    return false;
}

void sim_array_free(struct sim_array *a)
{
    sim_file_free(&a->file);
}

static void note_done(struct npu_job *job, int status)
{
    *(int *)job->owner = status;
}

int sim_run(const struct npu_backend *b, struct npu_model *m, const struct npu_input *inputs,
            void **outputs, struct error *e)
{
    const struct npu_model_info *info = b->model_info(m);
    struct npu_output *out = calloc(info->n_outputs, sizeof *out);
    for (uint32_t i = 0; i < info->n_outputs; i++) {
        out[i].size = info->outputs[i].logical.size;
        out[i].data = outputs[i] = calloc(1, out[i].size + 1);
    }
    struct npu_context *c;
    int status = 0, r = b->context_new(m, &c, e);
    if (r == 0) {
        struct npu_job job = {.inputs = inputs,
                              .outputs = out,
                              .core_mask = 1,
                              .collect_perf = true,
                              .done = note_done,
                              .owner = &status};
        r = b->context_submit(c, &job, e);
        if (r == 0 && status < 0) {
            r = status;
            *e = job.error;
        }
        b->context_free(c);
    }
    free(out);
    return r;
}

double sim_cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
}
