// Stands in for `rknnd --adopt FD` in tests of sim: URIs. Writes one line about itself into the
// FIFO that FAKE_DAEMON_FIFO names and keeps that open as long as it lives: "PID ARGUMENTS... |
// FDS...".
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "fake_server.h"

static struct fake_server server;

static void report(int argc, char **argv)
{
    char line[1000], *at = line, *end = line + sizeof line;
    DIR *d = opendir("/proc/self/fd");
    at += snprintf(at, (size_t)(end - at), "%d", (int)getpid());
    for (int i = 1; i < argc; i++)
        at += snprintf(at, (size_t)(end - at), " %s", argv[i]);
    at += snprintf(at, (size_t)(end - at), " |");
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d))
            at += snprintf(at, (size_t)(end - at), " %s", e->d_name);
    if (d)
        closedir(d);
    *at++ = '\n';
    const char *path = getenv("FAKE_DAEMON_FIFO");
    int fifo = path ? open(path, O_WRONLY) : -1;
    if (fifo < 0 || write(fifo, line, (size_t)(at - line)) < 0)
        abort();
}

static void *serve(void *fd)
{
    fake_serve(&server, (int)(intptr_t)fd);
    return NULL;
}

int main(int argc, char **argv)
{
    report(argc, argv);
    if (strcmp(argv[2], "sim:broken") == 0)
        return 1;
    if (strcmp(argv[2], "sim:wordy") == 0)
        return dprintf(atoi(argv[4]), "there is no chip \"wordy\"") < 0 ? 2 : 1;
    fake_server_init(&server);
    server.session = (uint64_t)getpid() * 1000; // unlike those of any other
    for (;;) {
        char byte;
        int fd, n_fds = 0;
        if (fd_receive(atoi(argv[4]), &byte, 1, &fd, &n_fds, 1) <= 0)
            return 0;
        pthread_t t;
        atomic_fetch_add(&server.n_open, 1);
        if (n_fds != 1 || pthread_create(&t, NULL, serve, (void *)(intptr_t)fd) != 0)
            abort();
        pthread_detach(t);
    }
}
