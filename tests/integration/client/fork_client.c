// Runs a model before a fork(), in the child and in the parent. fork_client MODEL
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rknn_api.h"
#include "rknnd.h"

static int run_once(const char *model)
{
    static uint8_t image[8 * 8];
    rknn_context context;
    rknn_input in = {
        .buf = image, .size = sizeof image, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    rknn_output out = {.want_float = 1};
    int r = rknn_init(&context, (void *)(uintptr_t)model, 0, 0, NULL);
    if (r == 0)
        r = rknn_inputs_set(context, 1, &in);
    if (r == 0)
        r = rknn_run(context, NULL);
    if (r == 0)
        r = rknn_outputs_get(context, 1, &out, NULL);
    if (r == 0)
        r = rknn_outputs_release(context, 1, &out);
    if (r == 0)
        r = rknn_destroy(context);
    if (r < 0)
        fprintf(stderr, "%s\n", rknnd_last_error());
    return r < 0;
}

int main(int argc, char **argv)
{
    int status = 1;
    if (argc != 2 || run_once(argv[1]) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(run_once(argv[1]));
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 1;
    return run_once(argv[1]) != 0 || status != 0;
}
