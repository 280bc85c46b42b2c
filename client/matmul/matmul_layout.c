// rknn_B_normal_layout_to_native_layout: rearranges B from row-major K x N to the chip's blocks.
//
//     from   element (k, n) at k * N + n
//     to     element (k, n) at matmul_at(b, n, k): blocks of the chip, in which k runs fastest
#include <string.h>

#include "client/api/init.h"
#include "client/last_error.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/matmul/matmul.h"

// The function has no context, so the layout is that of the chip of the server that a context would
// be opened on.
static int find_chip(char *ret, size_t size, struct error *e)
{
    struct connection *c = NULL;
    int r = selection_connect(NULL, &c, e);
    if (r < 0)
        return r;
    message_copy_text(ret, size, c->peer.device.chip);
    server_disconnect(c);
    return 0;
}

// int4: two elements of neighbouring k share a byte of `to`, the lower one in the low bits. In
// `from` they are N elements apart.
static void move_int4(const struct matmul_matrix *x, const uint8_t *from, uint8_t *to)
{
    for (uint32_t n = 0; n < x->rows; n++)
        for (uint32_t k = 0; k < x->columns; k += 2) {
            int low = matmul_int4(from, (uint64_t)k * x->rows + n);
            int high = matmul_int4(from, (uint64_t)(k + 1) * x->rows + n);
            to[matmul_at(x, n, k) / 2] = (uint8_t)((low & 15) | (high & 15) << 4);
        }
}

// Types of whole bytes.
static void layout_move(const struct matmul_matrix *x, const uint8_t *from, uint8_t *to,
                        size_t size)
{
    for (uint32_t n = 0; n < x->rows; n++)
        for (uint32_t k = 0; k < x->columns; k++)
            memcpy(to + matmul_at(x, n, k) * size, from + ((uint64_t)k * x->rows + n) * size, size);
}

static int layout_rearrange(const void *from, void *to, int k, int n, const rknn_matmul_info *info,
                            struct error *e)
{
    char chip[32];
    struct matmul_matrix x[3];
    init_prepare();
    if (!from || !to || !info)
        return error_set(e, STATUS_PARAM_INVALID, "B_input, B_output or info is NULL");
    if (k <= 0 || n <= 0)
        return error_set(e, STATUS_PARAM_INVALID, "K %d and N %d: they are at least 1", k, n);
    int r = find_chip(chip, sizeof chip, e);
    if (r == 0)
        r = matmul_place(
            &(struct matmul_kind){.type = (uint32_t)info->type, .b_layout = MATMUL_NATIVE},
            &(struct matmul_shape){1, (uint32_t)k, (uint32_t)n}, chip, x, e);
    if (r != 0)
        return r;
    const struct matmul_matrix *b = &x[MATMUL_B];
    if (b->type == TENSOR_INT4)
        move_int4(b, from, to);
    else
        layout_move(b, from, to, tensor_type_size(b->type));
    return 0;
}

RKNN_EXPORT int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N,
                                                      rknn_matmul_info *info)
{
    struct error e;
    int r = layout_rearrange(B_input, B_output, K, N, info, &e);
    return last_error_keep("rknn_B_normal_layout_to_native_layout", r, &e);
}
