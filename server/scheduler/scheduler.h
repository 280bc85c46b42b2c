// The scheduler: which waiting job runs next, on which cores. Pure logic, no I/O, no clock of its
// own; the server tells it what happens and what time it is (any clock that does not go back).
//
// Between priorities: the higher first, with aging. A priority whose next job in turn has not
// started for aging_us counts as one step higher, after twice that as two; so under a flood of
// high-priority jobs a lower one gets a job through now and then: it is late, never starved, and
// never a flood.
//
// Inside one priority: the group (a user) that has had the least device time for its weight goes
// first, and in it the client that has had the least, so that ten greedy contexts of one client get
// what one polite context of another gets, and ten clients of one user what one of another gets.
// Whoever was idle gets no credit for it.
//
// Jobs of one context run in order, one at a time. No core is idle while a job that waits would
// fit, with one exception: when the job whose turn it is (say, one that wants three cores at once)
// has been blocked by busy cores for patience_us, the cores it wants are kept for it. A job that
// later ones of its own group have passed for aging_us, because they fit where it did not, comes
// out of turn: at most every second one of a priority, and one in twice aging_us.
//
// Where jobs can be interrupted, one of a lower priority is asked for the cores that a more urgent
// one wants, and goes on before all others of its priority when it can have them again: inside one
// priority everything is as if nobody had been interrupted. One that started because it had waited
// for aging_us is not asked.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define SCHEDULER_MAX_CORES  8
#define SCHEDULER_PRIORITIES 3 // RKNN_FLAG_PRIOR_HIGH, MEDIUM, LOW

// What a client, or all clients of a group, have had in one priority.
struct scheduler_share {
    uint64_t used;     // core-time for its weight: us * cores * SCHEDULER_UNIT / weight
    unsigned n_active; // jobs that wait or run
};

#define SCHEDULER_UNIT 1024

// Clients that belong together: a user. Embedded by its owner.
struct scheduler_group {
    uint32_t weight;  // 1..SCHEDULER_UNIT
    uint64_t core_us; // device time had, all in all
    struct scheduler_share share[SCHEDULER_PRIORITIES];
    uint64_t clock[SCHEDULER_PRIORITIES]; // share.used of the client last served in turn: where
                                          // newcomers start
};

// A party that shares the device equally with others in its group: a session. Embedded by its
// owner.
struct scheduler_client {
    struct scheduler_group *group;
    unsigned n_waiting, n_running;
    uint64_t core_us;
    struct scheduler_share share[SCHEDULER_PRIORITIES];
};

// The order of one context's jobs. Embedded by its owner.
struct scheduler_queue {
    struct list jobs; // waiting, in order
    unsigned n_jobs;
    struct list link; // in the scheduler while something waits and nothing runs
    struct scheduler_client *client;
    uint8_t priority;
    bool running, held;
};

// The cores that a job wants, all at the same time.
struct scheduler_cores {
    uint32_t mask; // just these; 0:
    unsigned any;  // so many, whichever,
    bool or_fewer; // but those that are idle are enough
};

// One job's place. Embedded by its owner.
struct scheduler_job {
    struct list link; // in its queue while waiting, in the scheduler while running
    struct scheduler_queue *queue;
    struct scheduler_cores wanted;
    uint32_t placed; // cores it runs on; 0: waiting
    uint64_t waiting_since_us, started_us;
    uint64_t charged_us; // its time is accounted up to here
    uint64_t blocked_us; // its turn came then, but its cores were busy
    uint64_t passed_us;  // a later job of its group started then
    bool blocked, passed;
    bool lifted;      // started although something more urgent waited
    bool asked;       // scheduler_victim() has brought it
    bool interrupted; // goes on before others of its priority
};

struct scheduler_class {
    struct list ready; // queues
    unsigned n_ready;
    unsigned n_waiting;
    uint64_t served_us;   // when the last job whose turn it was started, or its first one came
    bool relieved;        // that was one which had been passed for long
    uint64_t relieved_us; // when such a job started last
    uint64_t clock;       // share.used of the group that it served last: where newcomers start
};

struct scheduler {
    uint32_t n_cores;
    uint32_t busy; // core mask
    struct scheduler_class classes[SCHEDULER_PRIORITIES];
    struct list running;
    struct scheduler_job *reserving; // the job that cores are kept for
    uint32_t aging_us;               // 0: none. Both may be changed at any time
    uint32_t patience_us;
    unsigned n_waiting, n_running, n_suspended;
    uint64_t core_us[SCHEDULER_MAX_CORES]; // that each core was busy
};

void scheduler_init(struct scheduler *s, uint32_t n_cores); // 1..SCHEDULER_MAX_CORES
void scheduler_group_init(struct scheduler *s, struct scheduler_group *g, uint32_t weight);
void scheduler_client_init(struct scheduler_client *c, struct scheduler_group *g);
void scheduler_client_done(struct scheduler *s,
                           struct scheduler_client *c); // nothing waits, nothing runs
void scheduler_queue_init(struct scheduler_queue *q, struct scheduler_client *c, uint8_t priority);

/// False: the device does not have such cores. (In a mask, cores that do not exist are ignored
/// beside others that do: ALL means all there are.)
bool scheduler_can(const struct scheduler *s, struct scheduler_cores wanted);

/// Puts a job, for which scheduler_can(), at the end of its queue.
void scheduler_add(struct scheduler *s, struct scheduler_job *j, struct scheduler_queue *q,
                   struct scheduler_cores wanted, uint64_t now_us);

/// The next job to start, with `placed` set and its cores taken; NULL when nothing can start now.
/// To be called until NULL after each add, end and remove. Takes time in proportion to the number
/// of contexts with waiting jobs, none when every core is busy.
struct scheduler_job *scheduler_next(struct scheduler *s, uint64_t now_us);

/// A started job has ended (whatever came of it); its cores are free and its time is accounted.
void scheduler_end(struct scheduler *s, struct scheduler_job *j, uint64_t now_us);

/// Accounts the time of what runs up to now, so that core_us and the like are up to date.
void scheduler_charge(struct scheduler *s, uint64_t now_us);

/// Takes a waiting job out.
void scheduler_remove(struct scheduler *s, struct scheduler_job *j);

/// A started job gives its cores back in the middle, to go on with the same ones later. Its queue
/// stays with it: nothing else of it starts. Either scheduler_resume() or scheduler_abandon()
/// follows.
void scheduler_suspend(struct scheduler *s, struct scheduler_job *j, uint64_t now_us);

/// A running job whose cores a more urgent one waits for and could have; NULL: there is none. Each
/// run of cores is brought once. To be called until NULL after scheduler_next() was.
struct scheduler_job *scheduler_victim(struct scheduler *s, uint64_t now_us);

/// A job that runs lets others have its cores: scheduler_suspend() and _resume() in one.
void scheduler_yield(struct scheduler *s, struct scheduler_job *j, uint64_t now_us);

/// It waits for its cores, in front of its queue: scheduler_next() brings it as if it were new.
void scheduler_resume(struct scheduler *s, struct scheduler_job *j, uint64_t now_us);

/// A suspended job has ended.
void scheduler_abandon(struct scheduler *s, struct scheduler_job *j);

/// Puts a job, for which scheduler_can(), in front of its queue.
void scheduler_add_first(struct scheduler *s, struct scheduler_job *j, struct scheduler_queue *q,
                         struct scheduler_cores wanted, uint64_t now_us);

/// Nothing of a queue that is held starts.
void scheduler_hold(struct scheduler *s, struct scheduler_queue *q, bool held);
