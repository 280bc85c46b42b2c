// Fuzzes what an adb server answers: a thread is that server, says the input to everybody who
// connects, and hears nothing.
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/in.h>

#include "client/transport/adb_server.h"

#define MAX_BOARDS 4
#define MAX_WORDS  16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

static struct {
    int listener;
    pthread_mutex_t lock;
    uint8_t words[MAX_WORDS]; // under the lock
    size_t size;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t take_words(uint8_t ret[MAX_WORDS])
{
    pthread_mutex_lock(&server.lock);
    size_t size = server.size;
    memcpy(ret, server.words, size);
    pthread_mutex_unlock(&server.lock);
    return size;
}

static void set_words(const uint8_t *words, size_t size)
{
    pthread_mutex_lock(&server.lock);
    server.size = size < MAX_WORDS ? size : MAX_WORDS;
    memcpy(server.words, words, server.size);
    pthread_mutex_unlock(&server.lock);
}

static void *serve(void *unused)
{
    uint8_t asked[4096], words[MAX_WORDS];
    (void)unused;
    for (;;) {
        int fd = accept(server.listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        send(fd, words, take_words(words), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, asked, sizeof asked, 0) > 0)
            continue;
        close(fd);
    }
}

static void start(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    char where[40];
    pthread_t thread;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(bind(server.listener, (struct sockaddr *)&a, size) == 0);
    must(listen(server.listener, 16) == 0);
    must(getsockname(server.listener, (struct sockaddr *)&a, &size) == 0);
    snprintf(where, sizeof where, "tcp:127.0.0.1:%u", ntohs(a.sin_port));
    setenv("ADB_SERVER_SOCKET", where, 1);
    must(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
}

static void check_boards(const struct adb_device *boards, int n)
{
    for (int i = 0; i < n && i < MAX_BOARDS; i++) {
        must(strlen(boards[i].serial) < sizeof boards[i].serial);
        must(strlen(boards[i].state) < sizeof boards[i].state);
        must(!strchr(boards[i].serial, '\t') && !strchr(boards[i].state, '\n'));
        must(*adb_advice(boards[i].state));
    }
}

// The first byte says what is asked.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct adb_device boards[MAX_BOARDS];
    struct error e = {0};
    unsigned version;
    if (size == 0)
        return 0;
    if (!server.listener)
        start();
    set_words(data + 1, size - 1);
    int r;
    if (data[0] % 3 == 0) {
        r = adb_list(boards, MAX_BOARDS, &e);
        check_boards(boards, r);
    } else if (data[0] % 3 == 1) {
        r = adb_version(&version, &e);
    } else {
        r = adb_connect("serial", &e);
        if (r >= 0)
            close(r);
    }
    must(r >= 0 || *e.text);
    return 0;
}
