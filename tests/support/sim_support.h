// What tests of the software NPU share: files, .npy arrays, one run of a model.
#pragma once

#include "npu/npu.h"

struct sim_file {
    uint8_t *data;
    size_t size;
};

// An array of a .npy file of format 1: C order, little-endian.
struct sim_array {
    struct sim_file file;
    const void *data;
    size_t bytes;
    enum tensor_type type;
    uint32_t n_dims, dims[8];
};

/// The folder of models shared between projects: $RKNND_SHARED, else ../shared beside the project.
/// NULL: it is not there.
const char *sim_shared_folder(void);

/// False: there is no such file.
bool sim_file_read(struct sim_file *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_file_free(struct sim_file *f);

bool sim_array_read(struct sim_array *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_array_free(struct sim_array *a);

/// Runs once and waits. outputs[i] is malloc'ed, in the model's own type.
int sim_run(const struct npu_backend *b, struct npu_model *m, const struct npu_input *inputs,
            void **outputs, struct error *e);

/// Cosine of the angle between two vectors; 1 when both are zero.
double sim_cosine(const float *a, const float *b, size_t n);
