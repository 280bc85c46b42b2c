// What threads cannot do: end a job that hangs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>

#include "tests/support/runner_rig.h"

// The null backend counts the jobs of the whole process, so each test here is a process: `hang=N`
// is then its N-th job.
static void in_a_process(void (*body)(void))
{
    int status;
    pid_t pid = fork();
    assert_cmp(pid, >=, 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect(bool truth, const char *what)
{
    if (truth)
        return;
    print_error("not so: %s\n", what);
    _exit(1);
}

static void free_abandoned(struct rig *r)
{
    rig_free(r);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    expect(uv_loop_close(&r->loop) == 0, "the loop closes although a thread hangs");
}

static void hang(void)
{
    struct rig r, other;
    struct rig_job j, after;
    rig_init(&r, true, "64:64,hang=2");
    rig_load(&r);
    rig_init(&other, true, "64:64");
    rig_load(&other);
    struct runner_context *a = rig_open(&r), *b = rig_open(&r), *o = rig_open(&other);
    rig_run(&r, a, 1);
    r.timeout_ms = 50;
    rig_submit(&r, &j, a, 2);
    rig_wait(&r, &j);
    expect(j.error.code == STATUS_TIMEOUT, "the job that hangs is past its deadline");
    expect(j.job.attempts == 1, "it is not tried again");
    for (int i = 0; i < 2; i++) {
        rig_submit(&r, &after, i ? b : a, 3);
        expect(i == 0 || after.done, "another context's job is refused at once");
        if (after.done) {
            expect(after.error.code == STATUS_DEVICE_UNAVAILABLE, "as unavailable");
            expect(strstr(after.error.text, "--isolation=process"), "and it is said what to do");
        } else {
            runner_job_cancel(&after.job); // waits for the context
        }
        rig_drop(&after);
    }
    rig_run(&other, o, 4);
    runner_context_free(o);
    rig_free(&other);
    rig_done(&other);
    rig_drop(&j);
    runner_context_free(a);
    runner_context_free(b);
    free_abandoned(&r);
}

static void job_that_hangs(void **state)
{
    (void)state;
    in_a_process(hang);
}

// The job is cancelled, the runner is to be freed, and only then does it show that the job hangs.
static void hang_at_the_end(void)
{
    struct rig r;
    struct rig_job j;
    rig_init(&r, true, "64:64,hang=1");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    r.timeout_ms = 50;
    rig_submit(&r, &j, c, 1);
    runner_job_cancel(&j.job);
    rig_drop(&j);
    runner_context_free(c);
    free_abandoned(&r);
}

static void cancelled_job_that_hangs(void **state)
{
    (void)state;
    in_a_process(hang_at_the_end);
}

// A job late by more than its timeout, but not for ever: it failed, and then the runner is as good
// as before.
static void late_job_gives_its_thread_back(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job j;
    rig_init(&r, true, "64:64,delay_us=1000000");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    r.timeout_ms = 20;
    rig_submit(&r, &j, c, 1);
    rig_wait(&r, &j);
    assert_int_equal(j.error.code, STATUS_TIMEOUT);
    rig_drop(&j);
    r.timeout_ms = 0;
    rig_run(&r, c, 2); // waits until the context is free
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// A job that no thread has begun at its deadline costs no thread.
static void job_that_waits_is_taken_back(void **state)
{
    (void)state;
    struct rig r;
    struct rig_job jobs[2], late; // there are two threads
    rig_init(&r, true, "64:64,delay_us=1000000,cores=1");
    rig_load(&r);
    struct runner_context *a = rig_open(&r), *b = rig_open(&r), *c = rig_open(&r);
    rig_submit(&r, &jobs[0], a, 1);
    rig_submit(&r, &jobs[1], b, 1);
    r.timeout_ms = 20;
    rig_submit(&r, &late, c, 2);
    rig_wait(&r, &late);
    assert_int_equal(late.error.code, STATUS_TIMEOUT);
    rig_drop(&late);
    for (int i = 0; i < 2; i++) {
        rig_wait(&r, &jobs[i]);
        rig_check(&r, &jobs[i], 1);
    }
    runner_context_free(a);
    runner_context_free(b);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_that_hangs),
        cmocka_unit_test(cancelled_job_that_hangs),
        cmocka_unit_test(late_job_gives_its_thread_back),
        cmocka_unit_test(job_that_waits_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
