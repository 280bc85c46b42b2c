// fork(): before it all tables are locked, in the order of fork_modules.c, so that the child finds
// them whole; after it they are unlocked in the reverse order, in parent and child. The child also
// drops what is the parent's.
#include "client/fork.h"

#include <pthread.h>

static void fork_before(void)
{
    for (size_t i = 0; i < n_fork_modules; i++)
        fork_modules[i].before();
}

static void fork_after(bool child)
{
    for (size_t i = n_fork_modules; i-- > 0;)
        fork_modules[i].after(child);
}

static void in_parent(void)
{
    fork_after(false);
}

static void in_child(void)
{
    fork_after(true);
}

static void fork_install(void)
{
    pthread_atfork(fork_before, in_parent, in_child);
}

void fork_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_install);
}
