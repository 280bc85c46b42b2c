// Fair queueing by start times: what a peer has computed grows with what it takes, and where it was
// away it begins with what those in line have, so that nobody saves up.
//
// A thread looks for seats that are held for too long, as long as somebody waits.
#include "kserve/seats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct seat_peer {
    struct list link;   // of seats' peers
    struct list in_row; // of peers with somebody in line
    struct list line;   // of seats
    struct seat_key key;
    unsigned n, n_sitting; // connections
    uint64_t used_ns;
};

// ---- turns, all with the lock -------------------------------------------------------------------

static void sit_down(struct seats *s, struct seat *t)
{
    s->n_free--;
    s->floor_ns = t->peer->used_ns;
    t->peer->n_sitting++;
    t->since_ns = s->clock();
    t->lent = false;
    list_append(&s->sitting, &t->link);
}

// Of those who have used the same, who came first.
static struct seat_peer *next_peer(struct seats *s)
{
    struct seat_peer *p, *least = NULL;
    list_for_each (p, &s->row, in_row)
        if (!least || p->used_ns < least->used_ns)
            least = p;
    return least;
}

static void hand_over(struct seats *s)
{
    struct seat_peer *p;
    while (s->n_free > 0 && (p = next_peer(s))) {
        struct seat *t = list_first(&p->line, struct seat, link);
        list_remove(&t->link);
        list_remove(&p->in_row);
        if (!list_empty(&p->line))
            list_append(&s->row, &p->in_row);
        s->n_waiting--;
        sit_down(s, t);
        sem_post(&t->turn);
    }
}

static void get_in_line(struct seats *s, struct seat *t)
{
    struct seat_peer *p = t->peer;
    if (list_empty(&p->line))
        list_append(&s->row, &p->in_row);
    list_append(&p->line, &t->link);
    if (s->n_waiting++ == 0)
        pthread_cond_signal(&s->wanted);
}

// When the next one is to be lent.
static uint64_t lend(struct seats *s)
{
    uint64_t now = s->clock(), next = now + s->patience_ns;
    struct seat *t;
    list_for_each (t, &s->sitting, link) {
        if (t->lent)
            continue;
        uint64_t due = t->since_ns + s->patience_ns;
        t->lent = due <= now;
        s->n_free += t->lent;
        next = !t->lent && due < next ? due : next;
    }
    return next;
}

static void *watch(void *owner)
{
    struct seats *s = owner;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->n_waiting == 0) {
            pthread_cond_wait(&s->wanted, &s->lock);
            continue;
        }
        uint64_t next = lend(s);
        hand_over(s);
        struct timespec t = {(time_t)(next / 1000000000), (long)(next % 1000000000)};
        if (s->n_waiting > 0)
            pthread_cond_timedwait(&s->wanted, &s->lock, &t);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// ---- who sits -----------------------------------------------------------------------------------

void seat_take(struct seat *t)
{
    if (!t || !t->of)
        return;
    struct seats *s = t->of;
    struct seat_peer *p = t->peer;
    pthread_mutex_lock(&s->lock);
    if (p->n_sitting == 0 && list_empty(&p->line) && p->used_ns < s->floor_ns)
        p->used_ns = s->floor_ns;
    bool waits = s->n_free == 0;
    if (waits)
        get_in_line(s, t);
    else
        sit_down(s, t);
    pthread_mutex_unlock(&s->lock);
    while (waits && sem_wait(&t->turn) < 0 && errno == EINTR)
        continue;
}

// Who holds it for long may have waited for something, which is not paid for.
void seat_give(struct seat *t)
{
    if (!t || !t->of)
        return;
    struct seats *s = t->of;
    pthread_mutex_lock(&s->lock);
    uint64_t took = s->clock() - t->since_ns + 1;
    t->peer->used_ns += took < s->patience_ns ? took : s->patience_ns;
    t->peer->n_sitting--;
    list_remove(&t->link);
    s->n_free += !t->lent;
    hand_over(s);
    pthread_mutex_unlock(&s->lock);
}

// ---- life ---------------------------------------------------------------------------------------

static struct seat_peer *find_peer(struct seats *s, const struct seat_key *key)
{
    struct seat_peer *p;
    list_for_each (p, &s->peers, link)
        if (memcmp(&p->key, key, sizeof *key) == 0)
            return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->key = *key;
    list_init(&p->in_row);
    list_init(&p->line);
    list_append(&s->peers, &p->link);
    return p;
}

bool seat_init(struct seat *t, struct seats *s, const struct seat_key *key)
{
    pthread_mutex_lock(&s->lock);
    struct seat_peer *p = find_peer(s, key);
    if (p)
        p->n++;
    pthread_mutex_unlock(&s->lock);
    if (!p)
        return false;
    t->of = s;
    t->peer = p;
    list_init(&t->link);
    sem_init(&t->turn, 0, 0);
    return true;
}

void seat_done(struct seat *t)
{
    struct seats *s = t->of;
    struct seat_peer *p = t->peer;
    pthread_mutex_lock(&s->lock);
    if (--p->n == 0) {
        list_remove(&p->link);
        free(p);
    }
    pthread_mutex_unlock(&s->lock);
    sem_destroy(&t->turn);
    t->of = NULL;
}

struct seats *seats_new(unsigned n, uint64_t patience_ns, uint64_t (*clock)(void))
{
    struct seats *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wanted, &monotonic);
    pthread_condattr_destroy(&monotonic);
    list_init(&s->peers);
    list_init(&s->row);
    list_init(&s->sitting);
    s->n_free = n;
    s->patience_ns = patience_ns;
    s->clock = clock;
    if (pthread_create(&s->thread, NULL, watch, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void seats_free(struct seats *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wanted);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wanted);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
