// Sockets of the loopback interface are told apart from others, and only they choose how they send.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/fd.h"
#include "base/net/tcp.h"

static struct addrinfo *address(const char *text)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *ret;
    assert_int_equal(getaddrinfo(text, "1", &hints, &ret), 0);
    return ret;
}

static bool is_loopback(const char *text)
{
    struct addrinfo *a = address(text);
    bool is = tcp_is_loopback(a->ai_addr);
    freeaddrinfo(a);
    return is;
}

static void loopback_addresses_are_known(void **state)
{
    (void)state;
    assert_true(is_loopback("127.0.0.1"));
    assert_true(is_loopback("127.255.255.254"));
    assert_true(is_loopback("::1"));
    assert_false(is_loopback("126.255.255.255"));
    assert_false(is_loopback("128.0.0.1"));
    assert_false(is_loopback("0.0.0.0"));
    assert_false(is_loopback("::"));
    assert_false(is_loopback("2001:db8::1"));
    assert_false(tcp_is_loopback(&(struct sockaddr){.sa_family = AF_UNIX}));
}

struct choice {
    int no_delay;
    char control[16];
};

// What a new socket has, when it has been prepared for a peer (NULL: it has not).
static struct choice prepared(const char *peer)
{
    struct choice ret = {0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (peer) {
        struct addrinfo *a = address(peer);
        tcp_prepare(fd, a->ai_addr);
        freeaddrinfo(a);
    }
    assert_int_equal(
        getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &ret.no_delay, &(socklen_t){sizeof ret.no_delay}),
        0);
    assert_int_equal(
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ret.control, &(socklen_t){sizeof ret.control}),
        0);
    fd_close(fd);
    return ret;
}

static void only_the_loopback_interface_goes_without_pacing(void **state)
{
    (void)state;
    struct choice near = prepared("127.0.0.1"), far = prepared("192.0.2.1");
    assert_string_equal(near.control, "reno");
    assert_string_equal(far.control, prepared(NULL).control);
    assert_true(near.no_delay);
    assert_true(far.no_delay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_addresses_are_known),
        cmocka_unit_test(only_the_loopback_interface_goes_without_pacing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
