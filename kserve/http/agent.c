// HAProxy's agent-check: it connects, reads a line, and that is all. A thread of its own answers,
// as the front's may all have work, which is just when the proxy has to hear of it. What peers say
// is not read.
#include "kserve/http/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/net/discard.h"
#include "kserve/model/pulse.h"

struct agent {
    pthread_t thread;
    int socket, stop;
    const struct pulse *pulse;
};

// A line fits every socket's buffer: this never waits for the peer.
static void answer_one(const struct agent *a)
{
    int fd = accept4(a->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    char line[32];
    unsigned free_now = pulse_free(a->pulse);
    int n = free_now ? snprintf(line, sizeof line, "up ready %u%%\n", free_now)
                     : snprintf(line, sizeof line, "down\n");
    if (fd >= 0) {
        send(fd, line, (size_t)n, MSG_NOSIGNAL);
        discard_socket(fd);
    } else if (errno == EMFILE || errno == ENFILE)
        poll(NULL, 0, 100);
}

static void *agent_run(void *owner)
{
    struct agent *a = owner;
    struct pollfd p[] = {{.fd = a->socket, .events = POLLIN}, {.fd = a->stop, .events = POLLIN}};
    for (;;) {
        poll(p, 2, -1);
        if (p[1].revents)
            return NULL;
        if (p[0].revents)
            answer_one(a);
    }
}

int agent_start(int socket, const struct pulse *pulse, struct agent **ret, struct error *e)
{
    struct agent *a = calloc(1, sizeof *a);
    if (!a)
        return error_no_memory(e, "a thread", sizeof *a);
    a->socket = socket;
    a->pulse = pulse;
    a->stop = eventfd(0, EFD_CLOEXEC);
    if (a->stop < 0 || pthread_create(&a->thread, NULL, agent_run, a) != 0) {
        fd_close(a->stop);
        free(a);
        return error_set(e, STATUS_FAIL, "the agent does not start");
    }
    *ret = a;
    return 0;
}

void agent_stop(struct agent *a)
{
    if (!a)
        return;
    eventfd_write(a->stop, 1);
    pthread_join(a->thread, NULL);
    fd_close(a->socket);
    fd_close(a->stop);
    free(a);
}
