// Inference requests: whatever the body, words, or tensors that agree with themselves and lie in
// the body or in memory of their own. The first two bytes are Inference-Header-Content-Length,
// 65535 for none; the third one how the rest is packed.
#include <stdlib.h>
#include <string.h>

#include "kserve/http/packing.h"
#include "kserve/request/request_parse.h"

#define NO_HEADER 65535
#define MAX_BODY  (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static unsigned char touch(const uint8_t *data, uint64_t size)
{
    unsigned char sum = 0;
    for (uint64_t i = 0; i < size; i++)
        sum ^= data[i];
    return sum;
}

static void check_input(const struct request_input *in, const uint8_t *body, size_t size)
{
    uint64_t n = 1;
    for (unsigned d = 0; d < in->n_dims; d++)
        n *= in->shape[d];
    check(in->type && n == in->n_elems && in->size == n * in->type->size);
    check(in->data == in->made || (in->data >= body && in->data + in->size <= body + size));
    char text[DATATYPE_TEXT_SIZE];
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *element = in->data + i * in->type->size;
        uint8_t again[8] = {0}, whole[8] = {0};
        size_t length = datatype_print(in->type, element, text);
        check(length > 0 && length < sizeof text);
        memcpy(whole, element, in->type->size);
        if (in->made &&
            in->type->rknn != RKNN_TENSOR_BOOL) // its text is a number, and the same one
            check(datatype_put(in->type, text, length, again) && memcmp(whole, again, 8) == 0);
    }
    (void)*(volatile unsigned char *)&(unsigned char){touch(in->data, in->size)};
}

static void parse(const uint8_t *body, size_t size, int64_t header)
{
    struct request *r = malloc(sizeof *r);
    struct error e = {0};
    if (!r)
        return;
    r->share = NULL;
    int s = request_parse(r, body, size, header, &e);
    if (s < 0) {
        check(s == e.code && e.text[0]);
    } else {
        for (unsigned i = 0; i < r->n_inputs && !r->raw; i++)
            check_input(&r->inputs[i], body, size);
        for (unsigned i = 0; i <= r->n_outputs; i++)
            (void)request_is_binary(r, i);
        request_done(r);
    }
    free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    int64_t header = data[0] | data[1] << 8;
    enum packing p = data[2] % 3;
    struct packing_plain plain;
    struct memory memory = {.most = 4 * MAX_BODY};
    struct memory_share share = {.of = &memory};
    header = header == NO_HEADER ? REQUEST_NO_HEADER : header;
    if (p == PACKING_NONE) {
        parse(data + 3, size - 3, header);
    } else if (packing_unpack(p, data + 3, size - 3, MAX_BODY, &share, &plain, NULL) == 0) {
        check(plain.size <= MAX_BODY && plain.room == share.held);
        parse(plain.bytes, plain.size, header);
        free(plain.bytes);
        memory_give(&share, plain.room);
    }
    check(memory.used == 0);
    return 0;
}
