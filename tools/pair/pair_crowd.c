// The board's person looks at one screen, while anybody in the network may connect. Guests are
// therefore served side by side with one poll(), a network that fills all places loses its own
// first, and lines on the screen about strangers are limited, so that nobody can scroll the codes
// away.
#include "tools/pair/pair_crowd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define STRANGER_MS 5000 // in which who connects has to come as far as the codes
#define ATTEMPTS    5u   // of a network at the person's attention
#define ACCEPTS     16   // at once, before others are looked at
#define LINES       16u  // about strangers at once, and one more each LINE_MS
#define LINE_MS     1000u

void pair_crowd_init(struct pair_crowd *c, int listener,
                     void (*shown)(const struct pair_guest *g, void *owner),
                     void (*agreed)(const struct pair_guest *g, void *owner), void *owner)
{
    *c =
        (struct pair_crowd){.listener = listener, .shown = shown, .agreed = agreed, .owner = owner};
    for (int i = 0; i < CROWD_MAX; i++)
        c->guests[i].link.fd = -1;
    c->lines = LINES;
    c->line_ms = clock_ms();
}

void pair_crowd_done(struct pair_crowd *c, const char *why)
{
    for (int i = 0; i < CROWD_MAX; i++)
        pair_guest_drop(&c->guests[i], why);
    c->listener = fd_close(c->listener);
}

// ---- words --------------------------------------------------------------------------------------

// Whoever connects can make such lines, so they are not more than a person can read.
static bool may_say(struct pair_crowd *c)
{
    uint64_t more = (clock_ms() - c->line_ms) / LINE_MS;
    c->line_ms += more * LINE_MS;
    c->lines = more >= LINES - c->lines ? LINES : c->lines + (unsigned)more;
    if (c->lines == 0) {
        c->unsaid++;
        return false;
    }
    c->lines--;
    return true;
}

static void drop(struct pair_crowd *c, struct pair_guest *g, const char *why)
{
    pair_guest_drop(g, why);
    if (!may_say(c))
        return;
    fprintf(stderr, "%s: %s; still waiting\n", g->from, why);
    if (c->unsaid)
        fprintf(stderr, "(%u others were dropped since the last such line)\n", c->unsaid);
    c->unsaid = 0;
}

// ---- room ---------------------------------------------------------------------------------------

static unsigned n_of_network(const struct pair_crowd *c, const char *network)
{
    unsigned n = 0;
    for (int i = 0; i < CROWD_MAX; i++)
        n += c->guests[i].link.fd >= 0 && strcmp(c->guests[i].network, network) == 0;
    return n;
}

static bool goes_before(const struct pair_guest *a, const struct pair_guest *b)
{
    return a->state != b->state ? a->state < b->state : a->since_ms < b->since_ms;
}

static struct pair_guest *make_room(struct pair_crowd *c)
{
    struct pair_guest *victim = NULL;
    unsigned most = 0;
    for (int i = 0; i < CROWD_MAX; i++) {
        struct pair_guest *g = &c->guests[i];
        if (g->link.fd < 0)
            return g;
        unsigned n = n_of_network(c, g->network);
        if (n > most || (n == most && goes_before(g, victim)))
            victim = g;
        most = n > most ? n : most;
    }
    drop(c, victim, "there are too many of this network");
    return victim;
}

static int accept_some(struct pair_crowd *c, struct error *e)
{
    for (int i = 0; i < ACCEPTS; i++) {
        char from[GUEST_FROM], network[GUEST_FROM];
        int fd, r = pair_accept(c->listener, &fd, from, network, sizeof from, e);
        if (r != 0)
            return r < 0 ? r : 0;
        struct pair_guest *g = make_room(c);
        memcpy(g->from, from, sizeof from);
        memcpy(g->network, network, sizeof network);
        if ((r = pair_guest_begin(g, fd, e)) < 0)
            return r;
    }
    return 0;
}

// ---- guests -------------------------------------------------------------------------------------

// What the person sees is worth more than room: who was shown and went away has used up some of it.
static bool may_be_shown(struct pair_crowd *c, const char network[GUEST_FROM])
{
    struct crowd_attempts *a = c->attempts;
    while (a < c->attempts + CROWD_NETWORKS && strcmp(a->network, network) != 0)
        a++;
    if (a == c->attempts + CROWD_NETWORKS) {
        a = &c->attempts[c->n_networks++ % CROWD_NETWORKS];
        a->n = 0;
        memcpy(a->network, network, sizeof a->network);
    }
    return a->n++ < ATTEMPTS;
}

static void go_on(struct pair_crowd *c, struct pair_guest *g)
{
    struct error e;
    enum guest_state before = g->state;
    int r = pair_guest_go_on(g, &e);
    if (r == 0 && before < GUEST_SHOWN && g->state >= GUEST_SHOWN) {
        if (may_be_shown(c, g->network))
            c->shown(g, c->owner);
        else
            r = error_set(&e, STATUS_FAIL, "its network has had %u attempts", ATTEMPTS);
    }
    if (r == 0 && before < GUEST_AGREED && g->state == GUEST_AGREED)
        c->agreed(g, c->owner);
    if (r < 0)
        drop(c, g, e.text);
}

// When the next guest has waited for too long; those who have are dropped.
static uint64_t drop_late(struct pair_crowd *c, uint64_t until_ms)
{
    uint64_t now = clock_ms();
    for (int i = 0; i < CROWD_MAX; i++) {
        struct pair_guest *g = &c->guests[i];
        if (g->link.fd < 0 || g->state >= GUEST_SHOWN)
            continue;
        if (now - g->since_ms >= STRANGER_MS)
            drop(c, g, "it has taken too long");
        else if (g->since_ms + STRANGER_MS < until_ms)
            until_ms = g->since_ms + STRANGER_MS;
    }
    return until_ms;
}

static bool somebody_agreed(const struct pair_crowd *c)
{
    for (int i = 0; i < CROWD_MAX; i++)
        if (c->guests[i].link.fd >= 0 && c->guests[i].state == GUEST_AGREED)
            return true;
    return false;
}

int pair_crowd_wait(struct pair_crowd *c, uint64_t until_ms, struct error *e)
{
    struct pollfd p[2 + CROWD_MAX];
    uint64_t next_ms = drop_late(c, until_ms);
    p[0] = (struct pollfd){c->listener, POLLIN, 0};
    p[1] = (struct pollfd){somebody_agreed(c) ? STDIN_FILENO : -1, POLLIN, 0};
    for (int i = 0; i < CROWD_MAX; i++) {
        const struct pair_link *l = &c->guests[i].link;
        p[2 + i] = (struct pollfd){l->fd, l->fd < 0 ? 0 : pair_link_events(l), 0};
    }
    int r = pair_wait(p, 2 + CROWD_MAX, next_ms, e);
    if (r < 0)
        return r == STATUS_FAIL && next_ms < until_ms && clock_ms() < until_ms ? 0 : r;
    for (int i = 0; i < CROWD_MAX; i++)
        if (p[2 + i].revents)
            go_on(c, &c->guests[i]);
    if (p[1].revents && somebody_agreed(c))
        return 1;
    return p[0].revents ? accept_some(c, e) : 0;
}
