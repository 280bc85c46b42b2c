// A plugin that takes all there is of one thing (BOMB), and keeps it.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/hostile/plugin.h"
#include "worker/breadcrumbs.h"

#define MEMORY  0
#define THREADS 1
#define FILES   2
#define WORDS   3
#define HOARD   4 // threads, but for a few

#define LIAR 5 // some threads at first, and then the exit code of a worker that can have none

#define FEW  2
#define SOME 30

#define PIECE (4u << 20)

static void *sleep_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static sem_t few;

static void *wait_for_few(void *unused)
{
    sem_wait(&few);
    return unused;
}

static void take_threads(void *(*body)(void *))
{
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (pthread_create(&thread, &small, body, NULL) == 0)
        continue;
}

// Returns when there is no more of it.
static void take(void)
{
    switch (BOMB) {
    case MEMORY:
        for (void *piece; (piece = malloc(PIECE));)
            memset(piece, 1, PIECE);
        break;
    case THREADS:
        take_threads(sleep_for_ever);
        break;
    case HOARD:
        take_threads(wait_for_few);
        for (int i = 0; i < FEW; i++)
            sem_post(&few);
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

static int lie(void)
{
    static int runs;
    pthread_t thread;
    if (++runs == 2)
        _exit(WORKER_EXIT_NO_THREADS);
    for (int i = 0; i < SOME; i++)
        pthread_create(&thread, NULL, sleep_for_ever, NULL);
    return 0;
}

static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c, (void)inputs, (void)n_inputs, (void)outputs, (void)n_outputs;
    if (BOMB == LIAR)
        return lie();
    fprintf(stderr, "bomb: begins\n");
    sem_init(&few, 0, 0);
    take();
    fprintf(stderr, "bomb: has all\n");
    while (BOMB == THREADS || BOMB == HOARD) { // what others have given back
        usleep(10000);
        take();
    }
    sleep_for_ever(NULL);
    return 0;
}
