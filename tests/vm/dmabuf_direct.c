// A program whose input and outputs are dma-bufs in the NPU's own form, beside the same through
// copies: dmabuf_direct MODEL KIND WATCHED [on]. Buffers are of KIND, as in rknnd --buffers; the
// input's bytes are written to the file WATCHED before they run, for who looks for copies of them.
// Half of the frames have intermediate results in such a buffer, too, with others' bytes in it.
// `on`: goes on until standard input ends.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "npu/buffer/buffer.h"
#include "tests/conformance/conformance.h"

#define N_FRAMES    4
#define N_BUFFERS   2 // of the input, by turns, as a camera has several
#define MAX_OUTPUTS 8

struct tensor {
    struct npu_buffer buffer;
    rknn_tensor_mem *memory;
};

struct direct {
    rknn_context c;
    uint32_t n_out;
    rknn_tensor_attr in, out[MAX_OUTPUTS], logical[MAX_OUTPUTS];
    struct tensor inputs[N_BUFFERS], plain_in, internal, outputs[MAX_OUTPUTS],
        plain_outs[MAX_OUTPUTS];
};

static struct tensor tensor_new(const struct direct *d, const char *kind, uint32_t size)
{
    struct npu_buffers from = {0};
    struct tensor t;
    struct error e;
    if (npu_buffers_open(&from, kind, true, &e) < 0 ||
        npu_buffer_new(&from, size, &t.buffer, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    npu_buffers_close(&from);
    t.memory = rknn_create_mem_from_fd(d->c, t.buffer.fd, t.buffer.map, size, 0);
    NEED(t.memory);
    return t;
}

static void tensor_free(const struct direct *d, struct tensor *t)
{
    EXPECT_OK(rknn_destroy_mem(d->c, t->memory));
    npu_buffer_done(&t->buffer);
}

static rknn_tensor_attr attr_of(rknn_context c, rknn_query_cmd what, uint32_t i)
{
    rknn_tensor_attr a = {.index = i};
    NEED_OK(rknn_query(c, what, &a, sizeof a));
    return a;
}

// Numbers of fp16 are small ones.
static void fill(uint8_t *to, const rknn_tensor_attr *a, uint32_t frame)
{
    for (uint32_t i = 0; i < a->size_with_stride; i++)
        to[i] = (uint8_t)(a->type == RKNN_TENSOR_FLOAT16 && i % 2 ? 0x30 + (i * 5 + frame) % 12
                                                                  : i * 7 + i / 64 + frame * 31);
}

static void run(struct direct *d, struct tensor *in, struct tensor *outs)
{
    EXPECT_OK(rknn_set_io_mem(d->c, in->memory, &d->in));
    for (uint32_t i = 0; i < d->n_out; i++)
        EXPECT_OK(rknn_set_io_mem(d->c, outs[i].memory, &d->out[i]));
    EXPECT_OK(rknn_mem_sync(d->c, in->memory, RKNN_MEMORY_SYNC_TO_DEVICE));
    EXPECT_OK(rknn_run(d->c, NULL));
    for (uint32_t i = 0; i < d->n_out; i++)
        EXPECT_OK(rknn_mem_sync(d->c, outs[i].memory, RKNN_MEMORY_SYNC_FROM_DEVICE));
}

// What fills the last block of channels is nobody's.
static bool is_same(const struct direct *d, uint32_t o)
{
    const rknn_tensor_attr *a = &d->out[o];
    uint32_t bytes = a->type == RKNN_TENSOR_FLOAT16 ? 2 : 1, plane = a->dims[2] * a->dims[3];
    for (uint32_t i = 0; i < a->size / bytes; i++) {
        uint32_t c2 = a->dims[4], c = i / (plane * c2) * c2 + i % c2;
        if (c < d->logical[o].dims[1] &&
            memcmp(d->outputs[o].buffer.map + i * bytes, d->plain_outs[o].buffer.map + i * bytes,
                   bytes) != 0)
            return false;
    }
    return true;
}

// In place first: what a copy of another frame has left in the NPU's memory is not this one's.
static void one_frame(struct direct *d, uint32_t frame, const char *watched)
{
    struct tensor *in = &d->inputs[frame % N_BUFFERS];
    fill(in->buffer.map, &d->in, frame);
    for (uint32_t i = 0; i < d->n_out; i++)
        memset(d->outputs[i].buffer.map, 0x5a, d->out[i].size);
    FILE *f = fopen(watched, "w");
    NEED(f && fwrite(in->buffer.map, 1, d->in.size, f) == d->in.size && fclose(f) == 0);
    run(d, in, d->outputs);
    EXPECT(remove(watched) == 0);
    fill(d->plain_in.buffer.map, &d->in, frame);
    run(d, &d->plain_in, d->plain_outs);
    for (uint32_t i = 0; i < d->n_out; i++)
        EXPECT(is_same(d, i));
}

int main(int argc, char **argv)
{
    struct direct d = {0};
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    NEED(argc >= 4);
    NEED_OK(rknn_init(&d.c, argv[1], 0, 0, NULL));
    rknn_input_output_num n;
    NEED_OK(rknn_query(d.c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n));
    NEED(n.n_input == 1 && n.n_output <= MAX_OUTPUTS);
    d.n_out = n.n_output;
    d.in = attr_of(d.c, RKNN_QUERY_NATIVE_INPUT_ATTR, 0);
    d.in.pass_through = 1;
    for (unsigned i = 0; i < N_BUFFERS; i++)
        d.inputs[i] = tensor_new(&d, argv[2], d.in.size_with_stride);
    d.plain_in = tensor_new(&d, "memfd", d.in.size_with_stride);
    for (uint32_t i = 0; i < d.n_out; i++) {
        d.out[i] = attr_of(d.c, RKNN_QUERY_NATIVE_OUTPUT_ATTR, i);
        d.logical[i] = attr_of(d.c, RKNN_QUERY_OUTPUT_ATTR, i);
        NEED(d.out[i].fmt == RKNN_TENSOR_NC1HWC2);
        d.outputs[i] = tensor_new(&d, argv[2], d.out[i].size);
        d.plain_outs[i] = tensor_new(&d, "memfd", d.out[i].size);
    }
    rknn_mem_size sizes;
    NEED_OK(rknn_query(d.c, RKNN_QUERY_MEM_SIZE, &sizes, sizeof sizes));
    d.internal = tensor_new(&d, argv[2], sizes.total_internal_size);
    for (uint32_t k = 0; k < N_FRAMES; k++) {
        if (k == N_FRAMES / 2)
            EXPECT_OK(rknn_set_internal_mem(d.c, d.internal.memory));
        memset(d.internal.buffer.map, 0xc3, sizes.total_internal_size);
        EXPECT_OK(rknn_mem_sync(d.c, d.internal.memory, RKNN_MEMORY_SYNC_TO_DEVICE));
        one_frame(&d, k, argv[3]);
    }
    printf("ran\n");
    fflush(stdout);
    for (uint32_t k = 0; argc > 4 && poll(&input, 1, 0) == 0; k++)
        one_frame(&d, k, argv[3]);
    for (unsigned i = 0; i < N_BUFFERS; i++)
        tensor_free(&d, &d.inputs[i]);
    tensor_free(&d, &d.plain_in);
    tensor_free(&d, &d.internal);
    for (uint32_t i = 0; i < d.n_out; i++) {
        tensor_free(&d, &d.outputs[i]);
        tensor_free(&d, &d.plain_outs[i]);
    }
    EXPECT_OK(rknn_destroy(d.c));
    return conformance_finish();
}
