// The board's end of a pairing. Until a person has typed a code, everybody who has connected is as
// good as everybody else: who comes first cannot keep the others away.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/tls/tls_keys_store.h"
#include "tools/pair/pair.h"
#include "tools/pair/pair_crowd.h"

// The file's own key of this identity will be replaced; whoever sits here should know.
static const char *warning(const struct pair *p, const char *identity)
{
    struct tls_keys keys;
    if (tls_keys_read(p->file, &keys, NULL) < 0)
        return "";
    bool there = tls_keys_find(&keys, identity, strlen(identity));
    tls_keys_done(&keys);
    return there ? " (it has a key already, which will be replaced)" : "";
}

static void on_shown(const struct pair_guest *g, void *owner)
{
    printf("%s at %s wants to be paired%s. Type this code there: %s\n", g->name, g->from,
           warning(owner, g->name), g->codes.of_board);
    fflush(stdout);
}

static void on_agreed(const struct pair_guest *g, void *owner)
{
    (void)owner;
    printf("%s at %s says that the code is right, and shows another one: ", g->name, g->from);
    fflush(stdout);
}

// Whose code it is that the person types.
static int choose(struct pair_crowd *c, struct pair_guest **ret, struct error *e)
{
    char typed[64];
    if (!pair_read_line(typed, sizeof typed))
        return error_set(e, STATUS_FAIL, "nobody is there to type");
    for (struct pair_guest *g = c->guests; g < c->guests + CROWD_MAX; g++)
        if (g->link.fd >= 0 && g->state == GUEST_AGREED &&
            pairing_code_is(typed, g->codes.of_client)) {
            *ret = g;
            return 0;
        }
    return pair_differs(e);
}

static int meet(struct pair_crowd *c, uint64_t until, struct pair_guest **ret, struct error *e)
{
    int r;
    while ((r = pair_crowd_wait(c, until, e)) == 0)
        continue;
    return r < 0 ? r : choose(c, ret, e);
}

// What the file has of an identity, to be put back; a key of no bytes: nothing.
static int read_old(const struct pair *p, const char *identity, struct tls_key *ret,
                    struct error *e)
{
    struct tls_keys keys = {0};
    *ret = (struct tls_key){0};
    int r = access(p->file, F_OK) == 0 ? tls_keys_read(p->file, &keys, e) : 0;
    snprintf(ret->identity, sizeof ret->identity, "%s", identity);
    for (size_t i = 0; r == 0 && i < keys.n; i++)
        if (strcmp(keys.all[i].identity, identity) == 0 && !*keys.all[i].server)
            *ret = keys.all[i];
    tls_keys_done(&keys);
    return r;
}

// The other end may not have it: with a key of before it would be locked out by a pairing that
// failed.
static void take_back(const struct pair *p, const struct tls_key *old, struct error *why)
{
    struct error e;
    if (tls_keys_store(p->file, NULL, old, &e) < 0)
        error_prefix(why, "%s keeps the new key (%s)", p->file, e.text);
    else
        error_prefix(why, "nothing is stored here");
}

static int give_key(struct pair *p, struct pair_guest *g, struct error *e)
{
    struct pair_message key = {.type = PAIR_KEY, .port = p->daemon_port}, stored;
    struct tls_key old;
    memcpy(p->paired, g->name, sizeof p->paired);
    int r = read_old(p, p->paired, &old, e);
    if (r == 0)
        r = pairing_random(key.bytes, PAIR_BYTES, e);
    if (r == 0)
        r = pair_store(p, p->paired, "", key.bytes, e);
    if (r == 0) {
        r = pair_link_send(&g->link, &key, e);
        if (r == 0)
            r = pair_link_receive(&g->link, PAIR_STORED, &stored, e);
        if (r < 0)
            take_back(p, &old, e);
    }
    explicit_bzero(&key, sizeof key);
    explicit_bzero(&old, sizeof old);
    return r;
}

int pair_with_client(struct pair *p, struct error *e)
{
    struct pair_crowd c;
    struct pair_guest *g = NULL;
    uint64_t until = clock_ms() + p->wait_ms;
    int listener = pair_listen(p->host, p->port, e);
    if (listener < 0)
        return listener;
    printf("Waiting for `rknnctl pair HOST` at port %u, for %u seconds at most.\n", p->port,
           (unsigned)(p->wait_ms / 1000));
    fflush(stdout);
    pair_crowd_init(&c, listener, on_shown, on_agreed, p);
    int r = meet(&c, until, &g, e);
    if (r == 0) {
        g->link.until_ms = until;
        r = give_key(p, g, e);
    }
    if (r == 0)
        pair_guest_drop(g, NULL);
    pair_crowd_done(&c, r < 0 ? e->text : "another machine has been paired");
    return r;
}
