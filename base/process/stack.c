#include "base/process/stack.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#define USUAL (8u << 20) // what systems give
#define LEAST (1u << 20) // what the libraries that run models were tried with, and some more

// The C library has looked at the limit before main().
static int set_default(size_t size, struct error *e)
{
    pthread_attr_t a;
    int r = pthread_attr_init(&a);
    if (r == 0) {
        r = pthread_attr_setstacksize(&a, size);
        if (r == 0)
            r = pthread_setattr_default_np(&a);
        pthread_attr_destroy(&a);
    }
    return r ? error_set_errno(e, STATUS_FAIL, r, "the size of stacks") : 0;
}

int stack_ensure(struct error *e)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= LEAST)
        return 0;
    if (limit.rlim_max < LEAST)
        return error_set(e, STATUS_PARAM_INVALID,
                         "stacks may have %llu kB, and need %u: raise the limit (ulimit -s, "
                         "LimitSTACK=)",
                         (unsigned long long)limit.rlim_max / 1024, LEAST / 1024);
    limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
    if (setrlimit(RLIMIT_STACK, &limit) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "the limit of stacks");
    return set_default((size_t)limit.rlim_cur, e);
}
