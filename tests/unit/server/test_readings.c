// Readings of the machine's sensors: one at a time for all who ask, and a driver that hangs.
#include <semaphore.h>
#include <string.h>

#include "server/observe/readings.h"
#include "tests/support/checks/cmocka.h"

// The machine: each look waits until the test lets it go on.
static sem_t looks;
static unsigned n_looks;

size_t clocks_read(const char *root, rknnd_Clock *list)
{
    (void)root, (void)list;
    sem_wait(&looks);
    n_looks++;
    return 0;
}

size_t sensors_read(const char *root, rknnd_Sensor *list)
{
    (void)root;
    list[0] = (rknnd_Sensor){.kind = SENSOR_POWER, .name = "all", .value = n_looks};
    return 1;
}

struct asker {
    struct reading_waiter waiter;
    unsigned n_told, n_hung;
    int64_t value;
};

static void on_told(struct reading_waiter *w, const struct reading *now)
{
    struct asker *a = container_of(w, struct asker, waiter);
    a->n_told++;
    a->n_hung += !now;
    if (now) {
        assert_int_equal(now->n_sensors, 1);
        a->value = now->sensors[0].value;
    }
}

struct machine {
    uv_loop_t loop;
    struct readings readings;
};

static int start_machine(void **state)
{
    static struct machine m;
    n_looks = 0;
    sem_init(&looks, 0, 0);
    m = (struct machine){0};
    uv_loop_init(&m.loop);
    readings_init(&m.readings, &m.loop, "/nowhere");
    *state = &m;
    return 0;
}

// A look that hangs is let go, as the kernel would in the end.
static int end_machine(void **state)
{
    struct machine *m = *state;
    readings_close(&m->readings);
    readings_close(&m->readings);
    sem_post(&looks);
    uv_run(&m->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&m->loop), 0);
    return 0;
}

static void ask(struct machine *m, struct asker *a)
{
    a->waiter.told = on_told;
    readings_get(&m->readings, &a->waiter);
}

static void wait_for(struct machine *m, const struct asker *a, unsigned n_told)
{
    while (a->n_told < n_told)
        uv_run(&m->loop, UV_RUN_ONCE);
}

static void one_look_for_all(void **state)
{
    struct machine *m = *state;
    struct asker a[3] = {0}, gone = {0};
    for (unsigned i = 0; i < 3; i++)
        ask(m, &a[i]);
    ask(m, &gone);
    list_remove(&gone.waiter.link);
    sem_post(&looks);
    for (unsigned i = 0; i < 3; i++) {
        wait_for(m, &a[i], 1);
        assert_int_equal(a[i].value, 1);
    }
    assert_int_equal(gone.n_told, 0);
    ask(m, &gone); // what is known is fresh: from inside
    assert_int_equal(gone.n_told, 1);
    assert_int_equal(n_looks, 1);
}

static void a_driver_hangs(void **state)
{
    struct machine *m = *state;
    struct asker a = {0}, b = {0};
    ask(m, &a);
    wait_for(m, &a, 1);
    assert_int_equal(a.n_hung, 1);
    ask(m, &b); // nobody looks a second time meanwhile
    sem_post(&looks);
    wait_for(m, &b, 1);
    assert_int_equal(b.n_hung, 0);
    assert_int_equal(b.value, 1);
    assert_int_equal(n_looks, 1);
}

// A thousand who wait are told in many turns of the loop, and one who goes meanwhile is told
// nothing.
static void many_wait(void **state)
{
    enum { MANY = 1000 };
    static struct asker a[MANY];
    struct machine *m = *state;
    unsigned n = 0;
    memset(a, 0, sizeof a);
    for (unsigned i = 0; i < MANY; i++)
        ask(m, &a[i]);
    sem_post(&looks);
    for (unsigned before = 0; n < MANY - 1; before = n) {
        uv_run(&m->loop, UV_RUN_ONCE);
        if (before == 0)
            list_remove(&a[MANY - 1].waiter.link);
        n = 0;
        for (unsigned i = 0; i < MANY; i++)
            n += a[i].n_told;
        assert_cmp(n - before, <=, 2 * READINGS_TURN); // libuv before 1.45 may look at timers twice
    }
    for (unsigned i = 0; i < MANY - 1; i++)
        assert_int_equal(a[i].n_told, 1);
    assert_int_equal(a[MANY - 1].n_told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_look_for_all, start_machine, end_machine),
        cmocka_unit_test_setup_teardown(many_wait, start_machine, end_machine),
        cmocka_unit_test_setup_teardown(a_driver_hangs, start_machine, end_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
