// Streams carry the same bytes through a socket and through shared memory, wake whoever waits, end
// with the last byte, and outlive a peer that writes nonsense into the memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/net/stream.h"

#define PATIENCE_MS 20000
#define TOTAL       (24u << 20) // bytes each way
#define LARGE       (1u << 20)  // more than any pipe takes at once

static int pair[2];

static int set_up(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}

static ssize_t send_bytes(struct stream *s, const void *data, size_t size)
{
    return stream_send(s, &(struct iovec){(void *)data, size}, 1, NULL, 0);
}

static ssize_t receive(struct stream *s, void *into, size_t size)
{
    return stream_receive(s, into, size, NULL, NULL, 0);
}

// ---- both ways at once --------------------------------------------------------------------------

// What stands at a place of a stream.
static uint8_t byte_at(uint32_t seed, uint64_t at)
{
    return (uint8_t)((at * 2654435761u + seed) >> 13);
}

struct end {
    struct stream stream;
    uint32_t seed, peer_seed, random;
    size_t need; // it waits for
    uint64_t sent, received;
    bool right;
};

static uint32_t next_random(struct end *x)
{
    return x->random = x->random * 1664525u + 1013904223u;
}

static bool send_some(struct end *x)
{
    static _Thread_local uint8_t data[70000];
    size_t size = next_random(x) % sizeof data;
    size = size < TOTAL - x->sent ? size : (size_t)(TOTAL - x->sent);
    for (size_t i = 0; i < size; i++)
        data[i] = byte_at(x->seed, x->sent + i);
    struct iovec parts[2] = {{data, size / 3}, {data + size / 3, size - size / 3}};
    ssize_t n = stream_send(&x->stream, parts, 2, NULL, 0);
    x->right &= n > 0 || n == -EAGAIN || size == 0;
    x->sent += n > 0 ? (uint64_t)n : 0;
    return n == (ssize_t)size && x->sent < TOTAL;
}

static bool receive_some(struct end *x)
{
    static _Thread_local uint8_t data[50000];
    size_t size = 1 + next_random(x) % sizeof data;
    ssize_t n = receive(&x->stream, data, size);
    x->right &= n > 0 || n == -EAGAIN;
    for (ssize_t i = 0; i < n; i++)
        x->right &= data[i] == byte_at(x->peer_seed, x->received + (uint64_t)i);
    x->received += n > 0 ? (uint64_t)n : 0;
    return n == (ssize_t)size && x->received < TOTAL;
}

// Waits by poll() alone: a wake-up that is lost leaves it waiting.
static void *exchange(void *arg)
{
    struct end *x = arg;
    while (x->right && (x->sent < TOTAL || x->received < TOTAL)) {
        uint64_t left = TOTAL - x->received;
        short events = stream_events(&x->stream, x->need < left ? x->need : left, x->sent < TOTAL);
        struct pollfd p = {x->stream.fd, events, 0};
        x->right &= poll(&p, 1, PATIENCE_MS) == 1;
        stream_wake(&x->stream);
        for (int i = 0; i < 3 && x->received < TOTAL && receive_some(x); i++)
            continue;
        for (int i = 0; i < 3 && x->sent < TOTAL && send_some(x); i++)
            continue;
    }
    return NULL;
}

static void exchange_all(bool share, size_t need)
{
    pthread_t thread;
    struct end a = {.seed = 1, .peer_seed = 2, .random = 3, .need = need, .right = true};
    struct end b = {.seed = 2, .peer_seed = 1, .random = 5, .need = 1, .right = true};
    stream_init(&a.stream, pair[0], false);
    stream_init(&b.stream, pair[1], true);
    if (share)
        stream_share(&a.stream);
    assert_int_equal(stream_is_shared(&a.stream), share);
    assert_int_equal(pthread_create(&thread, NULL, exchange, &a), 0);
    exchange(&b);
    pthread_join(thread, NULL);
    assert_true(a.right);
    assert_true(b.right);
    assert_int_equal(stream_is_shared(&b.stream), share);
    stream_close(&a.stream);
    stream_close(&b.stream);
}

static void bytes_pass_through_a_socket(void **state)
{
    (void)state;
    exchange_all(false, 1);
}

static void bytes_pass_through_memory(void **state)
{
    (void)state;
    exchange_all(true, 1);
}

static void who_wants_more_is_woken_for_more(void **state)
{
    (void)state;
    exchange_all(true, LARGE);
}

// ---- waiting ------------------------------------------------------------------------------------

static struct stream asker, relay;

static void share(void)
{
    char first[8];
    stream_init(&asker, pair[0], false);
    stream_init(&relay, pair[1], true);
    stream_share(&asker);
    assert_int_equal(receive(&relay, first, sizeof first), -EAGAIN);
    assert_true(stream_is_shared(&asker));
    assert_true(stream_is_shared(&relay));
}

static void close_both(void)
{
    stream_close(&asker);
    stream_close(&relay);
}

// Whether poll() returns at once.
static bool wakes(struct stream *s, uint64_t need, bool room)
{
    struct pollfd p = {s->fd, stream_events(s, need, room), 0};
    return poll(&p, 1, 0) > 0;
}

static void polls_tell_what_is_there(void **state)
{
    (void)state;
    char text[16];
    share();
    assert_false(wakes(&relay, 1, false));
    assert_int_equal(send_bytes(&asker, "hello", 5), 5);
    assert_true(wakes(&relay, 1, false));
    stream_wake(&relay);
    assert_true(wakes(&relay, 1, false)); // it has not been read
    assert_true(wakes(&relay, 5, false));
    stream_wake(&relay);
    assert_false(wakes(&relay, 6, false));
    assert_int_equal(receive(&relay, text, 2), 2);
    assert_true(wakes(&relay, 1, false));
    assert_int_equal(receive(&relay, text + 2, sizeof text - 2), 3);
    assert_memory_equal(text, "hello", 5);
    stream_wake(&relay);
    assert_false(wakes(&relay, 1, false));
    close_both();
}

static void who_is_full_waits_for_room(void **state)
{
    (void)state;
    uint8_t *data = calloc(1, LARGE);
    share();
    ssize_t n = send_bytes(&asker, data, LARGE);
    assert_in_range(n, 1, LARGE - 1);
    assert_int_equal(send_bytes(&asker, data, 1), -EAGAIN);
    assert_false(wakes(&asker, 0, true));
    assert_int_equal(receive(&relay, data, LARGE), n);
    assert_true(wakes(&asker, 0, true));
    assert_int_equal(send_bytes(&asker, data, 1), 1);
    close_both();
    free(data);
}

static void what_was_written_before_the_end_is_read(void **state)
{
    (void)state;
    char text[16];
    share();
    assert_int_equal(send_bytes(&relay, "goodbye", 7), 7);
    stream_close(&relay);
    assert_true(wakes(&asker, 100, false));
    stream_wake(&asker);
    assert_int_equal(receive(&asker, text, sizeof text), 7);
    assert_memory_equal(text, "goodbye", 7);
    assert_int_equal(receive(&asker, text, sizeof text), 0);
    assert_true(wakes(&asker, 1, false));
    assert_int_equal(send_bytes(&asker, "hello", 5), -EPIPE);
    close_both();
}

// ---- lent areas ---------------------------------------------------------------------------------

#define MESSAGES 300

static void fill(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_at(seed, i);
}

static void *receive_messages(void *arg)
{
    static uint8_t data[LARGE];
    for (uint32_t message = 0; message < MESSAGES; message++) {
        size_t size = 4 + STREAM_AREA_MIN + message * 1000, have = 0;
        while (have < size) {
            struct pollfd p = {relay.fd, stream_events(&relay, 1, false), 0};
            if (poll(&p, 1, PATIENCE_MS) != 1)
                return "not woken";
            stream_wake(&relay);
            size_t most = size - have < 30000 ? size - have : 30000;
            ssize_t n = receive(&relay, data + have, most);
            if (n < 0 && n != -EAGAIN)
                return "an error";
            have += n > 0 ? (size_t)n : 0;
        }
        for (size_t i = 4; i < size; i++)
            if (data[i] != byte_at(message, i - 4))
                return "wrong bytes";
    }
    *(bool *)arg = true;
    return "all is well";
}

static void send_all(const struct iovec *parts, int n)
{
    struct iovec left[3];
    memcpy(left, parts, (size_t)n * sizeof *parts);
    for (int i = 0; i < n;) {
        ssize_t sent = stream_send(&asker, left + i, n - i, NULL, 0);
        assert_true(sent > 0 || sent == -EAGAIN);
        for (; i < n && sent >= (ssize_t)left[i].iov_len; i++)
            sent -= (ssize_t)left[i].iov_len;
        if (i < n && sent > 0)
            left[i] =
                (struct iovec){(char *)left[i].iov_base + sent, left[i].iov_len - (size_t)sent};
        if (i == n)
            break;
        struct pollfd p = {asker.fd, stream_events(&asker, 0, true), 0};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        stream_wake(&asker);
    }
}

// Each message is made where the one before it was, or in an area that takes its place.
static void what_is_lent_arrives_in_order(void **state)
{
    (void)state;
    pthread_t thread;
    void *said = NULL;
    bool good = false;
    uint8_t *area = NULL;
    size_t capacity = 0;
    share();
    assert_int_equal(pthread_create(&thread, NULL, receive_messages, &good), 0);
    for (uint32_t message = 0; message < MESSAGES; message++) {
        size_t size = STREAM_AREA_MIN + message * 1000;
        if (size > capacity) {
            uint8_t *larger = stream_lend(&asker, 2, size + 40000);
            assert_non_null(larger);
            if (area)
                munmap(area, capacity);
            area = larger;
            capacity = size + 40000;
        }
        fill(area, size, message);
        const struct iovec parts[3] = {
            {"head", 4}, {area, size / 2}, {area + size / 2, size - size / 2}};
        send_all(parts, 3);
    }
    pthread_join(thread, &said);
    assert_string_equal(said, "all is well");
    assert_true(good);
    close_both();
    munmap(area, capacity);
}

static void what_is_lent_has_gone_when_it_is_read(void **state)
{
    (void)state;
    static uint8_t data[STREAM_AREA_MIN];
    share();
    uint8_t *area = stream_lend(&asker, 3, sizeof data);
    memset(area, 'a', sizeof data);
    assert_int_equal(stream_posted(&asker), 0);
    assert_int_equal(send_bytes(&asker, area, sizeof data), -EAGAIN);
    assert_int_equal(stream_posted(&asker), sizeof data);
    assert_true(stream_is_posted(&asker, 3));
    assert_false(stream_is_posted(&asker, 2));
    assert_false(wakes(&asker, 0, true));
    assert_true(wakes(&relay, sizeof data, false));
    assert_int_equal(receive(&relay, data, 1000), 1000);
    assert_int_equal(stream_posted(&asker), sizeof data);
    assert_false(wakes(&asker, 0, true));
    assert_int_equal(receive(&relay, data, sizeof data), sizeof data - 1000);
    assert_int_equal(data[sizeof data - 1001], 'a');
    assert_int_equal(stream_posted(&asker), 0);
    assert_false(stream_is_posted(&asker, 3));
    assert_true(wakes(&asker, 0, true));
    assert_int_equal(send_bytes(&asker, area, sizeof data), sizeof data);
    assert_int_equal(receive(&relay, data, sizeof data), -EAGAIN);
    close_both();
    munmap(area, sizeof data);
}

// Another area may be lent before a part of one is read, and in the middle of it.
static void more_is_lent_while_a_part_is_read(void **state)
{
    (void)state;
    static uint8_t data[STREAM_AREA_MIN];
    uint8_t *areas[3];
    share();
    for (unsigned i = 0; i < 3; i++) {
        areas[i] = stream_lend(&asker, i, sizeof data);
        assert_non_null(areas[i]);
        memset(areas[i], 'a' + (int)i, sizeof data);
        if (i == 0)
            assert_int_equal(send_bytes(&asker, areas[0], sizeof data), -EAGAIN);
        stream_wake(&relay);
        if (i == 1)
            assert_int_equal(receive(&relay, data, 1000), 1000);
    }
    assert_int_equal(receive(&relay, data, sizeof data), sizeof data - 1000);
    assert_int_equal(data[0], 'a');
    assert_int_equal(send_bytes(&asker, areas[0], sizeof data), sizeof data);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(send_bytes(&asker, areas[i], sizeof data), -EAGAIN);
        assert_int_equal(receive(&relay, data, sizeof data), sizeof data);
        assert_int_equal(data[sizeof data - 1], 'a' + (int)i);
        assert_int_equal(send_bytes(&asker, areas[i], sizeof data), sizeof data);
    }
    close_both();
    for (unsigned i = 0; i < 3; i++)
        munmap(areas[i], sizeof data);
}

static void a_socket_lends_nothing(void **state)
{
    (void)state;
    stream_init(&asker, pair[0], false);
    assert_null(stream_lend(&asker, 0, STREAM_AREA_MIN));
    stream_close(&asker);
    fd_close(pair[1]);
}

// ---- peers that do not keep to it ---------------------------------------------------------------

static void offer(int memory)
{
    char first[8];
    stream_init(&relay, pair[1], true);
    assert_int_equal(fd_send(pair[0], &(struct iovec){"", 1}, 1, &memory, 1), 1);
    assert_int_equal(receive(&relay, first, sizeof first), -EPROTO);
    assert_false(stream_is_shared(&relay));
    stream_close(&relay);
    fd_close(pair[0]);
    fd_close(memory);
}

static void memory_of_another_size_is_refused(void **state)
{
    (void)state;
    void *map;
    offer(fd_memory_sealed("test", 4096, 0, &map, NULL));
    munmap(map, 4096);
}

static void what_is_no_memory_is_refused(void **state)
{
    (void)state;
    offer(open("/dev/zero", O_RDWR | O_CLOEXEC));
}

// The memory of `asker`, as a peer may have it that does what it likes.
static uint8_t *take_memory(size_t *size)
{
    char first[8];
    int fd = -1, n_fds = 0;
    uint64_t bytes;
    stream_init(&asker, pair[0], false);
    stream_share(&asker);
    assert_int_equal(fd_receive(pair[1], first, sizeof first, &fd, &n_fds, 1), 1);
    assert_int_equal(fd_size(fd, &bytes, NULL), 0);
    uint8_t *map = fd_map(fd, bytes, NULL);
    assert_non_null(map);
    fd_close(fd);
    *size = (size_t)bytes;
    return map;
}

static void counters_that_cannot_be_are_errors(void **state)
{
    (void)state;
    size_t size;
    char text[16];
    uint8_t *memory = take_memory(&size);
    memset(memory, 0x5a, size);
    assert_int_equal(receive(&asker, text, sizeof text), -EPROTO);
    assert_int_equal(send_bytes(&asker, "hello", 5), -EPROTO);
    stream_close(&asker);
    fd_close(pair[1]);
    munmap(memory, size);
}

struct scribbler {
    uint8_t *memory;
    size_t size;
    atomic_bool ends;
};

// Mostly where counters may be: at the beginnings of pages and halves.
static void *scribble(void *arg)
{
    struct scribbler *s = arg;
    uint32_t random = 7;
    while (!atomic_load(&s->ends)) {
        random = random * 1664525u + 1013904223u;
        size_t at = (random >> 8) % 64 + (random & 1) * s->size / 2;
        volatile uint32_t *place = (volatile uint32_t *)(s->memory + at * 4 % s->size);
        *place = random >> 28 ? random >> 14 : random;
    }
    return NULL;
}

static void nonsense_in_the_memory_harms_nobody_else(void **state)
{
    (void)state;
    static uint8_t data[20000];
    struct scribbler s = {0};
    pthread_t thread;
    s.memory = take_memory(&s.size);
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    for (int i = 0; i < 20000; i++) {
        ssize_t n = send_bytes(&asker, data, sizeof data);
        assert_true(n == -EPROTO || n == -EAGAIN || (n > 0 && n <= (ssize_t)sizeof data));
        n = receive(&asker, data, sizeof data);
        assert_true(n == -EPROTO || n == -EAGAIN || (n > 0 && n <= (ssize_t)sizeof data));
        stream_events(&asker, 1, true);
    }
    atomic_store(&s.ends, true);
    pthread_join(thread, NULL);
    stream_close(&asker);
    fd_close(pair[1]);
    munmap(s.memory, s.size);
}

// A relay whose client does what it likes, with an area lent too.
static void nonsense_in_the_memory_harms_no_relay(void **state)
{
    (void)state;
    static uint8_t data[20000];
    struct scribbler s = {0};
    void *area;
    pthread_t thread;
    uint8_t *memory = take_memory(&s.size);
    munmap(memory, s.size);
    stream_close(&asker);
    fd_close(pair[1]);
    assert_int_equal(set_up(NULL), 0);
    int fd = fd_memory_sealed("test", s.size, 0, (void **)&s.memory, NULL);
    int lent = fd_memory_sealed("test", STREAM_AREA_MIN, 0, &area, NULL);
    stream_init(&relay, pair[1], true);
    assert_int_equal(fd_send(pair[0], &(struct iovec){"", 1}, 1, &fd, 1), 1);
    assert_int_equal(fd_send(pair[0], &(struct iovec){"", 1}, 1, &lent, 1), 1);
    assert_int_equal(receive(&relay, data, sizeof data), -EAGAIN);
    stream_wake(&relay);
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    for (int i = 0; i < 20000; i++) {
        ssize_t n = receive(&relay, data, 1 + (size_t)i);
        assert_true(n == -EPROTO || n == -EAGAIN || (n >= 0 && n <= 1 + (ssize_t)i));
        stream_events(&relay, 1, true);
    }
    atomic_store(&s.ends, true);
    pthread_join(thread, NULL);
    stream_close(&relay);
    munmap(s.memory, s.size);
    munmap(area, STREAM_AREA_MIN);
    fd_close(fd);
    fd_close(lent);
    fd_close(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bytes_pass_through_a_socket, set_up),
        cmocka_unit_test_setup(bytes_pass_through_memory, set_up),
        cmocka_unit_test_setup(who_wants_more_is_woken_for_more, set_up),
        cmocka_unit_test_setup(polls_tell_what_is_there, set_up),
        cmocka_unit_test_setup(who_is_full_waits_for_room, set_up),
        cmocka_unit_test_setup(what_was_written_before_the_end_is_read, set_up),
        cmocka_unit_test_setup(what_is_lent_arrives_in_order, set_up),
        cmocka_unit_test_setup(what_is_lent_has_gone_when_it_is_read, set_up),
        cmocka_unit_test_setup(more_is_lent_while_a_part_is_read, set_up),
        cmocka_unit_test_setup(a_socket_lends_nothing, set_up),
        cmocka_unit_test_setup(memory_of_another_size_is_refused, set_up),
        cmocka_unit_test_setup(what_is_no_memory_is_refused, set_up),
        cmocka_unit_test_setup(counters_that_cannot_be_are_errors, set_up),
        cmocka_unit_test_setup(nonsense_in_the_memory_harms_nobody_else, set_up),
        cmocka_unit_test_setup(nonsense_in_the_memory_harms_no_relay, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
