// A product of matrices as a model.
#include "tensor/matmul_model.h"

#include <stdlib.h>

#define MAGIC       "rknnd matmul 1\n\0" // 16 bytes
#define MAGIC_SIZE  16
#define KIND_FIELDS 6
#define SHAPE_SIZE  (3 * sizeof(uint32_t))
#define HEAD_SIZE   (MAGIC_SIZE + KIND_FIELDS * sizeof(uint32_t))

int matmul_model_encode(const struct matmul_kind *kind, const struct matmul_shape *shapes,
                        uint32_t n_shapes, struct bytes *ret, struct error *e)
{
    const uint32_t fields[KIND_FIELDS] = {kind->type,    kind->b_layout, kind->ac_layout,
                                          kind->b_quant, kind->ac_quant, kind->group_size};
    size_t size = HEAD_SIZE + n_shapes * SHAPE_SIZE;
    uint8_t *file = malloc(size), *at = file;
    if (!file)
        return error_no_memory(e, "a matmul", size);
    memcpy(at, MAGIC, MAGIC_SIZE);
    at += MAGIC_SIZE;
    for (int i = 0; i < KIND_FIELDS; i++, at += sizeof *fields)
        write_le32(at, fields[i]);
    for (uint32_t i = 0; i < n_shapes; i++, at += SHAPE_SIZE) {
        write_le32(at, shapes[i].m);
        write_le32(at + 4, shapes[i].k);
        write_le32(at + 8, shapes[i].n);
    }
    *ret = (struct bytes){file, size};
    return 0;
}

bool matmul_model_is(struct bytes file)
{
    return file.size >= MAGIC_SIZE && memcmp(file.data, MAGIC, MAGIC_SIZE) == 0;
}

int matmul_model_decode(struct bytes file, struct matmul_model *ret, struct error *e)
{
    struct bytes fields, shapes;
    if (!matmul_model_is(file) || !bytes_slice(file, MAGIC_SIZE, HEAD_SIZE - MAGIC_SIZE, &fields) ||
        !bytes_slice(file, HEAD_SIZE, file.size - HEAD_SIZE, &shapes) || !shapes.size ||
        shapes.size % SHAPE_SIZE || shapes.size / SHAPE_SIZE > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "%zu bytes are not a whole matmul", file.size);
    *ret = (struct matmul_model){
        .kind = {.type = read_le32(fields.data),
                 .b_layout = read_le32(fields.data + 4),
                 .ac_layout = read_le32(fields.data + 8),
                 .b_quant = read_le32(fields.data + 12),
                 .ac_quant = read_le32(fields.data + 16),
                 .group_size = read_le32(fields.data + 20)},
        .n_shapes = (uint32_t)(shapes.size / SHAPE_SIZE),
        .shapes = shapes,
    };
    return 0;
}

struct matmul_shape matmul_model_shape(const struct matmul_model *m, uint32_t i)
{
    const uint8_t *at = m->shapes.data + i * SHAPE_SIZE;
    return (struct matmul_shape){read_le32(at), read_le32(at + 4), read_le32(at + 8)};
}

// ---- parameters of a run ----

void matmul_run_encode(const struct matmul_run *run, uint8_t ret[MATMUL_RUN_SIZE])
{
    write_le64(ret, run->b_version);
    write_le32(ret + 8, run->shape);
    write_le32(ret + 12, float_bits(run->a_scale));
    write_le32(ret + 16, float_bits(run->c_scale));
    write_le32(ret + 20, (uint32_t)run->a_zp);
    write_le32(ret + 24, (uint32_t)run->c_zp);
    write_le32(ret + 28, run->c_set);
}

void matmul_run_decode(const uint8_t bytes[MATMUL_RUN_SIZE], struct matmul_run *ret)
{
    *ret = (struct matmul_run){.b_version = read_le64(bytes),
                               .shape = read_le32(bytes + 8),
                               .a_scale = bits_float(read_le32(bytes + 12)),
                               .c_scale = bits_float(read_le32(bytes + 16)),
                               .a_zp = (int32_t)read_le32(bytes + 20),
                               .c_zp = (int32_t)read_le32(bytes + 24),
                               .c_set = read_le32(bytes + 28) != 0};
}
