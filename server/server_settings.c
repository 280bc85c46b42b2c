// What the options and the machine decide for the parts: timeouts, groups, and what clients may
// hold. All of it happens at the start, and again with each reload.
#include "server/server.h"

#include <grp.h>
#include <string.h>

#include "server/clients/machine.h"

#define OWN_DESCRIPTORS 64 // beside what clients hold
#define OWN_THREADS     56 // the loop, libuv's, those that hash, those that look at files and names
#define MAX_THREADS     8192 // where the system sets no limit
#define IDLE_BUFFERS    32   // a part of all memory, and of all descriptors
#define MOST_IDLE       256  // of them, which go with their worker
#define WORKER_THREADS  2    // of a worker, beside one for each core: its own, and one to spare
#define NPU_JOB_MS      30000
#define SOFTWARE_JOB_MS 600000

// An NPU that takes longer hangs. A machine that computes in its place may just be slow, or have
// much else to do.
static uint32_t job_timeout(const struct server *s)
{
    if (s->options->job_timeout_ms)
        return s->options->job_timeout_ms;
    return s->device.timing == NPU_TIMING_DEVICE ? NPU_JOB_MS : SOFTWARE_JOB_MS;
}

void server_copy_options(struct server *s)
{
    const struct options *o = s->options;
    s->runner_options.plugin_dir = o->plugin_dir ? o->plugin_dir : PLUGIN_DIR;
    s->runner_options.load_timeout_ms = o->load_timeout_ms;
    s->runner_options.job_timeout_ms = job_timeout(s);
    s->jobs.hold_limit_ms = o->hold_timeout_ms;
    s->jobs.slice_us = o->slice_us;
}

void server_copy_groups(struct server *s)
{
    const struct rights *rights = &s->options->rights;
    memcpy(s->groups, rights->groups, sizeof rights->groups);
    for (uint32_t i = rights->n; i < ORIGIN_SOCKET_GROUP; i++)
        s->groups[i] = (gid_t)-1;
}

void server_find_groups(struct server *s)
{
    const struct options *o = s->options;
    const struct group *group = o->socket_group ? getgrnam(o->socket_group) : NULL;
    server_copy_groups(s);
    s->groups[ORIGIN_SOCKET_GROUP] = group ? group->gr_gid : (gid_t)-1;
}

// What is left beside the process's own, which is at most half.
static uint64_t beside(uint64_t all, uint64_t own)
{
    return all - (own < all / 2 ? own : all / 2);
}

// Descriptors and threads are the process's, which needs some itself.
void server_set_limits(struct server *s)
{
    const struct options *o = s->options;
    struct account_amounts *t = &s->accounts.total;
    struct machine m;
    machine_read(o->sysfs ? o->sysfs : "/sys", &m);
    uint64_t threads = m.threads < MAX_THREADS ? m.threads : MAX_THREADS;
    uint64_t files = m.descriptors / IDLE_BUFFERS; // of which each has two
    *t = (struct account_amounts){{
        [ACCOUNT_CONNECTIONS] = o->max_connections,
        [ACCOUNT_SESSIONS] = o->max_connections,
        [ACCOUNT_CONTEXTS] = 16384,
        [ACCOUNT_REQUESTS] = 65536,
        [ACCOUNT_BYTES] = m.memory / 2,
        [ACCOUNT_INTERNAL] = m.memory / 2,
        [ACCOUNT_MEMORIES] = 16384,
        [ACCOUNT_UPLOADS] = 256,
        [ACCOUNT_MODELS] = 4096,
        [ACCOUNT_STORAGE] = o->max_models_size ? o->max_models_size : m.memory / 4 * 3,
        [ACCOUNT_STORED] = shelf_disk_size(&s->shelf),
        [ACCOUNT_WORKERS] = 128,
        [ACCOUNT_REPLIES] = m.memory / 16,
        [ACCOUNT_DUMPS] = 32,
        [ACCOUNT_FOLLOWERS] = 256,
        [ACCOUNT_IMPORTS] = IMPORTS_MAX,
        [ACCOUNT_DESCRIPTORS] = beside(m.descriptors, OWN_DESCRIPTORS),
        [ACCOUNT_THREADS] = beside(threads, OWN_THREADS),
    }};
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        if (o->limits.of[i])
            t->of[i] = o->limits.of[i];
    s->store.max_loaded = o->max_loaded_size ? o->max_loaded_size : m.memory / 2;
    s->accounts.worker_threads = s->jobs.scheduler.n_cores + WORKER_THREADS;
    s->counters.worker_threads = s->accounts.worker_threads;
    s->counters.buffers.most_idle_bytes = m.memory / IDLE_BUFFERS;
    s->counters.buffers.most_idle = (unsigned)(files < MOST_IDLE ? files : MOST_IDLE);
}
