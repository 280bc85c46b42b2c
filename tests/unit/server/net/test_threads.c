// Threads beside the loop: every task is done once and told of on the loop, one that is taken back
// is not, threads that were given up hold no descriptor of the loop, and the loop does not wait for
// one that is kept from the processor, wherever that happens.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/list.h"
#include "server/threads.h"

#define N_TASKS 100

struct piece {
    struct task task;
    unsigned worked, finished;
};

static uv_loop_t loop;
static struct threads *threads;
static struct piece pieces[N_TASKS];
static struct piece hung; // nothing says when the thread that was given up has left it
static unsigned n_finished, n_wanted;
static bool closed;
static sem_t begun, may_go; // of the one that hangs

static void on_closed(void *owner)
{
    (void)owner;
    closed = true;
}

static void work(struct task *t)
{
    container_of(t, struct piece, task)->worked++;
    threads_post(t->threads, t);
}

static void finish(struct task *t)
{
    container_of(t, struct piece, task)->finished++;
    if (++n_finished == n_wanted)
        threads_free(threads, on_closed, NULL);
}

static void hang(struct task *t)
{
    sem_post(&begun);
    while (sem_wait(&may_go) < 0)
        continue;
    work(t);
}

static int open_pool(void **state)
{
    struct error e;
    (void)state;
    memset(pieces, 0, sizeof pieces);
    n_finished = n_wanted = 0;
    closed = false;
    sem_init(&begun, 0, 0);
    sem_init(&may_go, 0, 0);
    uv_loop_init(&loop);
    return threads_new(&loop, &threads, &e);
}

// The one thread is busy meanwhile, so that there is something to take back.
static void a_task_that_is_taken_back_is_not_done(void **state)
{
    (void)state;
    n_wanted = N_TASKS - N_TASKS / 2;
    for (unsigned i = 0; i < N_TASKS; i++) {
        pieces[i].task = (struct task){.work = i ? work : hang, .finish = finish};
        threads_do(threads, &pieces[i].task);
    }
    sem_wait(&begun);
    assert_false(threads_take_back(threads, &pieces[0].task));
    for (unsigned i = 1; i < N_TASKS; i += 2)
        assert_true(threads_take_back(threads, &pieces[i].task));
    sem_post(&may_go);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    for (unsigned i = 0; i < N_TASKS; i++) {
        assert_int_equal(pieces[i].worked, i % 2 == 0);
        assert_int_equal(pieces[i].finished, i % 2 == 0);
    }
    uv_loop_close(&loop);
}

// The first one keeps the thread until the end has been asked for; what is behind the first `n` is
// taken back then.
static void end_with(unsigned n)
{
    for (unsigned i = 0; i < N_TASKS; i++) {
        pieces[i].task = (struct task){.work = i ? work : hang, .finish = finish};
        threads_do(threads, &pieces[i].task);
    }
    sem_wait(&begun);
    threads_free(threads, on_closed, NULL);
    for (unsigned i = n; i < N_TASKS; i++)
        assert_true(threads_take_back(threads, &pieces[i].task));
    sem_post(&may_go);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    for (unsigned i = 0; i < N_TASKS; i++)
        assert_int_equal(pieces[i].finished, i < n);
    uv_loop_close(&loop);
}

static void the_end_waits_for_all_that_was_given(void **state)
{
    (void)state;
    end_with(N_TASKS - 1);
}

static void the_end_comes_when_all_is_taken_back(void **state)
{
    (void)state;
    end_with(1);
}

// The number that a new descriptor gets is the lowest that is free.
static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void who_is_given_up_holds_no_descriptor(void **state)
{
    struct error e;
    (void)state;
    n_wanted = 1;
    pieces[0].task = (struct task){.work = work, .finish = finish};
    threads_do(threads, &pieces[0].task);
    uv_run(&loop, UV_RUN_DEFAULT); // the loop has all that it needs from here on
    int before = lowest_free();
    assert_int_equal(threads_new(&loop, &threads, &e), 0);
    hung.task = (struct task){.work = hang, .finish = finish};
    threads_do(threads, &hung.task);
    sem_wait(&begun);
    closed = false;
    threads_abandon(threads, on_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(lowest_free(), before);
    sem_post(&may_go);
    assert_int_equal(hung.finished, 0);
    uv_loop_close(&loop);
}

// ---- a thread that stands still -----------------------------------------------------------------

#define STOPS 3000

static pthread_t stopped;
static atomic_bool stopped_known;
static sem_t stands, goes_on;
static bool going;

// It stays where it was, like one that has lost the processor there.
static void on_stop(int signal)
{
    (void)signal;
    sem_post(&stands);
    while (sem_wait(&goes_on) < 0)
        continue;
}

// One thread does it for all others: the first that comes here.
static void work_and_be_stopped(struct task *t)
{
    sigset_t one;
    if (!atomic_exchange(&stopped_known, true)) {
        stopped = pthread_self();
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &one, NULL);
        sem_post(&begun);
    }
    work(t);
}

// Is done again, until the end.
static void finish_again(struct task *t)
{
    if (going)
        threads_do(threads, t);
    else
        finish(t);
}

// Different from one time to the next.
static void spin(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        continue;
}

static void the_loop_waits_for_no_thread(void **state)
{
    struct sigaction action = {.sa_handler = on_stop}, before;
    struct piece *other = &pieces[N_TASKS - 1];
    (void)state;
    n_wanted = N_TASKS - 1;
    going = true;
    sem_init(&stands, 0, 0);
    sem_init(&goes_on, 0, 0);
    sigaction(SIGUSR1, &action, &before);
    other->task = (struct task){.work = work, .finish = finish};
    for (unsigned i = 0; i < n_wanted; i++) {
        pieces[i].task = (struct task){.work = work_and_be_stopped, .finish = finish_again};
        threads_do(threads, &pieces[i].task);
    }
    sem_wait(&begun);
    for (unsigned i = 0; i < STOPS; i++) {
        uv_run(&loop, UV_RUN_ONCE);
        spin(i * 37 % 20000);
        pthread_kill(stopped, SIGUSR1);
        sem_wait(&stands);
        threads_do(threads, &other->task); // here it would wait
        assert_true(threads_take_back(threads, &other->task));
        uv_run(&loop, UV_RUN_NOWAIT);
        sem_post(&goes_on);
    }
    going = false;
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(closed);
    assert_int_equal(other->worked, 0);
    sigaction(SIGUSR1, &before, NULL);
    uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_task_that_is_taken_back_is_not_done, open_pool),
        cmocka_unit_test_setup(the_end_waits_for_all_that_was_given, open_pool),
        cmocka_unit_test_setup(the_end_comes_when_all_is_taken_back, open_pool),
        cmocka_unit_test_setup(who_is_given_up_holds_no_descriptor, open_pool),
        cmocka_unit_test_setup(the_loop_waits_for_no_thread, open_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
