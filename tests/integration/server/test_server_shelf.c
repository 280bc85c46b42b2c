// The model store under clients that ask for much at once: memory, turns, and a folder that
// somebody else holds.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "tests/integration/server/in_process.h"

#define SIZE  12000u // two are more than there may be
#define SMALL 100u
#define MANY  6u

static struct in_process server;
static char folder[] = "/tmp/test-server-shelf-XXXXXX";

static int start(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    in_process_start(&server, (const char *const[]){"rights", "*:run,see-own,push", "model-store",
                                                    folder, "max-models-size", "20000",
                                                    "max-model-size", "20000", NULL});
    return 0;
}

static int stop(void **state)
{
    char command[80];
    (void)state;
    in_process_stop(&server);
    snprintf(command, sizeof command, "rm -r %s", folder);
    int r = system(command);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    return r;
}

static rknnd_ModelPush bring(struct peer *p, uint8_t byte, size_t size, const char *name)
{
    static uint8_t model[SIZE];
    rknnd_ModelPush push = {0};
    memset(model, byte, SIZE);
    peer_upload(p, model, size, size, push.sha256);
    snprintf(push.name, sizeof push.name, "%s", name);
    return push;
}

static void store(struct peer *p, uint8_t byte, size_t size, const char *name)
{
    struct peer_frame f;
    struct error e;
    rknnd_ModelPush push = bring(p, byte, size, name);
    if (peer_call(p, MESSAGE_MODEL_PUSH, &push, NULL, 0, &f, &e) < 0)
        fail_msg("%s", e.text);
    peer_frame_done(&f);
}

static int hold(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    return fd;
}

static int choose(struct peer *p, const char *name, struct error *e)
{
    struct peer_frame f;
    rknnd_StoredName m = {0};
    snprintf(m.name, sizeof m.name, "%s", name);
    int r = peer_call(p, MESSAGE_MODEL_DEFAULT, &m, NULL, 0, &f, e);
    peer_frame_done(&f);
    return r;
}

static bool is_alone(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->connections == 1;
}

// Both are looked for before either is loaded, since they come in one piece.
static void loads_no_more_than_there_may_be(void **state)
{
    struct peer p, watcher;
    struct peer_frame f;
    struct error e = {0};
    (void)state;
    in_process_connect(&server, &watcher);
    for (unsigned i = 0; i < 2; i++) {
        in_process_connect(&server, &p);
        store(&p, (uint8_t)i, SIZE, i == 0 ? "one" : "two");
        peer_close(&p);
        in_process_wait_status(&watcher, is_alone, NULL);
    }
    in_process_connect(&server, &p);
    int lock = hold(".lock");
    rknnd_StoredName busy = {.name = "one"}, one = {.name = "one"}, two = {.name = "two"};
    peer_send(&p, MESSAGE_MODEL_DEFAULT, &busy, NULL, 0);
    peer_send(&p, MESSAGE_MODEL_FIND, &one, NULL, 0);
    peer_send(&p, MESSAGE_MODEL_FIND, &two, NULL, 0);
    peer_status(&p); // all have been taken
    fd_close(lock);
    unsigned n_found = 0;
    for (unsigned i = 0; i < 3; i++) { // in whatever order
        assert_true(peer_receive(&p, &f));
        if (!(f.header.flags & FRAME_ERROR))
            n_found += f.header.type == MESSAGE_MODEL_FIND;
        else
            message_error_take(&f.m.error, &e);
        peer_frame_done(&f);
    }
    assert_int_equal(n_found, 1);
    assert_non_null(strstr(e.text, "max-models-size"));
    assert_int_equal(server.server.shelf.n_loads, 1);
    peer_close(&p);
    peer_close(&watcher);
}

// Versions are numbered as they are stored.
static void pushes_of_users_take_turns(void **state)
{
    struct peer a, b;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect_tcp(&server, &b);
    store(&a, 1, SMALL, "first");
    int lock = hold(".lock");
    rknnd_ModelPush many = bring(&a, 1, SMALL, "many"), own = bring(&b, 1, SMALL, "many");
    uint32_t last = 0;
    for (unsigned i = 0; i < MANY; i++)
        last = peer_send(&a, MESSAGE_MODEL_PUSH, &many, NULL, 0);
    peer_status(&a); // all have been taken
    uint32_t polite = peer_send(&b, MESSAGE_MODEL_PUSH, &own, NULL, 0);
    peer_status(&b);
    fd_close(lock);
    if (peer_wait(&b, polite, &f, &e) < 0)
        fail_msg("%s", e.text);
    assert_true(atoi(f.m.MODEL_PUSH_reply.version) <= 2);
    peer_frame_done(&f);
    if (peer_wait(&a, last, &f, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(atoi(f.m.MODEL_PUSH_reply.version), MANY + 1);
    peer_frame_done(&f);
    peer_close(&a);
    peer_close(&b);
}

static void a_locked_folder_does_not_matter(void **state)
{
    struct peer p;
    (void)state;
    in_process_connect(&server, &p);
    int lock = hold(".");
    store(&p, 1, SMALL, "one");
    fd_close(lock);
    peer_close(&p);
}

static void anothers_lock_is_not_waited_for(void **state)
{
    struct peer p;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    store(&p, 1, SMALL, "one");
    int lock = hold(".lock");
    assert_int_equal(choose(&p, "one", &e), STATUS_FAIL);
    assert_non_null(strstr(e.text, "another process"));
    fd_close(lock);
    assert_int_equal(choose(&p, "one", &e), 0);
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads_no_more_than_there_may_be, start, stop),
        cmocka_unit_test_setup_teardown(pushes_of_users_take_turns, start, stop),
        cmocka_unit_test_setup_teardown(a_locked_folder_does_not_matter, start, stop),
        cmocka_unit_test_setup_teardown(anothers_lock_is_not_waited_for, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
