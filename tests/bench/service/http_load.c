// One request over and over on several connections that stay open, and servers that do nothing but
// take bodies and answer as many bytes: a bare libmicrohttpd with a thread for each connection, one
// with a thread for each processor, and sockets without anything that knows HTTP. What an HTTP
// server costs at the least.
//
//     http_load echo PORT BYTES [threads|pool|socket]   serves until its standard input ends
//     http_load load PORT CONNECTIONS SECONDS FILE  sends FILE; prints requests a second, p50, p99
//     (us)
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define MAX_ANSWERS 4000000

static size_t echo_size;

// A body while it comes; what a server of requests has to do at the least.
struct echo {
    size_t n, room;
    char body[];
};

static enum MHD_Result on_echo(void *owner, struct MHD_Connection *c, const char *url,
                               const char *method, const char *version, const char *data,
                               size_t *size, void **state)
{
    (void)owner, (void)url, (void)method, (void)version;
    struct echo *e = *state;
    if (!e) {
        const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
        size_t room = length ? strtoul(length, NULL, 10) : 0;
        e = *state = malloc(sizeof *e + room);
        if (!e)
            return MHD_NO;
        *e = (struct echo){.room = room};
        return MHD_YES;
    }
    if (*size > 0 && *size <= e->room - e->n) {
        memcpy(e->body + e->n, data, *size);
        e->n += *size;
        *size = 0;
        return MHD_YES;
    }
    char *body = malloc(echo_size + 1);
    if (!body)
        return MHD_NO;
    memset(body, 0, echo_size);
    struct MHD_Response *r =
        MHD_create_response_from_buffer(echo_size, body, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result queued = MHD_queue_response(c, MHD_HTTP_OK, r);
    MHD_destroy_response(r);
    return queued;
}

static void on_echoed(void *owner, struct MHD_Connection *c, void **state,
                      enum MHD_RequestTerminationCode why)
{
    (void)owner, (void)c, (void)why;
    free(*state);
    *state = NULL;
}

static void wait_for_end(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

static int serve_echo(uint16_t port, bool pool)
{
    unsigned flags =
        pool ? MHD_USE_EPOLL_INTERNAL_THREAD
             : MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct MHD_Daemon *d =
        MHD_start_daemon(flags, port, NULL, NULL, on_echo, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)131072, MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)65536,
                         MHD_OPTION_NOTIFY_COMPLETED, on_echoed, NULL, MHD_OPTION_THREAD_POOL_SIZE,
                         pool ? (unsigned)processors : 0, MHD_OPTION_END);
    if (!d)
        return 1;
    wait_for_end();
    MHD_stop_daemon(d);
    return 0;
}

// ---- sockets alone ------------------------------------------------------------------------------

// Reads a head, and as many bytes as that says; what came of both at once is in `buffer`.
static bool take_message(int fd, char *buffer, size_t room)
{
    size_t n = 0;
    char *body;
    do {
        ssize_t got = recv(fd, buffer + n, room - 1 - n, 0);
        if (got <= 0)
            return false;
        n += (size_t)got;
        buffer[n] = 0;
    } while (!(body = strstr(buffer, "\r\n\r\n")));
    const char *length = strcasestr(buffer, "\r\nContent-Length:");
    size_t head = (size_t)(body + 4 - buffer), has = n - head,
           left = length ? strtoul(length + 17, NULL, 10) : 0;
    while (has < left) {
        ssize_t got = recv(fd, buffer + head, room - head, 0);
        if (got <= 0)
            return false;
        has += (size_t)got;
    }
    return true;
}

static void *echo_socket(void *owner)
{
    int fd = (int)(intptr_t)owner;
    char *answer = NULL, buffer[65536];
    int n = asprintf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%*s", echo_size,
                     (int)echo_size, "");
    while (n > 0 && take_message(fd, buffer, sizeof buffer)) {
        ssize_t sent = 0, part = 1;
        for (; sent < n && part > 0; sent += part)
            part = send(fd, answer + sent, (size_t)(n - sent), MSG_NOSIGNAL);
    }
    free(answer);
    close(fd);
    return NULL;
}

static void *accept_all(void *owner)
{
    int listener = (int)(intptr_t)owner, fd, one = 1;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        pthread_t thread;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (pthread_create(&thread, NULL, echo_socket, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
    return NULL;
}

static int serve_sockets(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 64) < 0 ||
        pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)fd) != 0)
        return 1;
    wait_for_end();
    exit(0);
}

// ---- load ---------------------------------------------------------------------------------------

struct load {
    uint16_t port;
    const char *request;
    size_t size;
    uint64_t end_ns;
    uint32_t *us;
    unsigned n, room;
    pthread_t thread;
};

static _Noreturn void load_fails(const char *why)
{
    fprintf(stderr, "http_load: %s\n", why);
    exit(1);
}

static void read_answer(int fd)
{
    char buffer[65536];
    if (!take_message(fd, buffer, sizeof buffer))
        load_fails("the server ended the connection");
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0)
        load_fails(buffer);
}

static void *run_load(void *owner)
{
    struct load *l = owner;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(l->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        load_fails("nobody listens");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (clock_ns() < l->end_ns && l->n < l->room) {
        uint64_t begin = clock_ns();
        for (size_t sent = 0; sent < l->size;) {
            ssize_t n = send(fd, l->request + sent, l->size - sent, MSG_NOSIGNAL);
            if (n <= 0)
                load_fails("the server ended the connection");
            sent += (size_t)n;
        }
        read_answer(fd);
        l->us[l->n++] = (uint32_t)((clock_ns() - begin) / 1000);
    }
    close(fd);
    return NULL;
}

static int compare_us(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int load_server(uint16_t port, unsigned n, double seconds, const char *path)
{
    static char request[8 << 20];
    FILE *f = fopen(path, "rb");
    size_t size = f ? fread(request, 1, sizeof request, f) : 0;
    struct load *all = calloc(n, sizeof *all);
    uint32_t *us = calloc(MAX_ANSWERS, sizeof *us);
    uint64_t begin = clock_ns(), total = 0;
    if (!size || !all || !us)
        load_fails("no request");
    fclose(f);
    for (unsigned i = 0; i < n; i++) {
        all[i] = (struct load){.port = port,
                               .request = request,
                               .size = size,
                               .end_ns = begin + (uint64_t)(seconds * 1e9),
                               .us = us + (size_t)i * (MAX_ANSWERS / n),
                               .room = MAX_ANSWERS / n};
        if (pthread_create(&all[i].thread, NULL, run_load, &all[i]) != 0)
            load_fails("no thread");
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(all[i].thread, NULL);
    double took = (double)(clock_ns() - begin) / 1e9;
    for (unsigned i = 0; i < n; i++) {
        memmove(us + total, all[i].us, all[i].n * sizeof *us);
        total += all[i].n;
    }
    qsort(us, total, sizeof *us, compare_us);
    printf("%.1f %u %u\n", (double)total / took, us[total / 2], us[total * 99 / 100]);
    free(all);
    free(us);
    return 0;
}

int main(int argc, char **argv)
{
    if ((argc == 4 || argc == 5) && strcmp(argv[1], "echo") == 0) {
        const char *way = argc == 5 ? argv[4] : "threads";
        echo_size = strtoul(argv[3], NULL, 10);
        uint16_t port = (uint16_t)strtoul(argv[2], NULL, 10);
        return strcmp(way, "socket") == 0 ? serve_sockets(port)
                                          : serve_echo(port, strcmp(way, "pool") == 0);
    }
    if (argc == 6 && strcmp(argv[1], "load") == 0)
        return load_server((uint16_t)strtoul(argv[2], NULL, 10),
                           (unsigned)strtoul(argv[3], NULL, 10), strtod(argv[4], NULL), argv[5]);
    fprintf(stderr, "usage: http_load echo PORT BYTES [threads|pool|socket] | "
                    "load PORT CONNECTIONS SECONDS FILE\n");
    return 2;
}
