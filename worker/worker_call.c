// Custom operators in a worker's runs: turns the daemon's message into a custom_proxy, and a call
// of the proxy into a message.
#include "protocol/custom_message.h"
#include "worker/worker_memory.h"

// On the run's thread: tells the daemon that a node's inputs are in the job's buffer. It is a
// partial answer (FRAME_MORE) to the run or dump; the daemon replies with WORKER_NEXT.
static void post_call(struct custom_proxy *proxy)
{
    struct worker_context *c = container_of(proxy, struct worker_context, proxy);
    rknnd_CustomCall call = {.node = proxy->node};
    rknnd_InferReply run = {.has_call = true, .call = call};
    rknnd_DumpReply dump = {.has_call = true, .call = call};
    const void *message = c->type == MESSAGE_WORKER_RUN ? (void *)&run : (void *)&dump;
    worker_answer(c->worker,
                  message_frame(c->type, FRAME_REPLY | FRAME_MORE, c->request,
                                message_row(c->type)->reply, message, NULL, 0, NULL, NULL));
}

// A part of the buffer's output half, checked against its size.
static uint8_t *find_room(const struct worker_buffer *b, uint64_t at, uint64_t size)
{
    struct bytes room;
    if (!bytes_slice((struct bytes){b->output, (size_t)b->output_size}, at, size, &room))
        worker_die("custom operators lie outside their buffer");
    return (uint8_t *)room.data;
}

// Part of preparing a run, under `reading`. Without nodes for the client the offsets in the message
// have no meaning and are not looked at.
void worker_prepare_calls(struct worker_context *c, const struct worker_buffer *b,
                          const rknnd_WorkerRun *m, const struct npu_model_info *info)
{
    struct custom_set set;
    struct error e;
    uint8_t *inputs = NULL, *outputs = NULL;
    if (custom_set_from_message(m->custom_nodes, info->n_custom, &set, &e) < 0)
        worker_die("%s", e.text);
    if (m->custom_nodes.size > 0) {
        inputs = find_room(b, m->custom_inputs, custom_input_room(info->custom, &set));
        outputs = find_room(b, m->custom_outputs, custom_output_room(info->custom, &set));
    }
    if (custom_proxy_start(&c->proxy, &set, inputs, outputs, &c->gate, post_call))
        c->job.custom = &c->proxy.npu;
}
