// Stops itself (SIGSTOP) in the middle of something, as a debugger would, and checks after SIGCONT
// that it goes on where it was. The model's output is to be its input, again and again (null), or
// with "same" what it was before the stop.
//
// stopping_client MODEL idle|upload|run|reply|dump|anywhere [same]: exits 0 if all was well, else 1
// with words.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rknn_api.h"
#include "rknnd.h"

#define RUNS 20

struct client {
    rknn_context context;
    uint8_t *input;
    uint32_t input_size;
    bool stopped, same;
    uint8_t *expected; // with `same`; NULL: not known yet
    unsigned long tensors;
};

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rknnd_last_error());
    return -1;
}

static void stop_once(struct client *c)
{
    if (!c->stopped)
        raise(SIGSTOP);
    c->stopped = true;
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
    if (done > total / 2)
        stop_once(user);
}

static int open_context(struct client *c, char *model)
{
    rknn_tensor_attr attr = {.index = 0};
    if (rknn_init(&c->context, model, 0, 0, NULL) < 0)
        return fail("init");
    if (rknn_query(c->context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) < 0)
        return fail("input attributes");
    c->input_size = attr.n_elems;
    c->input = malloc(attr.n_elems);
    for (uint32_t i = 0; c->input && i < attr.n_elems; i++)
        c->input[i] = (uint8_t)(i * 7 + i / 251);
    return c->input ? 0 : -1;
}

static int set_input(struct client *c)
{
    rknn_input input = {
        .buf = c->input, .size = c->input_size, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    return rknn_inputs_set(c->context, 1, &input) < 0 ? fail("inputs") : 0;
}

static int check(const struct client *c, const uint8_t *got, uint64_t size)
{
    if (c->same && memcmp(got, c->expected, size) != 0) {
        fprintf(stderr, "another answer than before\n");
        return -1;
    }
    for (uint64_t i = 0; i < size && !c->same; i++)
        if (got[i] != c->input[i % c->input_size]) {
            fprintf(stderr, "byte %llu is %u, not %u\n", (unsigned long long)i, got[i],
                    c->input[i % c->input_size]);
            return -1;
        }
    return 0;
}

// Stops while the run is on its way, or when its outputs are.
static int run(struct client *c, bool in_run, bool in_reply)
{
    rknn_run_extend extend = {.non_block = in_run};
    rknn_output output = {.index = 0};
    c->input[0] += !c->same;
    if (set_input(c) < 0)
        return -1;
    if (rknn_run(c->context, in_run ? &extend : NULL) < 0)
        return fail("run");
    if (in_run || in_reply)
        stop_once(c);
    if (in_run && rknn_wait(c->context, NULL) < 0)
        return fail("wait");
    if (rknn_outputs_get(c->context, 1, &output, NULL) < 0)
        return fail("outputs");
    if (c->same && !c->expected && (c->expected = malloc(output.size)))
        memcpy(c->expected, output.buf, output.size);
    int r = check(c, output.buf, output.size);
    rknn_outputs_release(c->context, 1, &output);
    return r;
}

static int on_tensor(void *user, const rknnd_tensor *tensor)
{
    struct client *c = user;
    stop_once(c);
    c->tensors++;
    return c->same ? 0 : check(c, tensor->data, tensor->size);
}

static int dump(struct client *c)
{
    if (set_input(c) < 0)
        return -1;
    if (rknnd_dump_layers(c->context, NULL, on_tensor, c) < 0)
        return fail("dump");
    return c->tensors > 0 ? 0 : -1;
}

static void *stop_somewhere(void *arg)
{
    struct client *c = arg;
    usleep((unsigned)getpid() % 50 * 1000); // not to wait for anything: this is the random moment
    stop_once(c);
    return NULL;
}

static int run_until_stopped(struct client *c)
{
    pthread_t thread;
    int r = 0;
    if (pthread_create(&thread, NULL, stop_somewhere, c) != 0)
        return -1;
    while (r == 0 && !*(volatile bool *)&c->stopped)
        r = run(c, false, false);
    pthread_join(thread, NULL);
    return r;
}

static int act(struct client *c, const char *where)
{
    if (strcmp(where, "idle") == 0)
        stop_once(c);
    if (strcmp(where, "run") == 0)
        return run(c, true, false);
    if (strcmp(where, "reply") == 0)
        return run(c, false, true);
    if (strcmp(where, "dump") == 0)
        return dump(c);
    if (strcmp(where, "anywhere") == 0)
        return run_until_stopped(c);
    return 0;
}

int main(int argc, char **argv)
{
    struct client c = {.same = argc > 3};
    if (argc < 3)
        return 2;
    if (strcmp(argv[2], "upload") == 0)
        rknnd_set_progress(on_progress, &c);
    int r = open_context(&c, argv[1]);
    if (r == 0 && c.same)
        r = run(&c, false, false);
    if (r == 0)
        r = act(&c, argv[2]);
    if (r == 0 && !c.stopped) {
        fprintf(stderr, "it has not stopped at all\n");
        r = -1;
    }
    for (int i = 0; i < RUNS && r == 0; i++)
        r = run(&c, false, false);
    if (c.context && rknn_destroy(c.context) < 0 && r == 0)
        r = fail("destroy");
    free(c.input);
    free(c.expected);
    return r == 0 ? 0 : 1;
}
