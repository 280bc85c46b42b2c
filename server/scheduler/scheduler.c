// The scheduler.
//
// Fairness is start-time fair queueing at two levels, in each of the three priorities: users share
// the device by weight, and the clients of a user share what it gets. Each has a virtual time
// (`share.used`: device time had, divided by its weight), and who has the smallest goes next. The
// clock of a level is the virtual time of whoever was served last; one who comes back from being
// idle starts there, so that it neither pays for having waited nor collects credit by not working.
//
//   scheduler_next():  the reserved job, if its cores are free now
//                      else, for each priority from the most urgent:
//                         turn = a job that was passed for too long, or the smallest virtual time
//                         turn fits the idle cores  -> start it
//                         else another job that fits -> start that one (cores never stand idle for
//                                                      fairness), and note that `turn` was blocked
//
// A job blocked for patience_us reserves its cores: nobody else gets them, so that a job that wants
// several at once is not overtaken for ever by jobs that want one.
#include "server/scheduler/scheduler.h"

#include <assert.h>
#include <stddef.h>

// A job of a vision model takes 5 to 50 ms. Patience is in that order, so that a job for several
// cores costs little idle time; aging is well above it, so that lifted jobs stay rare.
#define AGING_US    500000
#define PATIENCE_US 20000

void scheduler_init(struct scheduler *s, uint32_t n_cores)
{
    assert(n_cores > 0 && n_cores <= SCHEDULER_MAX_CORES);
    *s = (struct scheduler){.n_cores = n_cores, .aging_us = AGING_US, .patience_us = PATIENCE_US};
    for (int i = 0; i < SCHEDULER_PRIORITIES; i++)
        list_init(&s->classes[i].ready);
    list_init(&s->running);
}

// A newcomer starts at the clock of each priority, as one who comes back from being idle.
void scheduler_group_init(struct scheduler *s, struct scheduler_group *g, uint32_t weight)
{
    assert(weight > 0 && weight <= SCHEDULER_UNIT);
    *g = (struct scheduler_group){.weight = weight};
    for (int i = 0; i < SCHEDULER_PRIORITIES; i++)
        g->share[i].used = s->classes[i].clock;
}

void scheduler_client_init(struct scheduler_client *c, struct scheduler_group *g)
{
    *c = (struct scheduler_client){.group = g};
    for (int i = 0; i < SCHEDULER_PRIORITIES; i++)
        c->share[i].used = g->clock[i];
}

void scheduler_client_done(struct scheduler *s, struct scheduler_client *c)
{
    assert(c->n_waiting == 0 && c->n_running == 0);
    assert(!s->reserving || s->reserving->queue->client != c);
    (void)s;
    (void)c;
}

void scheduler_queue_init(struct scheduler_queue *q, struct scheduler_client *c, uint8_t priority)
{
    assert(priority < SCHEDULER_PRIORITIES);
    *q = (struct scheduler_queue){.client = c, .priority = priority};
    list_init(&q->jobs);
    list_init(&q->link);
}

static uint32_t all_cores(const struct scheduler *s)
{
    return (1u << s->n_cores) - 1;
}

bool scheduler_can(const struct scheduler *s, struct scheduler_cores wanted)
{
    return wanted.mask ? (wanted.mask & all_cores(s)) != 0
                       : wanted.any > 0 && wanted.any <= s->n_cores;
}

static struct scheduler_share *client_share(const struct scheduler_job *j)
{
    return &j->queue->client->share[j->queue->priority];
}

static struct scheduler_share *group_share(const struct scheduler_job *j)
{
    return &j->queue->client->group->share[j->queue->priority];
}

// ---- what waits --------------------------------------------------------------------------------

static struct scheduler_job *scheduler_head(const struct scheduler_queue *q)
{
    return list_first(&q->jobs, struct scheduler_job, link);
}

// A queue is in its class's list exactly while its first job could start: none of its jobs runs, it
// is not held, and something waits.
static void update_ready(struct scheduler *s, struct scheduler_queue *q)
{
    struct scheduler_class *class = &s->classes[q->priority];
    class->n_ready -= !list_empty(&q->link);
    list_remove(&q->link);
    if (!q->running && !q->held && !list_empty(&q->jobs)) {
        list_append(&class->ready, &q->link);
        class->n_ready++;
    }
}

static void count_waiting(struct scheduler *s, struct scheduler_queue *q, int change)
{
    s->n_waiting += (unsigned)change;
    q->n_jobs += (unsigned)change;
    s->classes[q->priority].n_waiting += (unsigned)change;
    q->client->n_waiting += (unsigned)change;
}

// One more active job. Whoever had none starts where the others are: max(used, clock).
static void scheduler_activate(struct scheduler_share *share, uint64_t clock)
{
    if (share->n_active++ == 0 && share->used < clock)
        share->used = clock;
}

static void scheduler_deactivate(struct scheduler_job *j)
{
    client_share(j)->n_active--;
    group_share(j)->n_active--;
}

void scheduler_add(struct scheduler *s, struct scheduler_job *j, struct scheduler_queue *q,
                   struct scheduler_cores wanted, uint64_t now_us)
{
    struct scheduler_class *class = &s->classes[q->priority];
    assert(scheduler_can(s, wanted));
    wanted.mask &= all_cores(s);
    *j = (struct scheduler_job){.queue = q, .wanted = wanted, .waiting_since_us = now_us};
    scheduler_activate(client_share(j), q->client->group->clock[q->priority]);
    scheduler_activate(group_share(j), class->clock);
    if (class->n_waiting == 0)
        class->served_us = now_us;
    list_append(&q->jobs, &j->link);
    count_waiting(s, q, 1);
    if (list_empty(&q->link))
        update_ready(s, q);
}

// Out of its queue, and no cores are reserved for it any more.
static void take_out(struct scheduler *s, struct scheduler_job *j)
{
    if (s->reserving == j)
        s->reserving = NULL;
    list_remove(&j->link);
    count_waiting(s, j->queue, -1);
}

void scheduler_remove(struct scheduler *s, struct scheduler_job *j)
{
    assert(!j->placed);
    take_out(s, j);
    scheduler_deactivate(j);
    update_ready(s, j->queue);
}

// ---- what runs ---------------------------------------------------------------------------------

// Accounts a running job's time up to now, so that choices see what everyone has had so far:
//
//   client.used += us * cores          group.used += us * cores * UNIT / weight
static void scheduler_charge_job(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    struct scheduler_client *c = j->queue->client;
    struct scheduler_group *g = c->group;
    uint64_t us = now_us - j->charged_us;
    uint64_t core_us = us * (unsigned)__builtin_popcount(j->placed);
    j->charged_us = now_us;
    for (uint32_t i = 0; i < s->n_cores; i++)
        s->core_us[i] += j->placed >> i & 1 ? us : 0;
    c->core_us += core_us;
    g->core_us += core_us;
    client_share(j)->used += core_us;
    group_share(j)->used += core_us * SCHEDULER_UNIT / g->weight;
}

void scheduler_charge(struct scheduler *s, uint64_t now_us)
{
    struct scheduler_job *j;
    list_for_each (j, &s->running, link)
        scheduler_charge_job(s, j, now_us);
}

// The n lowest bits that are set in `cores`, or all if there are fewer.
static uint32_t first_cores(uint32_t cores, unsigned n)
{
    uint32_t ret = 0;
    for (; n > 0 && cores; n--) {
        ret |= cores & -cores;
        cores &= cores - 1;
    }
    return ret;
}

// Marks jobs of the same group that came before `by` and did not start before it: they were passed.
static void note_passed(const struct scheduler_class *class, const struct scheduler_job *by,
                        uint64_t now_us)
{
    struct scheduler_queue *q;
    list_for_each (q, &class->ready, link) {
        struct scheduler_job *j = scheduler_head(q);
        if (!j->passed && q->client->group == by->queue->client->group &&
            j->waiting_since_us < by->waiting_since_us) {
            j->passed = true;
            j->passed_us = now_us;
        }
    }
}

// Moves the job from its queue to the running ones and takes its cores.
static void scheduler_start(struct scheduler *s, struct scheduler_job *j, uint32_t idle,
                            uint64_t now_us)
{
    struct scheduler_queue *q = j->queue;
    struct scheduler_class *class = &s->classes[q->priority];
    note_passed(class, j, now_us);
    take_out(s, j);
    j->placed = j->wanted.mask ? j->wanted.mask : first_cores(idle, j->wanted.any);
    j->started_us = j->charged_us = now_us;
    list_append(&s->running, &j->link);
    s->busy |= j->placed;
    s->n_running++;
    q->client->n_running++;
    q->running = true;
    update_ready(s, q);
}

// Its queue stays as it is.
void scheduler_suspend(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    assert(j->placed);
    scheduler_charge_job(s, j, now_us);
    list_remove(&j->link);
    s->busy &= ~j->placed;
    s->n_running--;
    s->n_suspended++;
    j->queue->client->n_running--;
    scheduler_deactivate(j);
    j->wanted = (struct scheduler_cores){.mask = j->placed};
    j->placed = 0;
}

void scheduler_abandon(struct scheduler *s, struct scheduler_job *j)
{
    s->n_suspended--;
    j->queue->running = false;
    update_ready(s, j->queue);
}

void scheduler_resume(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    struct scheduler_queue *q = j->queue;
    s->n_suspended--;
    q->running = false;
    scheduler_add_first(s, j, q, j->wanted, now_us);
}

void scheduler_yield(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    scheduler_suspend(s, j, now_us);
    scheduler_resume(s, j, now_us);
    j->interrupted = true;
}

void scheduler_end(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    scheduler_suspend(s, j, now_us);
    scheduler_abandon(s, j);
}

void scheduler_add_first(struct scheduler *s, struct scheduler_job *j, struct scheduler_queue *q,
                         struct scheduler_cores wanted, uint64_t now_us)
{
    scheduler_add(s, j, q, wanted, now_us);
    list_remove(&j->link);
    list_append(q->jobs.next, &j->link); // before the first
}

void scheduler_hold(struct scheduler *s, struct scheduler_queue *q, bool held)
{
    q->held = held;
    if (held && s->reserving && s->reserving->queue == q)
        s->reserving = NULL;
    update_ready(s, q);
}

// ---- the choice --------------------------------------------------------------------------------

static bool scheduler_fits(const struct scheduler_job *j, uint32_t idle)
{
    if (j->wanted.mask)
        return (j->wanted.mask & ~idle) == 0;
    unsigned needed = j->wanted.or_fewer ? 1 : j->wanted.any;
    return (unsigned)__builtin_popcount(idle) >= needed;
}

// Order of turns: what was interrupted; then between groups by the groups' virtual time, within a
// group by the clients'. Equal ones: fewer running jobs first, then the longer wait.
static bool goes_before(const struct scheduler_job *a, const struct scheduler_job *b)
{
    const struct scheduler_client *client_a = a->queue->client, *client_b = b->queue->client;
    if (a->interrupted != b->interrupted)
        return a->interrupted;
    uint64_t group_a = group_share(a)->used, group_b = group_share(b)->used;
    uint64_t used_a = client_share(a)->used, used_b = client_share(b)->used;
    if (client_a->group != client_b->group && group_a != group_b)
        return group_a < group_b;
    if (client_a->group == client_b->group && used_a != used_b)
        return used_a < used_b;
    if (client_a->n_running != client_b->n_running)
        return client_a->n_running < client_b->n_running;
    return a->waiting_since_us < b->waiting_since_us;
}

// The first in turn of a class, of all (`any`) or of those that fit.
static struct scheduler_job *first_in_turn(const struct scheduler_class *class, uint32_t idle,
                                           bool any)
{
    struct scheduler_job *best = NULL;
    struct scheduler_queue *q;
    list_for_each (q, &class->ready, link) {
        struct scheduler_job *j = scheduler_head(q);
        if ((any || scheduler_fits(j, idle)) && (!best || goes_before(j, best)))
            best = j;
    }
    return best;
}

static bool is_overtaken(const struct scheduler *s, const struct scheduler_job *j, uint64_t now_us)
{
    return s->aging_us && j->passed && now_us - j->passed_us >= s->aging_us;
}

// The job that was passed longest, if that is too long and it is time for such a job.
static struct scheduler_job *
scheduler_overtaken(const struct scheduler *s, const struct scheduler_class *class, uint64_t now_us)
{
    struct scheduler_job *longest = NULL;
    struct scheduler_queue *q;
    if (class->relieved || now_us - class->relieved_us < 2ull * s->aging_us)
        return NULL;
    list_for_each (q, &class->ready, link) {
        struct scheduler_job *j = scheduler_head(q);
        if (is_overtaken(s, j, now_us) && (!longest || j->passed_us < longest->passed_us))
            longest = j;
    }
    return longest;
}

// Notes that a job's turn has come although its cores are busy. After a while they are kept for it.
static void note_blocked(struct scheduler *s, struct scheduler_job *j, uint64_t now_us)
{
    if (!j->blocked) {
        j->blocked = true;
        j->blocked_us = now_us;
    }
    if (!s->reserving && now_us - j->blocked_us >= s->patience_us)
        s->reserving = j;
}

// A priority's place now: its number, less one for each aging_us in which nothing of it was served.
static int64_t scheduler_level(const struct scheduler *s, int priority, uint64_t now_us)
{
    uint64_t unserved_us = now_us - s->classes[priority].served_us;
    return priority - (s->aging_us ? (int64_t)(unserved_us / s->aging_us) : 0);
}

// The class to serve next among those in the mask; of equals the one that waits longer, which is
// the lifted one. -1: none has anything.
static int most_urgent(const struct scheduler *s, unsigned classes, uint64_t now_us)
{
    int best = -1;
    for (int i = 0; i < SCHEDULER_PRIORITIES; i++) {
        if (!(classes & 1u << i) || list_empty(&s->classes[i].ready))
            continue;
        int64_t difference =
            best < 0 ? -1 : scheduler_level(s, i, now_us) - scheduler_level(s, best, now_us);
        if (difference < 0 ||
            (difference == 0 && s->classes[i].served_us < s->classes[best].served_us))
            best = i;
    }
    return best;
}

// The cores that anyone but the job they are kept for may have.
static uint32_t scheduler_unreserved(const struct scheduler *s, uint32_t idle)
{
    if (!s->reserving)
        return idle;
    return s->reserving->wanted.mask ? idle & ~s->reserving->wanted.mask : 0;
}

static void advance_clock(uint64_t *clock, const struct scheduler_share *served)
{
    if (*clock < served->used)
        *clock = served->used;
}

// A job starts in its turn.
static struct scheduler_job *scheduler_serve(struct scheduler *s, struct scheduler_job *j,
                                             uint64_t now_us)
{
    struct scheduler_queue *q = j->queue;
    struct scheduler_class *class = &s->classes[q->priority];
    class->served_us = now_us;
    advance_clock(&class->clock, group_share(j));
    advance_clock(&q->client->group->clock[q->priority], client_share(j));
    class->relieved = is_overtaken(s, j, now_us);
    if (class->relieved)
        class->relieved_us = now_us;
    return j;
}

// Whether a class before this one has something: it is served first because it has waited long.
static bool more_urgent_waits(const struct scheduler *s, int priority)
{
    bool waits = false;
    for (int i = 0; i < priority; i++)
        waits = waits || !list_empty(&s->classes[i].ready);
    return waits;
}

// The steps are at the head of the file. *idle: on entry the idle cores, on return those of them
// that the job may have. Only a job of the most urgent priority can be noted as blocked and reserve
// cores.
static struct scheduler_job *scheduler_choose(struct scheduler *s, uint32_t *idle, uint64_t now_us)
{
    const unsigned all = (1u << SCHEDULER_PRIORITIES) - 1;
    unsigned untried = all;
    if (s->reserving && scheduler_fits(s->reserving, *idle))
        return scheduler_serve(s, s->reserving, now_us);
    for (int i; (i = most_urgent(s, untried, now_us)) >= 0; untried &= ~(1u << i)) {
        struct scheduler_class *class = &s->classes[i];
        struct scheduler_job *turn = scheduler_overtaken(s, class, now_us);
        bool lifted = untried == all && more_urgent_waits(s, i);
        if (!turn)
            turn = first_in_turn(class, *idle, true);
        if (untried == all && !scheduler_fits(turn, *idle))
            note_blocked(s, turn, now_us);
        *idle = scheduler_unreserved(s, *idle);
        if (scheduler_fits(turn, *idle)) {
            turn->lifted = lifted;
            return scheduler_serve(s, turn, now_us);
        }
        struct scheduler_job *j = first_in_turn(class, *idle, false);
        if (j)
            return j;
    }
    return NULL;
}

// ---- cores of less urgent jobs -----------------------------------------------------------------

static bool can_be_asked(const struct scheduler_job *j, int priority)
{
    return j->queue->priority > priority && !j->lifted;
}

// The least urgent that can be asked and have cores of the mask; of equals the one that started
// last, which has done least. NULL: none.
static struct scheduler_job *least_urgent(const struct scheduler *s, uint32_t mask, int priority)
{
    struct scheduler_job *j, *ret = NULL;
    list_for_each (j, &s->running, link) {
        if (!(j->placed & mask) || !can_be_asked(j, priority) || j->asked)
            continue;
        if (!ret || j->queue->priority > ret->queue->priority ||
            (j->queue->priority == ret->queue->priority && j->started_us >= ret->started_us))
            ret = j;
    }
    return ret;
}

// Cores that are idle, or will be when those that are asked, or can be, have answered.
static uint32_t cores_within_reach(const struct scheduler *s, int priority, bool asked_only)
{
    const struct scheduler_job *j;
    uint32_t cores = all_cores(s) & ~s->busy;
    list_for_each (j, &s->running, link)
        if (can_be_asked(j, priority) && (j->asked || !asked_only))
            cores |= j->placed;
    return cores;
}

struct scheduler_job *scheduler_victim(struct scheduler *s, uint64_t now_us)
{
    int i = s->n_waiting ? most_urgent(s, (1u << SCHEDULER_PRIORITIES) - 1, now_us) : -1;
    struct scheduler_job *turn = i < 0 ? NULL : first_in_turn(&s->classes[i], 0, true);
    if (!turn || scheduler_fits(turn, cores_within_reach(s, i, true)) ||
        !scheduler_fits(turn, cores_within_reach(s, i, false)))
        return NULL;
    struct scheduler_job *j =
        least_urgent(s, turn->wanted.mask ? turn->wanted.mask : all_cores(s), i);
    if (j)
        j->asked = true;
    return j;
}

struct scheduler_job *scheduler_next(struct scheduler *s, uint64_t now_us)
{
    uint32_t idle = all_cores(s) & ~s->busy;
    if (!idle || s->n_waiting == 0)
        return NULL;
    scheduler_charge(s, now_us);
    struct scheduler_job *j = scheduler_choose(s, &idle, now_us);
    if (j)
        scheduler_start(s, j, idle, now_us);
    return j;
}
