// Who computes when: peers in turns, each by its own line, and none behind one who sits for ever.
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kserve/seats.h"

#define NEVER (UINT64_MAX / 4) // nanoseconds

// Time stands still: each turn costs the least that one may.
static uint64_t fake_clock(void)
{
    return 0;
}

// Somebody with a thread, who waits for a seat, writes his name down, and gives it back.
struct guest {
    struct seat seat;
    pthread_t thread;
    char name;
    char *book;
};

static void *come(void *owner)
{
    struct guest *g = owner;
    seat_take(&g->seat);
    g->book[strlen(g->book)] = g->name; // whoever sits is alone
    seat_give(&g->seat);
    return NULL;
}

static struct seat_key key_of(char peer)
{
    return (struct seat_key){{(uint8_t)peer}};
}

static void in_line(struct seats *s, struct guest *g, char peer, char name, char *book)
{
    const struct seat_key key = key_of(peer);
    unsigned before = s->n_waiting;
    *g = (struct guest){.name = name, .book = book};
    assert_true(seat_init(&g->seat, s, &key));
    assert_int_equal(pthread_create(&g->thread, NULL, come, g), 0);
    while (s->n_waiting == before)
        sched_yield();
}

static void leave(struct guest *g)
{
    pthread_join(g->thread, NULL);
    seat_done(&g->seat);
}

// One with many connections has one turn as well.
static void peers_take_turns(void **state)
{
    (void)state;
    char book[8] = "";
    struct seats *s = seats_new(1, NEVER, fake_clock);
    struct seat first = {0};
    struct guest guests[5];
    const struct seat_key key = key_of('x');
    assert_true(seat_init(&first, s, &key));
    seat_take(&first);
    for (int i = 0; i < 3; i++)
        in_line(s, &guests[i], 'a', (char)('1' + i), book);
    in_line(s, &guests[3], 'b', 'b', book);
    in_line(s, &guests[4], 'c', 'c', book);
    seat_give(&first);
    for (int i = 0; i < 5; i++)
        leave(&guests[i]);
    assert_string_equal(book, "1bc23");
    seat_done(&first);
    seats_free(s);
}

// Else who comes seldom would go first until it has had as much as the others ever had.
static void nobody_saves_up(void **state)
{
    (void)state;
    char book[8] = "";
    struct seats *s = seats_new(1, NEVER, fake_clock);
    struct seat busy = {0}, first = {0};
    struct guest guests[4];
    const struct seat_key keys[] = {key_of('b'), key_of('x')};
    assert_true(seat_init(&busy, s, &keys[0]) && seat_init(&first, s, &keys[1]));
    for (int i = 0; i < 100; i++) {
        seat_take(&busy);
        seat_give(&busy);
    }
    seat_take(&first);
    in_line(s, &guests[0], 'n', '1', book);
    in_line(s, &guests[1], 'n', '2', book);
    in_line(s, &guests[2], 'n', '3', book);
    in_line(s, &guests[3], 'b', 'b', book);
    seat_give(&first);
    for (int i = 0; i < 4; i++)
        leave(&guests[i]);
    assert_string_equal(book, "1b23"); // it begins with what the other had before its last turn
    seat_done(&busy);
    seat_done(&first);
    seats_free(s);
}

static void a_seat_that_is_held_for_long_is_lent(void **state)
{
    (void)state;
    char book[8] = "";
    struct seats *s = seats_new(1, 1, clock_ns);
    struct seat hangs = {0};
    struct guest guests[2];
    const struct seat_key key = key_of('x');
    assert_true(seat_init(&hangs, s, &key));
    seat_take(&hangs);
    for (int i = 0; i < 2; i++) {
        guests[i] = (struct guest){.name = (char)('1' + i), .book = book};
        assert_true(seat_init(&guests[i].seat, s, &key));
        assert_int_equal(pthread_create(&guests[i].thread, NULL, come, &guests[i]), 0);
        leave(&guests[i]); // though nobody has given one back
    }
    assert_string_equal(book, "12");
    seat_give(&hangs);
    seat_take(&hangs); // there is one, as before
    seat_give(&hangs);
    seat_done(&hangs);
    seats_free(s);
}

static void without_seats_nobody_waits(void **state)
{
    (void)state;
    struct seat free_one = {0};
    seat_take(&free_one);
    seat_take(&free_one);
    seat_give(&free_one);
    seat_take(NULL);
    seat_give(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_take_turns),
        cmocka_unit_test(nobody_saves_up),
        cmocka_unit_test(a_seat_that_is_held_for_long_is_lent),
        cmocka_unit_test(without_seats_nobody_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
