// CLOCKS: how fast the machine's CPUs, memory and devices run at present.
//
// The files of sysfs are read on a thread of libuv, because the kernel may ask firmware for a
// value; the answer is made on the loop. The struct is freed by on_read(), or by on_abandoned() if
// the thread was never started.
#include <stdio.h>
#include <stdlib.h>

#include "npu/npu.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"
#include "server/observe/clocks.h"
#include "server/options.h"

// One request. `list` is written by the thread, and read by the loop when the thread is done.
struct reading {
    struct request request;
    uv_work_t work;
    const char *root;
    rknnd_Clock list[CLOCKS_MAX];
    size_t n;
};

// Once started, the thread finishes and on_read() frees.
static void on_abandoned(struct request *r)
{
    if (!r->started)
        free(container_of(r, struct reading, request));
}

static void read_clocks(uv_work_t *work)
{
    struct reading *r = container_of(work, struct reading, work);
    r->n = clocks_read(r->root, r->list);
}

// The clock of the NPU that a software device models comes first; other devices have no clock_hz.
static int clocks_encode(const struct npu_device_info *device, const struct reading *r,
                         struct delimited *q, rknnd_ClocksReply *m, struct error *e)
{
    rknnd_Clock npu = {.hz = device->clock_hz, .max_hz = device->clock_hz};
    int status = 0;
    if (npu.hz) {
        message_set_text(npu.domain, "NPU");
        snprintf(npu.name, sizeof npu.name, "model of %s", device->chip);
        status = delimited_put(q, rknnd_Clock_fields, &npu, e);
        m->n_clocks++;
    }
    for (size_t i = 0; i < r->n && status == 0; i++, m->n_clocks++)
        status = delimited_put(q, rknnd_Clock_fields, &r->list[i], e);
    return status;
}

// On the loop. Nobody may be waiting any more.
static void on_read(uv_work_t *work, int status)
{
    struct reading *r = container_of(work, struct reading, work);
    struct delimited q = {0};
    rknnd_ClocksReply m = {0};
    struct error e;
    (void)status;
    if (!r->request.connection) {
        free(r);
        return;
    }
    if (clocks_encode(r->request.connection->services->device, r, &q, &m, &e) < 0) {
        free(q.data);
        request_fail(&r->request, &e);
    } else {
        struct iovec payload = {q.data, q.size};
        request_answer(&r->request, rknnd_ClocksReply_fields, &m, &payload, q.size > 0, free,
                       q.data);
    }
    free(r);
}

// When the connection has room for the answer.
static void clocks_start(struct request *request)
{
    struct reading *r = container_of(request, struct reading, request);
    uv_queue_work(request->connection->services->loop, &r->work, read_clocks, on_read);
}

int handle_clocks(struct connection *c, const struct frame_header *h, const union message_any *any,
                  struct error *e)
{
    struct reading *r = calloc(1, sizeof *r);
    (void)any;
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->root = c->services->options->sysfs ? c->services->options->sysfs : "/sys";
    request_begin(&r->request, &c->requests, h, on_abandoned);
    request_when_room(&r->request, clocks_start);
    return 0;
}
