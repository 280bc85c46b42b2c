// The tables of .rknn files alone: fast, so that many bytes are tried. What they mean: fuzz_rknn.c.
#include <stdlib.h>

#include "npu/model/rknn/pyliteral.h"
#include "npu/model/rknn/rknn_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

// Touches the first and last byte of whatever the file is said to hold.
static void touch(struct bytes b)
{
    static volatile uint8_t sink;
    if (b.size > 0)
        sink = (uint8_t)(b.data[0] ^ b.data[b.size - 1]);
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rknn_file f;
    struct error e = {0};
    json_t *attrs;
    if (rknn_file_open(&f, (struct bytes){data, size}, &e) < 0) {
        check(e.code < 0 && e.text[0]);
        return 0;
    }
    for (uint32_t i = 0; i < f.n_tensors; i++)
        touch(f.tensors[i].data);
    for (uint32_t i = 0; i < f.n_nodes; i++)
        touch(f.nodes[i].bson);
    for (uint32_t i = 0; i < f.n_tasks; i++)
        touch(f.tasks[i].commands);
    if (pyliteral_parse(f.attrs_text, &attrs, &e) == 0)
        json_decref(attrs);
    rknn_file_done(&f);
    return 0;
}
