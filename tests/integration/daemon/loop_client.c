// Runs a model again and again through the RKNN API, until standard input ends, and checks that
// every answer is the first one. Every 16 runs it opens its context anew. For tests that kill
// things.
//
// loop_client MODEL SEED [patient]: exits 0 if all was well, else 1 with words. A patient one takes
// errors of calls as they come, and starts over; a wrong answer it does not take. At its end it
// says the last error alone: nobody reads before, and a pipe that is full would stop it.
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rknn_api.h"
#include "rknnd.h"

#define RUNS_PER_CONTEXT 16
#define RETRY_MS         5 // a daemon that starts has the processor, too

struct loop {
    char *model;
    unsigned seed;
    uint8_t *input;
    uint32_t input_size;
    void *first; // output
    uint32_t first_size;
    bool patient, wrong, failed; // failed: the last context
    unsigned long runs, retried, errors;
};

static char words[1024]; // of the last error

static int fail(const char *what)
{
    snprintf(words, sizeof words, "%s: %s", what, rknnd_last_error());
    return -1;
}

static int make_input(struct loop *l, rknn_context context)
{
    rknn_tensor_attr attr = {.index = 0};
    if (rknn_query(context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) < 0)
        return fail("input attributes");
    l->input_size = attr.n_elems;
    l->input = malloc(attr.n_elems);
    if (!l->input)
        return -1;
    srand(l->seed);
    for (uint32_t i = 0; i < attr.n_elems; i++)
        l->input[i] = (uint8_t)rand();
    return 0;
}

static int check_output(struct loop *l, const rknn_output *o)
{
    if (!l->first) {
        l->first_size = o->size;
        l->first = malloc(o->size);
        if (!l->first)
            return -1;
        memcpy(l->first, o->buf, o->size);
    }
    if (o->size != l->first_size || memcmp(o->buf, l->first, o->size) != 0) {
        snprintf(words, sizeof words, "run %lu gave another answer", l->runs);
        l->wrong = true;
        return -1;
    }
    return 0;
}

static int run_once(struct loop *l, rknn_context context)
{
    rknn_input input = {
        .buf = l->input, .size = l->input_size, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    rknn_output output = {.index = 0};
    rknnd_run_info info = {.struct_size = sizeof info};
    if (rknn_inputs_set(context, 1, &input) < 0 || rknn_run(context, NULL) < 0 ||
        rknn_outputs_get(context, 1, &output, NULL) < 0)
        return fail("run");
    int r = check_output(l, &output);
    rknn_outputs_release(context, 1, &output);
    if (rknnd_get_run_info(context, &info) == RKNN_SUCC && info.attempts > 1)
        l->retried++;
    l->runs++;
    return r;
}

static int use_context(struct loop *l)
{
    rknn_context context = 0;
    if (rknn_init(&context, l->model, 0, 0, NULL) < 0)
        return fail("init");
    int r = l->input ? 0 : make_input(l, context);
    for (int i = 0; r == 0 && i < RUNS_PER_CONTEXT; i++)
        r = run_once(l, context);
    if (rknn_destroy(context) < 0 && r == 0)
        r = fail("destroy");
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct loop l = {.model = argv[1], .seed = (unsigned)atoi(argv[2]), .patient = argc > 3};
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int r = 0;
    while (r == 0 && poll(&input, 1, l.failed ? RETRY_MS : 0) == 0) {
        r = use_context(&l);
        l.failed = r < 0;
        l.errors += r < 0;
        if (l.patient && !l.wrong)
            r = 0;
    }
    if (*words)
        fprintf(stderr, "%s\n", words);
    printf("%lu runs, %lu of them repeated, %lu errors\n", l.runs, l.retried, l.errors);
    free(l.input);
    free(l.first);
    return r == 0 && l.runs > 0 ? 0 : 1;
}
