// Every message's decoder, and the lists of tensors and layers. What decodes must encode, and the
// encoding must mean the same.
//
// Input: the type and the flags of a frame, then its message. Flags 0xff: a list of as many tensors
// as the type says; 0xfe: a list of layers; 0xfd: a list of as many custom operators as the type
// says.
#include <stdlib.h>
#include <string.h>

#include "protocol/custom_message.h"
#include "protocol/message.h"
#include "protocol/tensor_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

// Encodes what was decoded, decodes that and encodes it again: both encodings are the same.
static void check_encoding(const pb_msgdesc_t *fields, const union message_any *m)
{
    static uint8_t first[FRAME_MESSAGE_MAX + 8], second[sizeof first];
    static union message_any again;
    uint8_t *first_end = first, *second_end = second;
    check(message_delimited_put(fields, m, &first_end, first + sizeof first));
    struct bytes rest = {first, (size_t)(first_end - first)};
    check(rest.size == message_delimited_size(fields, m));
    check(message_delimited_take(fields, &rest, &again, NULL) == 0 && rest.size == 0);
    check(message_delimited_put(fields, &again, &second_end, second + sizeof second));
    check(first_end - first == second_end - second);
    check(memcmp(first, second, (size_t)(first_end - first)) == 0);
}

static void try_message(const struct frame_header *h, struct bytes b)
{
    static union message_any m;
    struct error e;
    const pb_msgdesc_t *fields = message_fields(h);
    if (!fields || message_decode(fields, b, &m, &e) < 0)
        return;
    check_encoding(fields, &m);
    if (fields == rknnd_Error_fields)
        check(message_error_take(&m.error, &e) < 0 && e.text[0]);
}

static void try_tensors(size_t n, struct bytes b)
{
    struct tensor_io *list, *again;
    const struct tensor_io *pointers[256];
    struct error e;
    size_t size;
    if (tensor_list_decode(b, n, &list, &e) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        pointers[i] = &list[i];
    uint8_t *encoded = tensor_list_encode(pointers, n, &size);
    check(tensor_list_decode((struct bytes){encoded, size}, n, &again, &e) == 0);
    check(n == 0 || memcmp(list, again, n * sizeof *list) == 0);
    free(encoded);
    free(again);
    free(list);
}

static void try_layers(struct bytes b)
{
    static union {
        union message_any any;
        rknnd_Layer layer;
    } m;
    while (b.size > 0 && message_delimited_take(rknnd_Layer_fields, &b, &m.layer, NULL) == 0)
        check_encoding(rknnd_Layer_fields, &m.any);
}

// Lists that decode mean the same when they are encoded again.
static void try_custom(uint32_t n, struct bytes b)
{
    struct custom_list *list, *again;
    struct error e;
    size_t size, size_again;
    if (custom_list_decode(&b, n, &list, &e) < 0)
        return;
    uint8_t *encoded = custom_list_encode(list->nodes, list->n, &size);
    struct bytes rest = {encoded, size};
    check(custom_list_decode(&rest, n, &again, &e) == 0 && rest.size == 0);
    uint8_t *encoded_again = custom_list_encode(again->nodes, again->n, &size_again);
    check(size == size_again && memcmp(encoded, encoded_again, size) == 0);
    free(encoded);
    free(encoded_again);
    custom_list_free(again);
    custom_list_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct frame_header h = {.type = data[0], .flags = data[1] & (FRAME_REPLY | FRAME_ERROR)};
    struct bytes b = {data + 2, size - 2};
    if (data[1] == 0xff)
        try_tensors(data[0], b);
    else if (data[1] == 0xfe)
        try_layers(b);
    else if (data[1] == 0xfd)
        try_custom(data[0], b);
    else
        try_message(&h, b);
    return 0;
}
