#include "tests/bench/service/bare_tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/load.h"

static const unsigned char key[16] = "0123456789abcde";

struct end {
    int fd;
    SSL *ssl; // NULL: the socket alone
    size_t request, reply;
    uint8_t *bytes;
};

static unsigned give_key(unsigned char *ret, unsigned size)
{
    if (size < sizeof key)
        return 0;
    memcpy(ret, key, sizeof key);
    return sizeof key;
}

static unsigned on_server_key(SSL *ssl, const char *identity, unsigned char *ret, unsigned size)
{
    (void)ssl, (void)identity;
    return give_key(ret, size);
}

static unsigned on_client_key(SSL *ssl, const char *hint, char *identity, unsigned identity_size,
                              unsigned char *ret, unsigned size)
{
    (void)ssl, (void)hint;
    strncpy(identity, "bare", identity_size);
    return give_key(ret, size);
}

static void end_put(const struct end *e, size_t size)
{
    size_t done = 0, n = 0;
    for (; done < size; done += n) {
        ssize_t r = 0;
        if (!e->ssl)
            r = write(e->fd, e->bytes + done, size - done);
        else if (SSL_write_ex(e->ssl, e->bytes + done, size - done, &n) != 1)
            r = -1;
        if (r < 0)
            load_fail("the yardstick cannot send");
        n = e->ssl ? n : (size_t)r;
    }
}

// False: the other end has closed.
static int end_take(const struct end *e, size_t size)
{
    size_t done = 0, n = 0;
    for (; done < size; done += n) {
        ssize_t r = 1;
        if (!e->ssl)
            r = read(e->fd, e->bytes + done, size - done);
        else if (SSL_read_ex(e->ssl, e->bytes + done, size - done, &n) != 1)
            r = 0;
        if (r <= 0)
            return 0;
        n = e->ssl ? n : (size_t)r;
    }
    return 1;
}

static SSL *make_tls(const SSL_METHOD *method, int fd)
{
    SSL_CTX *c = SSL_CTX_new(method);
    if (!c || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") != 1)
        load_fail("no TLS for the yardstick");
    SSL_CTX_set_psk_server_callback(c, on_server_key);
    SSL_CTX_set_psk_client_callback(c, on_client_key);
    SSL *ssl = SSL_new(c);
    SSL_CTX_free(c);
    if (!ssl || SSL_set_fd(ssl, fd) != 1)
        load_fail("no TLS session for the yardstick");
    return ssl;
}

static void *serve(void *owner)
{
    struct end *e = owner;
    if (e->ssl && SSL_accept(e->ssl) != 1)
        load_fail("the yardstick's handshake");
    while (end_take(e, e->request))
        end_put(e, e->reply);
    return NULL;
}

static void connect_pair(int ret[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        connect(ret[0], (struct sockaddr *)&address, size) < 0)
        load_fail("no sockets for the yardstick");
    ret[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(ret[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void end_done(struct end *e)
{
    SSL_free(e->ssl);
    close(e->fd);
    free(e->bytes);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double bare_tls_measure(int tls, size_t request, size_t reply, double seconds)
{
    struct end ends[2]; // client, server
    pthread_t server;
    int fds[2];
    connect_pair(fds);
    for (int i = 0; i < 2; i++) {
        ends[i] = (struct end){.fd = fds[i], .request = request, .reply = reply};
        ends[i].bytes = calloc(1, request > reply ? request : reply);
        if (tls)
            ends[i].ssl = make_tls(i ? TLS_server_method() : TLS_client_method(), fds[i]);
    }
    pthread_create(&server, NULL, serve, &ends[1]);
    if (tls && SSL_connect(ends[0].ssl) != 1)
        load_fail("the yardstick's handshake");
    unsigned n = 0;
    double begin = now_s(), took;
    do {
        end_put(&ends[0], request);
        if (!end_take(&ends[0], reply))
            load_fail("the yardstick's server has gone");
        n++;
    } while ((took = now_s() - begin) < seconds);
    shutdown(fds[0], SHUT_RDWR);
    pthread_join(server, NULL);
    end_done(&ends[0]);
    end_done(&ends[1]);
    return n / took;
}
