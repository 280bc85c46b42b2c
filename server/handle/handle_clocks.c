// CLOCKS: how fast the machine's CPUs, memory and devices run at present. SENSORS: how warm it is,
// and what power it takes.
#include <stdio.h>
#include <stdlib.h>

#include "npu/npu.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"
#include "server/observe/readings.h"

// One request. Freed when it is answered or abandoned.
struct reading_request {
    struct request request;
    struct reading_waiter waiter;
    /// Makes the answer; `q` is freed by the caller if that fails.
    int (*answer)(struct reading_request *r, const struct reading *now, struct delimited *q,
                  struct error *e);
};

static void on_reading_abandoned(struct request *request)
{
    struct reading_request *r = container_of(request, struct reading_request, request);
    list_remove(&r->waiter.link);
    free(r);
}

static void send_reading(struct reading_request *r, const pb_msgdesc_t *fields, const void *message,
                         struct delimited *q)
{
    struct iovec payload = {q->data, q->size};
    request_answer(&r->request, fields, message, &payload, q->size > 0, free, q->data);
}

// The clock of the NPU that a software device models comes first; other devices have no clock_hz.
static int answer_clocks(struct reading_request *r, const struct reading *now, struct delimited *q,
                         struct error *e)
{
    const struct npu_device_info *device = r->request.connection->services->device;
    rknnd_Clock npu = {.hz = device->clock_hz, .max_hz = device->clock_hz};
    rknnd_ClocksReply m = {0};
    int status = 0;
    if (npu.hz) {
        message_set_text(npu.domain, "NPU");
        snprintf(npu.name, sizeof npu.name, "model of %s", device->chip);
        status = delimited_put(q, rknnd_Clock_fields, &npu, e);
        m.n_clocks++;
    }
    for (size_t i = 0; i < now->n_clocks && status == 0; i++, m.n_clocks++)
        status = delimited_put(q, rknnd_Clock_fields, &now->clocks[i], e);
    if (status == 0)
        send_reading(r, rknnd_ClocksReply_fields, &m, q);
    return status;
}

static int answer_sensors(struct reading_request *r, const struct reading *now, struct delimited *q,
                          struct error *e)
{
    rknnd_SensorsReply m = {.n_sensors = (uint32_t)now->n_sensors};
    int status = 0;
    for (size_t i = 0; i < now->n_sensors && status == 0; i++)
        status = delimited_put(q, rknnd_Sensor_fields, &now->sensors[i], e);
    if (status == 0)
        send_reading(r, rknnd_SensorsReply_fields, &m, q);
    return status;
}

static void on_reading(struct reading_waiter *w, const struct reading *now)
{
    struct reading_request *r = container_of(w, struct reading_request, waiter);
    struct delimited q = {0};
    struct error e;
    int status = now ? r->answer(r, now, &q, &e)
                     : error_set(&e, STATUS_TIMEOUT,
                                 "a driver of the server's machine hangs: it "
                                 "does not say clocks and temperatures");
    if (status < 0) {
        free(q.data);
        request_fail(&r->request, &e);
    }
    free(r);
}

// When the connection has room for the answer.
static void start_reading(struct request *request)
{
    struct reading_request *r = container_of(request, struct reading_request, request);
    readings_get(request->connection->services->readings, &r->waiter);
}

static int begin_reading(struct connection *c, const struct frame_header *h,
                         int (*answer)(struct reading_request *r, const struct reading *now,
                                       struct delimited *q, struct error *e),
                         struct error *e)
{
    struct reading_request *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a request", sizeof *r);
    r->answer = answer;
    r->waiter.told = on_reading;
    list_init(&r->waiter.link);
    request_begin(&r->request, &c->requests, h, on_reading_abandoned);
    request_when_room(&r->request, start_reading);
    return 0;
}

int handle_clocks(struct connection *c, const struct frame_header *h, const union message_any *m,
                  struct error *e)
{
    (void)m;
    return begin_reading(c, h, answer_clocks, e);
}

int handle_sensors(struct connection *c, const struct frame_header *h, const union message_any *m,
                   struct error *e)
{
    (void)m;
    return begin_reading(c, h, answer_sensors, e);
}
