// Users take turns at the model store's disk, and who has gone is in nobody's way.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/clients/user.h"
#include "server/shelf/shelf.h"

#define MANY 20

static char folder[] = "/tmp/test-shelf-turns-XXXXXX";

struct asked {
    struct shelf_work work;
    unsigned place; // in which its run() came, from 1; 0: never
    bool done;
};

static unsigned n_run; // on the thread, and after its end

static void asked_run(struct shelf_work *w)
{
    container_of(w, struct asked, work)->place = ++n_run;
}

static void asked_done(struct shelf_work *w)
{
    container_of(w, struct asked, work)->done = true;
    shelf_end_work(w);
}

static void asked_stop(struct shelf_work *w)
{
    (void)w;
}

static void ask(struct shelf *s, struct asked *a, struct user *user)
{
    a->work.run = asked_run;
    a->work.done = asked_done;
    a->work.stop = asked_stop;
    shelf_begin_work(s, &a->work, user);
    shelf_do(&a->work);
}

static void ignore(struct shelf *s)
{
    (void)s;
}

static void start(struct shelf *s, uv_loop_t *loop)
{
    struct error e;
    n_run = 0;
    *loop = (uv_loop_t){.data = NULL}; // nobody looks how long its turns take
    uv_loop_init(loop);
    shelf_init(s, loop, ignore);
    if (shelf_start(s, folder, &e) < 0)
        fail_msg("%s", e.text);
}

static void stop(struct shelf *s, uv_loop_t *loop)
{
    shelf_stop(s);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void user_init(struct user *u)
{
    *u = (struct user){.refs = 1};
    shelf_line_init(&u->shelf);
}

static void who_asks_much_waits_for_himself(void **state)
{
    static struct user greedy, polite;
    static struct asked many[MANY], few[2], own;
    struct shelf s;
    uv_loop_t loop;
    (void)state;
    user_init(&greedy);
    user_init(&polite);
    start(&s, &loop);
    for (unsigned i = 0; i < MANY; i++)
        ask(&s, &many[i], &greedy);
    ask(&s, &few[0], &polite);
    ask(&s, &few[1], &polite);
    ask(&s, &own, NULL);
    while (!many[MANY - 1].done)
        uv_run(&loop, UV_RUN_ONCE);
    for (unsigned i = 0; i < MANY; i++)
        assert_true(many[i].done && (i == 0 || many[i].place > many[i - 1].place));
    assert_true(few[0].place <= 3);
    assert_true(few[1].place <= 6);
    assert_true(own.place <= 4);
    assert_int_equal(greedy.refs, 1);
    assert_int_equal(polite.refs, 1);
    stop(&s, &loop);
}

static void who_has_gone_is_not_served(void **state)
{
    static struct user user;
    static struct asked many[MANY];
    struct shelf s;
    uv_loop_t loop;
    (void)state;
    user_init(&user);
    start(&s, &loop);
    // The thread is at the first look of the store, until the loop has run.
    for (unsigned i = 0; i < MANY; i++)
        ask(&s, &many[i], &user);
    for (unsigned i = 0; i + 1 < MANY; i++)
        shelf_end_work(&many[i].work);
    while (!many[MANY - 1].done)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(n_run, 1);
    assert_int_equal(user.refs, 1);
    stop(&s, &loop);
}

static void what_waits_at_the_end_is_given_up(void **state)
{
    static struct user user;
    static struct asked many[MANY];
    struct shelf s;
    uv_loop_t loop;
    (void)state;
    user_init(&user);
    start(&s, &loop);
    for (unsigned i = 0; i < MANY; i++)
        ask(&s, &many[i], &user);
    stop(&s, &loop);
    assert_int_equal(n_run, 0);
    assert_int_equal(user.refs, 1);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char lock[64];
    (void)state;
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    unlink(lock);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_much_waits_for_himself),
        cmocka_unit_test(who_has_gone_is_not_served),
        cmocka_unit_test(what_waits_at_the_end_is_given_up),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
