// Programs that end, or let the library go, with a context open. exit_client LIBRARY HOW MODEL
//
// LIBRARY is opened by dlopen(); "-": it is there already (linked, or preloaded). Exits 0 in the
// end where HOW does not say otherwise, and 1 with words when a call fails.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rknn_custom_op.h"

#define N_CONTEXTS 8

#define FUNCTIONS(X)                                                                               \
    X(rknn_init)                                                                                   \
    X(rknn_query) X(rknn_inputs_set) X(rknn_run) X(rknn_destroy) X(rknn_register_custom_ops)

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
} api;

static void *library;
static const char *path, *model;

static void need(int r, const char *what)
{
    if (r == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, r);
    _exit(1);
}

static void find_functions(void)
{
    library = strcmp(path, "-") != 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    need(!library && strcmp(path, "-") != 0, "dlopen");
#define X(name)                                                                                    \
    *(void **)&api.name = dlsym(library ? library : RTLD_DEFAULT, #name);                          \
    need(!api.name, #name);
    FUNCTIONS(X)
#undef X
}

static rknn_context open_context(void)
{
    rknn_context c = 0;
    need(api.rknn_init(&c, (void *)(uintptr_t)model, 0, 0, NULL), "rknn_init");
    return c;
}

// Inputs of zeros, as many as the model has.
static void set_inputs(rknn_context c)
{
    rknn_input_output_num n = {0, 0};
    need(api.rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n), "rknn_query");
    for (uint32_t i = 0; i < n.n_input; i++) {
        rknn_tensor_attr a = {.index = i};
        need(api.rknn_query(c, RKNN_QUERY_INPUT_ATTR, &a, sizeof a), "rknn_query");
        rknn_input in = {.index = i,
                         .buf = calloc(1, a.n_elems),
                         .size = a.n_elems,
                         .type = RKNN_TENSOR_UINT8,
                         .fmt = a.fmt};
        need(api.rknn_inputs_set(c, 1, &in), "rknn_inputs_set");
        free(in.buf);
    }
}

// Goes on with the context behind dlclose(), and with the library when it is opened again.
static int close_library(void)
{
    rknn_context first = open_context(), c = open_context();
    rknn_input_output_num n = {0, 0};
    need(dlclose(library), "dlclose");
    need(api.rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n), "rknn_query behind dlclose()");
    find_functions();
    need(api.rknn_destroy(c), "rknn_destroy");
    need(dlclose(library), "dlclose");
    (void)first;
    return 0;
}

static int leave_contexts(void)
{
    for (int i = 0; i < N_CONTEXTS; i++)
        open_context();
    return 0;
}

static int exit_3(rknn_custom_op_context *op, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                  rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)op, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    exit(3);
}

static int exit_in_callback(void)
{
    rknn_custom_op op = {.version = 1,
                         .target = RKNN_TARGET_TYPE_CPU,
                         .op_type = "cstDualResidual",
                         .compute = exit_3};
    rknn_context c = open_context();
    need(api.rknn_register_custom_ops(c, &op, 1), "rknn_register_custom_ops");
    set_inputs(c);
    need(api.rknn_run(c, NULL), "rknn_run");
    return 1;
}

static pthread_barrier_t begun;

static void *run(void *arg)
{
    rknn_context c = *(rknn_context *)arg;
    pthread_barrier_wait(&begun);
    api.rknn_run(c, NULL);
    return NULL;
}

// The runs take longer than the program.
static int exit_beside_runs(void)
{
    static rknn_context contexts[N_CONTEXTS];
    pthread_t thread;
    pthread_barrier_init(&begun, NULL, N_CONTEXTS + 1);
    for (int i = 0; i < N_CONTEXTS; i++) {
        contexts[i] = open_context();
        set_inputs(contexts[i]);
        need(pthread_create(&thread, NULL, run, &contexts[i]), "pthread_create");
    }
    pthread_barrier_wait(&begun);
    return 0;
}

static void exit_4(int signal)
{
    (void)signal;
    exit(4); // NOLINT(bugprone-signal-handler,cert-sig30-c): programs do that, and it is what is
             // tested
}

// Wherever the signal finds it.
static int exit_in_handler(void)
{
    struct itimerval t = {.it_value = {0, 1 + getpid() * 7919L % 30000}};
    open_context();
    signal(SIGALRM, exit_4);
    setitimer(ITIMER_REAL, &t, NULL);
    while (api.rknn_destroy(open_context()) == 0)
        continue;
    return 1;
}

static int exit_in_child(void)
{
    int status;
    open_context();
    pid_t child = fork();
    if (child == 0) {
        open_context();
        exit(5);
    }
    need(waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5,
         "the child");
    return 0;
}

static const struct {
    const char *name;
    int (*end)(void);
} ways[] = {
    {"close", close_library},     {"return", leave_contexts},   {"callback", exit_in_callback},
    {"beside", exit_beside_runs}, {"handler", exit_in_handler}, {"child", exit_in_child},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 4 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[2], ways[i].name) == 0) {
            path = argv[1];
            model = argv[3];
            find_functions();
            return ways[i].end();
        }
    fprintf(stderr, "usage: %s LIBRARY HOW MODEL\n", argv[0]);
    return 2;
}
