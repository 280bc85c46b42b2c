// The tap of a dump: passes each tensor of a run to the daemon, through a window of shared memory.
//
//   tensor  |--part 0--|--part 1--|--part 2-|       each part has at most window_size bytes
//                |
//                v   memcpy, post, wait at the gate, next part
//           [ window ]  in the job's buffer
//
// With `replace` every tensor passes twice: out, then back, so that the client can substitute its
// values before the next layer reads them. All of it runs on the thread of the run, which is
// blocked meanwhile.
#include "worker/dump_tap.h"

#include <fnmatch.h>

#include "base/list.h"
#include "protocol/tensor_message.h"

// `only` is a name or a pattern. Names are compared first, because they may contain pattern
// characters.
static bool dump_tap_wants(struct npu_tap *npu, const char *name)
{
    const struct dump_tap *t = container_of(npu, struct dump_tap, npu);
    return !t->only[0] || strcmp(t->only, name) == 0 || fnmatch(t->only, name, 0) == 0;
}

static void dump_tap_post(void *owner)
{
    struct dump_tap *t = owner;
    t->post(t);
}

// Prepares the message that all parts of this tensor share; offset and size follow for each part.
static void dump_tap_describe(struct dump_tap *t, const struct npu_tensor *tensor)
{
    t->part = (rknnd_DumpReply){.index = t->n_tensors++, .has_tensor = true};
    tensor_attr_to_message(tensor->attr, &t->part.tensor);
    message_set_text(t->part.node, tensor->node);
    message_set_text(t->part.op, tensor->op);
}

// Moves one tensor through the window, part by part: out of it, or (`wanted`) back into it. A
// tensor of 0 bytes is one empty part, so that the client hears of it too.
static int dump_tap_pass(struct dump_tap *t, const struct npu_tensor *tensor, bool wanted,
                         struct error *e)
{
    uint64_t size = tensor->attr->size, left = size;
    t->part.wanted = wanted;
    do {
        uint8_t *data = (uint8_t *)tensor->data + (size - left);
        t->part.offset = size - left;
        t->part.size = left < t->window_size ? left : t->window_size;
        if (!wanted)
            memcpy(t->window, data, (size_t)t->part.size);
        if (!gate_wait(t->gate, dump_tap_post, t))
            return error_set(e, STATUS_FAIL, "the dump was ended");
        if (wanted)
            memcpy(data, t->window, (size_t)t->part.size);
        left -= t->part.size;
    } while (left > 0);
    return 0;
}

// Called by the backend for each tensor. Returns 1 if the tensor's data was replaced, else 0 or a
// negative status that ends the run.
static int dump_tap_show(struct npu_tap *npu, const struct npu_tensor *tensor, struct error *e)
{
    struct dump_tap *t = container_of(npu, struct dump_tap, npu);
    dump_tap_describe(t, tensor);
    int r = dump_tap_pass(t, tensor, false, e);
    if (r < 0 || !t->replace)
        return r;
    r = dump_tap_pass(t, tensor, true, e);
    return r < 0 ? r : 1;
}

int dump_tap_check(const struct npu_device_info *device, bool replace, struct error *e)
{
    if (device->never_blocks)
        return error_set(e, STATUS_FAIL, "backend %s has no layers that could be dumped",
                         device->backend);
    if (replace && !device->replaces)
        return error_set(e, STATUS_FAIL, "backend %s cannot put other values in place of a layer's",
                         device->backend);
    return 0;
}

void dump_tap_start(struct dump_tap *t, const char *only, bool replace, void *window,
                    uint64_t window_size, struct gate *gate, void (*post_part)(struct dump_tap *t))
{
    *t = (struct dump_tap){.npu = {dump_tap_wants, dump_tap_show},
                           .window = window,
                           .window_size = window_size,
                           .replace = replace,
                           .gate = gate,
                           .post = post_part};
    message_set_text(t->only, only);
}
