// Plain ping-pong over blocking sockets.
#include "tests/bench/plain.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_un local;
    struct sockaddr_in tcp;
};

static socklen_t make_address(const struct plain *p, union address *ret)
{
    memset(ret, 0, sizeof *ret);
    if (p->unix_path) {
        ret->local.sun_family = AF_UNIX;
        snprintf(ret->local.sun_path, sizeof ret->local.sun_path, "%s", p->unix_path);
        return sizeof ret->local;
    }
    ret->tcp.sin_family = AF_INET;
    ret->tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ret->tcp.sin_port = htons(p->tcp_port);
    return sizeof ret->tcp;
}

static int new_socket(const struct plain *p)
{
    int fd = socket(p->unix_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        load_fail("socket: %s", strerror(errno));
    if (!p->unix_path)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

// False at the end of the stream.
static bool read_all(int fd, char *buffer, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, buffer + done, size - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const char *buffer, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, buffer + done, size - done, MSG_NOSIGNAL);
        if (n < 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

// ---- server
// -----------------------------------------------------------------------------------------

struct peer {
    const struct plain *plain;
    int fd;
};

static void *serve(void *argument)
{
    struct peer *peer = argument;
    const struct plain *p = peer->plain;
    char *request = calloc(1, p->request), *reply = calloc(1, p->reply);
    while (request && reply && read_all(peer->fd, request, p->request) &&
           write_all(peer->fd, reply, p->reply))
        continue;
    close(peer->fd);
    free(request);
    free(reply);
    free(peer);
    return NULL;
}

static _Noreturn void accept_all(const struct plain *p, int listener)
{
    for (;;) {
        pthread_t thread;
        int on = 1;
        struct peer *peer = malloc(sizeof *peer);
        if (!peer)
            _exit(1);
        *peer = (struct peer){p, accept(listener, NULL, NULL)};
        if (peer->fd < 0)
            _exit(1);
        if (!p->unix_path)
            setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (pthread_create(&thread, NULL, serve, peer))
            _exit(1);
        pthread_detach(thread);
    }
}

uint16_t plain_free_port(void)
{
    struct plain p = {0};
    union address address;
    socklen_t size = make_address(&p, &address);
    int fd = new_socket(&p);
    if (bind(fd, &address.any, size) < 0 || getsockname(fd, &address.any, &size) < 0)
        load_fail("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.tcp.sin_port);
}

void plain_start(struct plain *p)
{
    union address address;
    int fd = new_socket(p);
    if (p->unix_path)
        unlink(p->unix_path);
    else
        p->tcp_port = plain_free_port();
    socklen_t size = make_address(p, &address);
    if (bind(fd, &address.any, size) < 0 || listen(fd, 64) < 0)
        load_fail("plain server: %s", strerror(errno));
    p->server = fork();
    if (p->server < 0)
        load_fail("fork: %s", strerror(errno));
    if (p->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        accept_all(p, fd);
    }
    close(fd);
}

void plain_stop(struct plain *p)
{
    kill(p->server, SIGKILL);
    waitpid(p->server, NULL, 0);
    if (p->unix_path)
        unlink(p->unix_path);
}

// ---- client
// -----------------------------------------------------------------------------------------

struct client {
    const struct plain *plain;
    int fd;
    char *request, *reply;
};

static void *client_open(const void *service)
{
    union address address;
    struct client *c = malloc(sizeof *c);
    if (!c)
        load_fail("out of memory");
    *c = (struct client){.plain = service};
    c->fd = new_socket(c->plain);
    c->request = calloc(1, c->plain->request);
    c->reply = calloc(1, c->plain->reply);
    socklen_t size = make_address(c->plain, &address);
    if (!c->request || !c->reply || connect(c->fd, &address.any, size) < 0)
        load_fail("plain client: %s", strerror(errno));
    return c;
}

static void client_call(void *client)
{
    struct client *c = client;
    if (!write_all(c->fd, c->request, c->plain->request) ||
        !read_all(c->fd, c->reply, c->plain->reply))
        load_fail("plain client: the connection is gone");
}

static void client_close(void *client)
{
    struct client *c = client;
    close(c->fd);
    free(c->request);
    free(c->reply);
    free(c);
}

const struct load_type plain_load_type = {client_open, client_call, client_close};
