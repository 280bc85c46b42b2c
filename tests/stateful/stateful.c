// A fuzzer that holds state: some clients of a real server, which say right things in any order,
// about live and dead contexts, memories, dumps, calls of operators and descriptors, with several
// connections and sessions at a time, and now and then something that is not right. Every question
// has its answer, every result that is known is right, and no connection ends without a reason.
//
// stateful SOCKET SEED MESSAGES FILE[:BYTES]…: BYTES are those of the outputs of the file's custom
// operator. Exits 0 after so many messages and once everything is answered, else 1 with words. What
// it prints last: how many messages, and how many answers of each type (type:good/errors).
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "tests/stateful/world.h"

#define PATIENCE_S 120

struct world world;
static uint64_t seed;

void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu, after %llu messages: ", (unsigned long long)seed,
            (unsigned long long)world.said);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

// splitmix64
uint32_t below(uint32_t n)
{
    uint64_t z = world.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

bool chance(uint32_t of_1000)
{
    return below(1000) < of_1000;
}

static void read_file(char *words)
{
    struct file *f = &world.files[world.n_files++];
    struct stat st;
    struct error e;
    char *colon = strrchr(words, ':');
    f->node_size = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (colon)
        *colon = 0;
    int fd = open(words, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        wrong("%s: %s", words, strerror(errno));
    f->size = (size_t)st.st_size;
    f->data = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (f->data == MAP_FAILED || sha256(f->data, f->size, f->sha256, &e) < 0)
        wrong("%s cannot be read", words);
}

// ---- turns --------------------------------------------------------------------------------------

static void crowd_wait(int ms)
{
    struct pollfd fds[N_CLIENTS];
    for (unsigned i = 0; i < N_CLIENTS; i++) {
        const struct client *c = &world.clients[i];
        fds[i] = (struct pollfd){.fd = c->fd, .events = POLLIN};
        if (c->fd >= 0 && c->out.bytes > c->held_back)
            fds[i].events |= POLLOUT;
    }
    poll(fds, N_CLIENTS, ms);
    for (unsigned i = 0; i < N_CLIENTS; i++) {
        client_flush(&world.clients[i]);
        client_receive(&world.clients[i]);
    }
}

// Until everything is answered that must be.
static void crowd_settle(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t end = now.tv_sec + PATIENCE_S;;) {
        unsigned left = 0, type = 0;
        for (struct client *c = world.clients; c < world.clients + N_CLIENTS; c++) {
            if (c->fd < 0)
                continue;
            client_conclude(c);
            if (c->may_end)
                continue;
            left += client_unanswered(c);
            for (unsigned i = 0; i < N_REQUESTS; i++)
                type = c->requests[i].type ? c->requests[i].type : type;
        }
        if (left == 0)
            return;
        crowd_wait(20);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end)
            wrong("%u requests are never answered; one is of type %u", left, type);
    }
}

static void join(struct client *c)
{
    struct client *other = &world.clients[below(N_CLIENTS)];
    bool same = other->fd >= 0 && other->session && chance(400);
    struct client before = *other;
    client_connect(c);
    client_hello(c, same ? &before : NULL);
}

// Every file is there, and the results of those that need no program are known.
static void crowd_begin(void)
{
    struct client *c = &world.clients[0];
    client_connect(c);
    client_hello(c, NULL);
    crowd_settle();
    for (unsigned i = 0; i < world.n_files; i++) {
        struct file *f = &world.files[i];
        while (c->n_contexts <= i) {
            if (c->may_end) // something was spoilt by chance
                wrong("a bad beginning; take another seed");
            client_offer(c, f);
            client_chunk(c, f, 0);
            crowd_settle();
            client_open(c, f);
            crowd_settle();
        }
        client_infer(c, &c->contexts[i], true);
        crowd_settle();
    }
}

static void turn(void)
{
    struct client *c = &world.clients[below(N_CLIENTS)];
    if (c->fd < 0)
        join(c);
    else if (chance(1) && chance(500))
        client_close(c);
    else
        client_act(c);
    if (chance(150))
        crowd_wait(chance(30) ? 5 : 0);
}

// A new connection's state may not be another's.
static void crowd_end(void)
{
    crowd_settle();
    for (struct client *c = world.clients; c < world.clients + N_CLIENTS; c++)
        if (c->fd >= 0 && c->session && !c->may_end)
            client_ask_status(c);
    crowd_settle();
    for (struct client *c = world.clients; c < world.clients + N_CLIENTS; c++)
        client_close(c);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 4 + N_FILES)
        return 2;
    world.path = argv[1];
    seed = world.random = strtoull(argv[2], NULL, 10);
    uint64_t messages = strtoull(argv[3], NULL, 10);
    const char *level = getenv("RKNN_SERVER_LOGLEVEL");
    world.log_level = level ? (uint32_t)strtoul(level, NULL, 10) : 0;
    for (int i = 4; i < argc; i++)
        read_file(argv[i]);
    for (struct client *c = world.clients; c < world.clients + N_CLIENTS; c++)
        c->fd = -1;
    crowd_begin();
    while (world.said < messages) {
        for (int i = 0; i < 20000 && world.said < messages; i++)
            turn();
        crowd_settle();
    }
    crowd_end();
    printf("%llu messages;", (unsigned long long)world.said);
    for (unsigned i = 0; i < MAX_ANSWERS; i++)
        if (world.answers[i] || world.errors[i])
            printf(" %u:%llu/%llu", i, (unsigned long long)world.answers[i],
                   (unsigned long long)world.errors[i]);
    printf("\n");
    return 0;
}
