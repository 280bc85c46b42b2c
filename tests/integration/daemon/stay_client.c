// A program that stays in one session while daemons come and go: it runs one context from first to
// last, and now and then duplicates it, which takes another connection to the same session. Prints
// "runs" when it has run once; at its end how many runs and duplicates there were, and the longest
// time from one answer to the next in ms.
//
// stay_client MODEL: until standard input ends; exits 0 if every call succeeded, else 1 with words.
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rknn_api.h"
#include "rknnd.h"

#define RUNS_PER_DUPLICATE 8

struct stay {
    rknn_context context;
    rknn_input input;
    unsigned long runs, duplicates;
    double last_ms, longest_ms;
};

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, rknnd_last_error());
    return -1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run(struct stay *s, rknn_context context)
{
    rknn_output output = {.index = 0};
    if (rknn_inputs_set(context, 1, &s->input) < 0 || rknn_run(context, NULL) < 0 ||
        rknn_outputs_get(context, 1, &output, NULL) < 0)
        return fail("run");
    rknn_outputs_release(context, 1, &output);
    double now = now_ms(), gap = now - s->last_ms;
    if (s->runs++ > 0 && gap > s->longest_ms)
        s->longest_ms = gap;
    s->last_ms = now;
    return 0;
}

static int duplicate(struct stay *s)
{
    rknn_context beside = 0;
    if (rknn_dup_context(&s->context, &beside) < 0)
        return fail("duplicate");
    s->duplicates++;
    int r = run(s, beside);
    return rknn_destroy(beside) < 0 ? fail("destroy") : r;
}

static int stay(struct stay *s, char *model)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    rknn_tensor_attr attr = {.index = 0};
    int r = 0;
    if (rknn_init(&s->context, model, 0, 0, NULL) < 0 ||
        rknn_query(s->context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) < 0)
        return fail("init");
    s->input = (rknn_input){.buf = calloc(1, attr.n_elems),
                            .size = attr.n_elems,
                            .type = RKNN_TENSOR_UINT8,
                            .fmt = RKNN_TENSOR_NHWC};
    while (r == 0 && s->input.buf && (s->runs == 0 || poll(&input, 1, 0) == 0)) {
        r = run(s, s->context);
        if (r == 0 && s->runs == 1 && (puts("runs") < 0 || fflush(stdout) != 0))
            return fail("say so");
        if (r == 0 && s->runs % RUNS_PER_DUPLICATE == 0)
            r = duplicate(s);
    }
    return r;
}

int main(int argc, char **argv)
{
    struct stay s = {0};
    if (argc != 2)
        return 2;
    int r = stay(&s, argv[1]);
    free(s.input.buf);
    printf("%lu %lu %.1f\n", s.runs, s.duplicates, s.longest_ms);
    return r == 0 && s.runs > 0 ? 0 : 1;
}
