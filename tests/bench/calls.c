#include "tests/bench/calls.h"

#include <stdlib.h>

#include "rknnd.h"
#include "tests/bench/daemon.h"

const struct calls_size calls_sizes[CALLS_SIZES] = {
    {"echo", 64, 64},
    {"image", 150528, 4000},
    {"frame", 1228800, 8568000},
};

struct client {
    rknn_context context;
    rknn_input input;
    rknn_output output;
};

static void *client_open(const void *argument)
{
    const struct calls_service *s = argument;
    struct client *c = calloc(1, sizeof *c);
    void *request = calloc(1, s->size->request), *reply = malloc(s->size->reply);
    if (!c || !request || !reply)
        load_fail("out of memory");
    bench_check(rknn_init(&c->context, (void *)(uintptr_t)s->model, 0, 0, NULL));
    c->input = (rknn_input){.buf = request,
                            .size = s->size->request,
                            .type = RKNN_TENSOR_UINT8,
                            .fmt = RKNN_TENSOR_UNDEFINED};
    c->output = (rknn_output){.is_prealloc = 1, .buf = reply, .size = s->size->reply};
    return c;
}

static void client_call(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_inputs_set(c->context, 1, &c->input));
    bench_check(rknn_run(c->context, NULL));
    bench_check(rknn_outputs_get(c->context, 1, &c->output, NULL));
}

static void client_close(void *argument)
{
    struct client *c = argument;
    bench_check(rknn_destroy(c->context));
    free(c->input.buf);
    free(c->output.buf);
    free(c);
}

const struct load_type calls_load = {client_open, client_call, client_close};
