// A plugin that takes all there is of one thing (BOMB), and keeps it.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/hostile/plugin.h"

#define MEMORY  0
#define THREADS 1
#define FILES   2
#define WORDS   3

#define PIECE (4u << 20)

static void *sleep_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

// Returns when there is no more of it.
static void take(void)
{
    pthread_t thread;
    pthread_attr_t small;
    switch (BOMB) {
    case MEMORY:
        for (void *piece; (piece = malloc(PIECE));)
            memset(piece, 1, PIECE);
        break;
    case THREADS:
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 65536);
        while (pthread_create(&thread, &small, sleep_for_ever, NULL) == 0)
            continue;
        break;
    case FILES:
        while (dup(STDERR_FILENO) >= 0)
            continue;
        break;
    default:
        for (;;)
            fprintf(stderr, "E %4000d\n", 0);
    }
}

static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    fprintf(stderr, "bomb: begins\n");
    take();
    fprintf(stderr, "bomb: has all\n");
    sleep_for_ever(NULL);
    return 0;
}
