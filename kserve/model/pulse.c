// One thread asks the daemon every second, or at once when somebody wants to know it of now. Who
// wants to know waits for a beat that begins after he asked, at a condition and for a bounded time:
// a daemon that is stopped in the middle of an answer keeps only this thread.
#include "kserve/model/pulse.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "rknnd.h"

#include "base/clock.h"
#include "base/log.h"

#define PERIOD_MS 1000
#define FRESH_MS  300  // an answer this old counts as one of now
#define STALE_MS  1500 // one this old, or none within this time, is none

// Between attempts to load what was kept from it; each pause is twice the last one.
#define FIRST_PAUSE_MS 500
#define MOST_PAUSE_MS  64000

struct pulse {
    pthread_t thread;
    bool (*load)(void *user);
    void *user;
    bool failed;                     // the last load(), for want of the daemon
    uint64_t load_from_ms, pause_ms; // not before, and the pause that was before that
    _Atomic uint64_t answered_ms;    // 0: not yet, or refused
    atomic_uint jobs, cores;
    atomic_bool ends, begun; // begun: load() has been through
    atomic_bool due;         // load() is to be called
    pthread_mutex_t lock;
    pthread_cond_t woken, beaten;
    bool stop, wanted; // wanted: somebody waits for the next answer
    uint64_t beats;    // that have ended, with an answer or without
};

static bool pulse_beat(struct pulse *p, unsigned *cores)
{
    rknnd_server_status status = {.struct_size = sizeof status};
    rknnd_server_info info = {.struct_size = sizeof info};
    if (*cores == 0 && rknnd_get_server_info(NULL, &info) == RKNN_SUCC)
        *cores = info.n_cores ? info.n_cores : 1;
    if (rknnd_get_server_status(NULL, &status) != RKNN_SUCC)
        return false;
    p->jobs = status.jobs_waiting + status.jobs_running;
    p->cores = *cores ? *cores : 1;
    p->answered_ms = clock_ms();
    return true;
}

static bool sleep_a_while(struct pulse *p)
{
    uint64_t until = clock_ns() + (uint64_t)PERIOD_MS * 1000000;
    struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    pthread_mutex_lock(&p->lock);
    p->beats++;
    pthread_cond_broadcast(&p->beaten);
    while (!p->stop && !p->wanted && clock_ns() < until)
        pthread_cond_timedwait(&p->woken, &p->lock, &t);
    p->wanted = false;
    bool goes_on = !p->stop;
    pthread_mutex_unlock(&p->lock);
    return goes_on;
}

// A model can be what ends with the same words as a daemon that goes: it keeps nobody else waiting,
// and is not tried for ever.
static void pulse_load(struct pulse *p, unsigned *cores)
{
    p->due = false;
    p->failed = !p->load(p->user);
    p->pause_ms = p->failed && p->pause_ms <= MOST_PAUSE_MS ? 2 * p->pause_ms : FIRST_PAUSE_MS;
    p->load_from_ms = clock_ms() + p->pause_ms;
    if (p->failed && p->pause_ms <= MOST_PAUSE_MS)
        p->due = true;
    if (!p->failed || pulse_beat(p, cores))
        p->begun = true;
}

// What its end kept from being loaded is due at once when it is back.
static void pulse_miss(struct pulse *p)
{
    p->answered_ms = 0;
    p->pause_ms = FIRST_PAUSE_MS;
    p->load_from_ms = 0;
    if (p->failed)
        p->due = true;
}

static void *pulse_run(void *user)
{
    struct pulse *p = user;
    bool there = true;
    unsigned cores = 0;
    do {
        bool answers = pulse_beat(p, &cores);
        if (!answers && there)
            log_warn("%s", rknnd_last_error());
        if (!answers)
            pulse_miss(p);
        if (answers && !there)
            log_info("the daemon answers");
        there = answers;
        if (answers && p->due && clock_ms() >= p->load_from_ms)
            pulse_load(p, &cores);
    } while (sleep_a_while(p));
    return NULL;
}

struct pulse *pulse_start(bool (*load)(void *user), void *user, struct error *e)
{
    struct pulse *p = calloc(1, sizeof *p);
    if (!p) {
        error_no_memory(e, "a thread", sizeof *p);
        return NULL;
    }
    p->load = load;
    p->user = user;
    p->due = true;
    p->pause_ms = FIRST_PAUSE_MS;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->woken, &monotonic);
    pthread_cond_init(&p->beaten, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int r = pthread_create(&p->thread, NULL, pulse_run, p);
    if (r != 0) {
        error_set_errno(e, STATUS_FAIL, r, "a thread");
        free(p);
        return NULL;
    }
    return p;
}

// Its thread may hang in a call to the daemon: it is left to the process's end then.
bool pulse_stop(struct pulse *p)
{
    struct timespec patience;
    clock_gettime(CLOCK_MONOTONIC, &patience);
    patience.tv_sec += 1;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->woken);
    pthread_mutex_unlock(&p->lock);
    if (pthread_clockjoin_np(p->thread, NULL, CLOCK_MONOTONIC, &patience) != 0)
        return false;
    free(p);
    return true;
}

void pulse_load_again(struct pulse *p)
{
    p->due = true;
}

bool pulse_has_begun(const struct pulse *p)
{
    return p->begun;
}

void pulse_end_service(struct pulse *p)
{
    p->ends = true;
}

static bool has_answered(const struct pulse *p, uint64_t within_ms)
{
    uint64_t answered = p->answered_ms;
    return p->begun && !p->ends && answered && clock_ms() - answered < within_ms;
}

// The beat that is under way may have been asked before the daemon was stopped: only an answer
// that comes from now on counts.
bool pulse_is_ready(struct pulse *p)
{
    uint64_t until = clock_ns() + (uint64_t)STALE_MS * 1000000;
    struct timespec t = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (!p->begun || p->ends || has_answered(p, FRESH_MS))
        return p->begun && !p->ends;
    pthread_mutex_lock(&p->lock);
    uint64_t before = p->beats;
    p->wanted = true;
    pthread_cond_signal(&p->woken);
    while (!p->stop && p->beats == before && clock_ns() < until)
        pthread_cond_timedwait(&p->beaten, &p->lock, &t);
    bool beaten = p->beats != before;
    pthread_mutex_unlock(&p->lock);
    return beaten && has_answered(p, STALE_MS);
}

unsigned pulse_free(const struct pulse *p)
{
    unsigned jobs = p->jobs, cores = p->cores;
    if (!has_answered(p, PERIOD_MS + STALE_MS))
        return 0;
    return 100 * cores / (cores + jobs); // never 0 while it serves
}
