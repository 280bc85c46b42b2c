// Child processes: what they begin with, and who waits for them to begin. A filter on execve()
// holds a child in front of it for as long as the test likes (seccomp_unotify(2)).
#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "server/runner/child.h"

#define PATIENCE_S 60

struct rig {
    struct child child;
    uv_loop_t loop;
    int code, signal;
    char log[4096];
};

static struct rig rig;

static void on_closed(struct child *c)
{
    (void)c;
}

static void on_exited(struct child *c, int code, int number)
{
    rig.code = code;
    rig.signal = number;
    child_close(c, on_closed);
}

// Until it has ended; what it wrote is in rig.log.
static void finish(int log)
{
    size_t n = 0;
    ssize_t got;
    assert_int_equal(uv_run(&rig.loop, UV_RUN_DEFAULT), 0);
    while ((got = read(log, rig.log + n, sizeof rig.log - 1 - n)) > 0)
        n += (size_t)got;
    rig.log[n] = 0;
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    fd_close(log);
}

typedef int (*way)(struct child *c, const struct child_words *w, struct error *e);

// Returns the end of the log that is to be read.
static int begin(way start, const char *program, char *const args[])
{
    int ends[2];
    struct error e;
    rig = (struct rig){.code = -1};
    assert_int_equal(uv_loop_init(&rig.loop), 0);
    assert_int_equal(pipe(ends), 0);
    const struct child_words words = {program, args, NULL, ends[1], ends[1], on_exited};
    child_init(&rig.child, &rig.loop);
    assert_int_equal(start(&rig.child, &words, &e), 0);
    assert_cmp(rig.child.pid, >, 0);
    fd_close(ends[1]);
    return ends[0];
}

// Of /proc/self/status: signals that are blocked, and ignored; glibc ignores two of its own.
static void check_signals(const char *text)
{
    const unsigned long long own = 3ull << 31;
    unsigned long long blocked, ignored;
    assert_int_equal(sscanf(text, "3\nSigBlk: %llx\nSigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 1u << (SIGHUP - 1));
    assert_int_equal(ignored & ~own, 0);
}

// No signal is as we have it, and descriptors are where they should be.
static void children_begin_alike(void **state)
{
    (void)state;
    static char *const args[] = {
        "sh", "-c", "read nothing; echo 3 >&3; exec grep ^Sig[BI] /proc/self/status", NULL};
    const way ways[] = {child_start, child_start_soon};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        signal(SIGUSR1, SIG_IGN);
        finish(begin(ways[i], "/bin/sh", args));
        signal(SIGUSR1, SIG_DFL);
        assert_int_equal(rig.code, 0);
        check_signals(rig.log);
    }
}

static void what_is_not_there_ends(void **state)
{
    (void)state;
    if (CHILD_ALWAYS_WAITS)
        skip();
    static char *const args[] = {"nothing", NULL};
    finish(begin(child_start_soon, "/nothing", args));
    assert_int_equal(rig.code, 127);
}

// Whether a start of what is not there fails at once, for who is traced: it has waited.
static bool traced_start_fails(void)
{
    static char *const args[] = {"nothing", NULL};
    const struct child_words words = {"/nothing",    args,          NULL,
                                      STDERR_FILENO, STDERR_FILENO, on_exited};
    struct error e;
    rig = (struct rig){.code = -1};
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 || uv_loop_init(&rig.loop) < 0)
        return false;
    child_init(&rig.child, &rig.loop);
    return child_start_soon(&rig.child, &words, &e) < 0;
}

static void who_is_traced_waits(void **state)
{
    int status, pid = fork();
    (void)state;
    if (pid == 0)
        _exit(traced_start_fails() ? 0 : 1);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void many_at_once_leave_nothing(void **state)
{
    (void)state;
    static char *const args[] = {"true", NULL};
    int before = dup(0);
    fd_close(before);
    for (int i = 0; i < 200; i++) {
        finish(begin(child_start_soon, "/bin/true", args));
        assert_int_equal(rig.code, 0);
        assert_null(rig.child.stack);
    }
    int after = dup(0);
    fd_close(after);
    assert_int_equal(after, before);
}

// ---- the wait -----------------------------------------------------------------------------------

struct guard {
    atomic_int filter; // a descriptor; 0: not yet
    sem_t started;     // child_start_soon() has returned
    bool in_time;      // before the child came to its exec()
};

// Lets the child go on once the other thread has gone on, which is what is to be shown, or when
// that takes for ever.
static void *hold_child(void *owner)
{
    struct guard *g = owner;
    struct seccomp_notif question = {0};
    struct timespec until;
    while (!g->filter)
        sched_yield();
    if (ioctl(g->filter, SECCOMP_IOCTL_NOTIF_RECV, &question) < 0)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    g->in_time = sem_timedwait(&g->started, &until) == 0;
    struct seccomp_notif_resp answer = {.id = question.id,
                                        .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    ioctl(g->filter, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    return NULL;
}

// Of this thread and its children from now on.
static int hold_exec(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

// Last: the filter stays.
static void nobody_waits_for_exec(void **state)
{
    (void)state;
    if (CHILD_ALWAYS_WAITS)
        skip();
    static char *const args[] = {"true", NULL};
    struct guard g = {.in_time = false};
    pthread_t thread;
    sem_init(&g.started, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_child, &g), 0);
    int filter = hold_exec();
    if (filter < 0) {
        print_message("no seccomp_unotify(2) here: %s\n", strerror(errno));
        skip();
    }
    g.filter = filter;
    int log = begin(child_start_soon, "/bin/true", args);
    sem_post(&g.started);
    pthread_join(thread, NULL);
    assert_true(g.in_time);
    finish(log);
    assert_int_equal(rig.code, 0);
    fd_close(filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_begin_alike),  cmocka_unit_test(what_is_not_there_ends),
        cmocka_unit_test(who_is_traced_waits),   cmocka_unit_test(many_at_once_leave_nothing),
        cmocka_unit_test(nobody_waits_for_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
