// The tap of a dump.
#include "server/tap.h"

#include <fnmatch.h>

#include "base/list.h"
#include "protocol/tensor_message.h"

static bool wants(struct npu_tap *npu, const char *name)
{
    const struct tap *t = container_of(npu, struct tap, npu);
    return !t->only[0] || strcmp(t->only, name) == 0 || fnmatch(t->only, name, 0) == 0;
}

static void post(void *owner)
{
    struct tap *t = owner;
    t->post(t);
}

static void describe(struct tap *t, const struct npu_tensor *tensor)
{
    t->part = (rknnd_DumpReply){.index = t->n_tensors++, .has_tensor = true};
    tensor_attr_to_message(tensor->attr, &t->part.tensor);
    message_set_text(t->part.node, tensor->node);
    message_set_text(t->part.op, tensor->op);
}

static int show(struct npu_tap *npu, const struct npu_tensor *tensor, struct error *e)
{
    struct tap *t = container_of(npu, struct tap, npu);
    uint64_t size = tensor->attr->size, left = size;
    describe(t, tensor);
    do {
        t->part.offset = size - left;
        t->part.size = left < t->window_size ? left : t->window_size;
        memcpy(t->window, (const uint8_t *)tensor->data + t->part.offset, t->part.size);
        left -= t->part.size;
        if (!pause_wait(t->pause, post, t))
            return error_set(e, STATUS_FAIL, "the dump was ended");
    } while (left > 0);
    return 0;
}

int tap_check(const struct npu_device_info *device, struct error *e)
{
    if (device->never_blocks)
        return error_set(e, STATUS_FAIL, "backend %s has no layers that could be dumped",
                         device->backend);
    return 0;
}

void tap_start(struct tap *t, const char *only, void *window, uint64_t window_size,
               struct pause *pause, void (*post_part)(struct tap *t))
{
    *t = (struct tap){.npu = {wants, show},
                      .window = window,
                      .window_size = window_size,
                      .pause = pause,
                      .post = post_part};
    message_set_text(t->only, only);
}
