// Clients that repeat a call for a while.
#include "tests/bench/load.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_CALLS 400000u // of one client; more are made but their times not kept

struct load {
    const struct load_type *type;
    const void *service;
    pthread_barrier_t begin;
    double seconds;
};

struct client {
    struct load *load;
    pthread_t thread;
    uint64_t *call_ns;
    size_t n_kept, n_calls;
    uint64_t counted_ns;
};

void load_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *client_thread(void *argument)
{
    struct client *c = argument;
    struct load *l = c->load;
    void *client = l->type->open(l->service);
    l->type->call(client); // whatever is set up on first use
    pthread_barrier_wait(&l->begin);
    uint64_t before = now_ns(), start = before + (uint64_t)(l->seconds * 1e8);
    uint64_t end = before + (uint64_t)(l->seconds * 1e9), counted_from = 0;
    while (before < end) {
        l->type->call(client);
        uint64_t after = now_ns();
        if (before >= start) {
            counted_from = counted_from ? counted_from : before;
            c->n_calls++;
            c->counted_ns = after - counted_from;
            if (c->n_kept < MAX_CALLS)
                c->call_ns[c->n_kept++] = after - before;
        }
        before = after;
    }
    l->type->close(client);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(const struct client *clients, unsigned n_clients)
{
    size_t n = 0, at = 0;
    for (unsigned i = 0; i < n_clients; i++)
        n += clients[i].n_kept;
    uint64_t *all = malloc(n * sizeof *all + 1);
    if (!all || n == 0)
        load_fail("nothing was measured: calls take longer than the whole measurement");
    for (unsigned i = 0; i < n_clients; i++) {
        memcpy(all + at, clients[i].call_ns, clients[i].n_kept * sizeof *all);
        at += clients[i].n_kept;
    }
    qsort(all, n, sizeof *all, compare);
    size_t middle = n / 2;
    double median = (double)all[middle] / 1e3;
    free(all);
    return median;
}

struct load_result load_measure(const struct load_type *type, const void *service,
                                unsigned n_clients, double seconds)
{
    struct load load = {.type = type, .service = service, .seconds = seconds};
    struct client *clients = calloc(n_clients, sizeof *clients);
    struct load_result result = {0};
    if (!clients || pthread_barrier_init(&load.begin, NULL, n_clients))
        load_fail("cannot set up %u clients", n_clients);
    for (unsigned i = 0; i < n_clients; i++) {
        clients[i] =
            (struct client){.load = &load, .call_ns = malloc(MAX_CALLS * sizeof(uint64_t))};
        if (!clients[i].call_ns ||
            pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]))
            load_fail("cannot start client %u", i);
    }
    for (unsigned i = 0; i < n_clients; i++) {
        pthread_join(clients[i].thread, NULL);
        if (clients[i].counted_ns)
            result.per_second += (double)clients[i].n_calls * 1e9 / (double)clients[i].counted_ns;
    }
    result.median_us = median_us(clients, n_clients);
    for (unsigned i = 0; i < n_clients; i++)
        free(clients[i].call_ns);
    free(clients);
    pthread_barrier_destroy(&load.begin);
    return result;
}
