// What a process can do no more that has shut itself in, and what it still can.
#include "base/process/shut_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Each is tried in a child of its own: 0, or the errno that it came to.
typedef int (*attempt)(pid_t outside, int listening);

static int opens(pid_t outside, int listening)
{
    (void)outside, (void)listening;
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int reads_below(pid_t outside, int listening)
{
    (void)outside, (void)listening;
    return open("/proc/self/status", O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int writes_below(pid_t outside, int listening)
{
    (void)outside, (void)listening;
    return open("/proc/self/comm", O_WRONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int looks_into(pid_t outside, int listening)
{
    (void)listening;
    return ptrace(PTRACE_SEIZE, outside, NULL, NULL) < 0 ? errno : 0;
}

static int executes(pid_t outside, int listening)
{
    (void)outside, (void)listening;
    execl("/bin/true", "true", (char *)NULL);
    return errno;
}

static int connects(pid_t outside, int listening)
{
    struct sockaddr_in to;
    socklen_t size = sizeof to;
    (void)outside;
    getsockname(listening, (struct sockaddr *)&to, &size);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&to, size) < 0 ? errno : 0;
}

static int signals(pid_t outside, int listening)
{
    (void)listening;
    return kill(outside, 0) < 0 ? errno : 0;
}

static int accepts(pid_t outside, int listening)
{
    (void)outside;
    fcntl(listening, F_SETFL, O_NONBLOCK);
    return accept4(listening, NULL, NULL, SOCK_CLOEXEC) < 0 && errno != EAGAIN ? errno : 0;
}

static pid_t start_outsider(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

static int outcome(attempt what, bool shut, int listening)
{
    pid_t outside = start_outsider(), child = fork();
    int status;
    if (child == 0) {
        const char *const folders[] = {"/proc/self", "/no such folder", NULL};
        struct error e;
        if (shut && shut_in(folders, &e) < 0)
            _exit(255);
        _exit(what(outside, listening));
    }
    waitpid(child, &status, 0);
    kill(outside, SIGKILL);
    waitpid(outside, NULL, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void it_keeps_in(void **state)
{
    const struct {
        attempt what;
        long version; // of Landlock, from which on it is kept from it
        int why;      // 0: it never is
    } all[] = {{opens, 1, EACCES},     {reads_below, 1, 0},   {writes_below, 1, EACCES},
               {looks_into, 1, EPERM}, {executes, 1, EACCES}, {connects, 4, EACCES},
               {signals, 6, EPERM},    {accepts, 1, 0}};
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    (void)state;
    assert_int_equal(bind(listening, (const struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(listen(listening, 8), 0);
    if (version <= 0)
        skip();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(outcome(all[i].what, false, listening), 0);
        assert_int_equal(outcome(all[i].what, true, listening),
                         version >= all[i].version ? all[i].why : 0);
    }
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_keeps_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
