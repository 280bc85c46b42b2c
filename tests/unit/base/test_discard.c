// Descriptors that wait to be closed while close() hangs in all threads: each is closed in the end,
// once, and nothing is allocated for them.
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/net/discard.h"

#define FIRST 100000 // numbers of no descriptors
#define MANY  3000

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; // held: close() hangs
static atomic_uint closed[MANY], n_closed;

void __wrap_fd_close_passed(int fd);

void __wrap_fd_close_passed(int fd)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    assert_cmp(fd, >=, FIRST);
    assert_cmp(fd, <, FIRST + MANY);
    closed[fd - FIRST]++;
    n_closed++;
}

static size_t allocated(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void many_wait(void **state)
{
    struct error e;
    struct rlimit limit;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int n = limit.rlim_max < MANY ? (int)limit.rlim_max : MANY;
    assert_int_equal(discard_prepare(&e), 0);
    size_t before = allocated();
    pthread_mutex_lock(&gate);
    bool few = true;
    for (int i = 0; i < n; i++) {
        const int fd = FIRST + i;
        few = discard_fds(&fd, 1);
    }
    assert_int_equal(few, n < 1024);
    // What the threads take is some hundred bytes for each.
    assert_cmp(allocated(), <, before + (size_t)n * sizeof(int));
    pthread_mutex_unlock(&gate);
    while (atomic_load(&n_closed) < (unsigned)n)
        sched_yield();
    for (int i = 0; i < n; i++)
        assert_int_equal(closed[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
