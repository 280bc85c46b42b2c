// Unix sockets of servers that start: one gets the path, whatever was left there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/net/unix_socket.h"
#include "server/listen/bind.h"

#define RIVALS 8
#define ROUNDS 50

struct place {
    char folder[64], path[96];
};

static int setup(void **state)
{
    static struct place p;
    strcpy(p.folder, "/tmp/test_bind.XXXXXX");
    if (!mkdtemp(p.folder))
        return -1;
    snprintf(p.path, sizeof p.path, "%s/socket", p.folder);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    const struct place *p = *state;
    unlink(p->path);
    return rmdir(p->folder); // nothing else is left in it
}

static int keep(void *owner, int fd, const char *name, const char *unlink_path, struct error *e)
{
    (void)name;
    (void)unlink_path;
    (void)e;
    *(int *)owner = fd;
    return 0;
}

static void leave_stale_socket(const struct place *p)
{
    int fd;
    struct error e;
    assert_int_equal(bind_unix(p->path, NULL, keep, &fd, &e), 0);
    fd_close(fd);
}

// In a process: tells by `result` whether it has the path, and has it until `end` closes.
static void rival(const struct place *p, int begin, int result, int end)
{
    char byte;
    int fd = -1;
    struct error e;
    if (read(begin, &byte, 1) != 0)
        _exit(1);
    byte = bind_unix(p->path, NULL, keep, &fd, &e) == 0;
    if (write(result, &byte, 1) != 1 || read(end, &byte, 1) != 0)
        _exit(1);
    _exit(0);
}

static void start_rivals(const struct place *p, const int begin[2], const int result[2],
                         const int end[2])
{
    for (int i = 0; i < RIVALS; i++) {
        pid_t pid = fork();
        assert_cmp(pid, >=, 0);
        if (pid > 0)
            continue;
        close(begin[1]);
        close(end[1]);
        rival(p, begin[0], result[1], end[0]);
    }
}

static void one_of_many_gets_the_path(void **state)
{
    const struct place *p = *state;
    int begin[2], result[2], end[2], status;
    assert_int_equal(pipe(begin) | pipe(result) | pipe(end), 0);
    leave_stale_socket(p);
    start_rivals(p, begin, result, end);
    close(begin[1]);
    int winners = 0;
    for (int i = 0; i < RIVALS; i++) {
        char won;
        assert_int_equal(read(result[0], &won, 1), 1);
        winners += won;
    }
    assert_int_equal(winners, 1);
    assert_true(unix_is_taken(p->path)); // by the winner: nobody took its socket away
    close(end[1]);
    for (int i = 0; i < RIVALS; i++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    close(begin[0]);
    close(result[0]);
    close(result[1]);
    close(end[0]);
}

static void one_of_many_gets_the_path_each_time(void **state)
{
    for (int i = 0; i < ROUNDS; i++)
        one_of_many_gets_the_path(state);
}

// Removed by somebody, and made anew by another server: that is not the first one's any more.
static void another_servers_socket_stays(void **state)
{
    const struct place *p = *state;
    struct error e;
    cleanup(fd_close_p) int first = unix_listen(p->path, NULL, &e);
    const struct unix_file file = unix_file_at(p->path);
    assert_cmp(first, >=, 0);
    assert_true(unix_file_is_at(&file, p->path));
    assert_int_equal(unlink(p->path), 0);
    unix_file_remove(&file, p->path); // nothing is there
    cleanup(fd_close_p) int second = unix_listen(p->path, NULL, &e);
    assert_cmp(second, >=, 0);
    unix_file_remove(&file, p->path);
    assert_true(unix_is_taken(p->path));
    const struct unix_file other = unix_file_at(p->path);
    unix_file_remove(&other, p->path);
    assert_false(unix_is_taken(p->path));
}

static void a_datagram_socket_stays(void **state)
{
    const struct place *p = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct error e;
    strcpy(a.sun_path, p->path);
    cleanup(fd_close_p) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(unix_listen(p->path, NULL, &e), STATUS_FAIL);
    assert_int_not_equal(unix_file_at(p->path).inode, 0);
}

// Between the two calls somebody who may write to the folder has put a link there.
static atomic_bool links;

int __real_bind(int fd, const struct sockaddr *a, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t size);

int __wrap_bind(int fd, const struct sockaddr *a, socklen_t size)
{
    const char *path = ((const struct sockaddr_un *)a)->sun_path;
    int r = __real_bind(fd, a, size);
    if (links && (unlink(path) < 0 || symlink("victim", path) < 0))
        return -1;
    return r;
}

static void what_a_link_names_keeps_its_mode(void **state)
{
    const struct place *p = *state;
    char victim[128];
    struct error e;
    struct stat st;
    snprintf(victim, sizeof victim, "%s/victim", p->folder);
    int fd = creat(victim, 0600);
    links = true;
    assert_int_equal(unix_listen(p->path, NULL, &e), STATUS_FAIL);
    links = false;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(lstat(p->path, &st), 0); // theirs stays
    fd_close(fd);
    unlink(victim);
}

static void a_file_that_is_no_socket_stays(void **state)
{
    const struct place *p = *state;
    struct error e;
    struct stat st;
    int fd = creat(p->path, 0600), unused;
    assert_cmp(fd, >=, 0);
    close(fd);
    assert_int_equal(bind_unix(p->path, NULL, keep, &unused, &e), STATUS_PARAM_INVALID);
    assert_int_equal(stat(p->path, &st), 0);
    assert_false(unix_is_taken(p->path));
}

// Refuses, with these words, and leaves the file at the lock's path alone.
static void expect_refused_lock(const struct place *p, const char *lock, const char *words)
{
    struct error e;
    int unused;
    assert_int_equal(bind_unix(p->path, NULL, keep, &unused, &e), STATUS_FAIL);
    if (!strstr(e.text, lock) || !strstr(e.text, words))
        fail_msg("expected \"%s\" of %s, and it says: %s", words, lock, e.text);
    assert_int_equal(access(lock, F_OK), 0);
    assert_int_not_equal(access(p->path, F_OK), 0);
}

static void another_users_lock_is_refused(void **state)
{
    const struct place *p = *state;
    char lock[128];
    snprintf(lock, sizeof lock, "%s.lock", p->path);
    if (geteuid() != 0)
        skip(); // only root can make another user's file
    int fd = open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(fchown(fd, 65534, 65534), 0);
    expect_refused_lock(p, lock, "user 65534's");
    fd_close(fd);
    unlink(lock);
}

static void a_lock_that_is_no_file_is_refused(void **state)
{
    const struct place *p = *state;
    char lock[128];
    snprintf(lock, sizeof lock, "%s.lock", p->path);
    assert_int_equal(mkfifo(lock, 0600), 0);
    expect_refused_lock(p, lock, "not a lock");
    unlink(lock);
    assert_int_equal(symlink("/nonexistent", lock), 0);
    struct error e;
    int unused;
    assert_int_equal(bind_unix(p->path, NULL, keep, &unused, &e), STATUS_FAIL);
    unlink(lock);
}

static void nobody_has_a_path_that_is_not_there(void **state)
{
    const struct place *p = *state;
    assert_false(unix_is_taken(p->path));
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    char path[200];
    struct error e;
    int unused;
    (void)state;
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(bind_unix(path, NULL, keep, &unused, &e), STATUS_PARAM_INVALID);
    assert_false(unix_is_taken(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_many_gets_the_path_each_time, setup, teardown),
        cmocka_unit_test_setup_teardown(another_servers_socket_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_datagram_socket_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_link_names_keeps_its_mode, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_no_socket_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(another_users_lock_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_that_is_no_file_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_has_a_path_that_is_not_there, setup, teardown),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
