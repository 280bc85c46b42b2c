// Handlers around fork(): every table is whole and unlocked in the child.
#include "client/fork.h"

#include <pthread.h>

#include "client/api/mem.h"
#include "client/handle.h"
#include "client/link/keepalive.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/model/model.h"
#include "client/record/record.h"

// In the order in which locks are taken elsewhere, where two are held at once.
static const struct {
    void (*before)(void);
    void (*after)(bool child);
} modules[] = {
    {selection_before_fork, selection_after_fork}, {model_before_fork, model_after_fork},
    {server_before_fork, server_after_fork},       {mem_before_fork, mem_after_fork},
    {handle_before_fork, handle_after_fork},       {keepalive_before_fork, keepalive_after_fork},
    {record_before_fork, record_after_fork},
};
#define N_MODULES (sizeof modules / sizeof *modules)

static void before(void)
{
    for (size_t i = 0; i < N_MODULES; i++)
        modules[i].before();
}

static void after(bool child)
{
    for (size_t i = N_MODULES; i-- > 0;)
        modules[i].after(child);
}

static void in_parent(void)
{
    after(false);
}

static void in_child(void)
{
    after(true);
}

static void install(void)
{
    pthread_atfork(before, in_parent, in_child);
}

void fork_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}
