// A lookup is for one name of the database: that of a user, or that of somebody to whom others
// belong. However many connections need it, and however often they come, it has one thread at most:
// so a name that hangs takes one of the threads, and who has no name of his own, as subordinate
// users have none, takes none. A lookup that is late stays until it ends, and whoever comes
// meanwhile waits no more.
#include "server/clients/identities.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "server/threads.h"
#include "server/turns.h"

#define IDENTITY_THREADS 8
#define NAME_MS          250  // after which a user is called by his number
#define OWNER_MS         2000 // after which who belongs to somebody unknown is refused
#define LOOK_MS          50

struct lookup {
    struct list link;
    struct identities *all;
    struct task task;
    char owner[SUBIDS_OWNER_SIZE]; // a name or number; "": the name of `uid` is wanted
    uid_t uid;
    uint64_t until_ms; // uv_now()
    bool late;
    struct list waiting; // struct identity_asker
    char title[SUBIDS_OWNER_SIZE + 8];
    struct account account; // of who waits
    // The thread's until the task is done:
    int failed; // of an owner: an errno; ENOENT: there is none
    uid_t found_uid;
    char found[WHO_SIZE];
};

// ---- on a thread --------------------------------------------------------------------------------

static void lookup_work(struct task *t)
{
    struct lookup *l = container_of(t, struct lookup, task);
    if (!*l->owner) {
        who_user(l->uid, l->found);
    } else if (who_is_number(l->owner, &l->found_uid)) {
        who_user(l->found_uid, l->found);
    } else {
        l->failed = who_find(l->owner, &l->found_uid);
        snprintf(l->found, sizeof l->found, "%s", l->owner);
    }
    threads_post(t->threads, t);
}

// ---- telling ------------------------------------------------------------------------------------

static void name_by_number(char ret[WHO_SIZE], uid_t uid)
{
    snprintf(ret, WHO_SIZE, "%u", (unsigned)uid);
}

// What is known of one who waits, when the lookup has ended or is late: then what it finds is still
// the thread's.
static int lookup_result(const struct lookup *l, uid_t uid, struct identity *ret, struct error *e)
{
    *ret = (struct identity){.owned = *l->owner != 0};
    name_by_number(ret->name, uid);
    if (!ret->owned) {
        if (!l->late)
            memcpy(ret->name, l->found, sizeof ret->name);
        return 0;
    }
    if (l->late && who_is_number(l->owner, &ret->owner)) {
        name_by_number(ret->owner_name, ret->owner);
        return 0;
    }
    if (l->late)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "user %u is %s's (subuid), and the system does not say in time who that "
                         "is: try again",
                         (unsigned)uid, l->owner);
    if (l->failed == ENOENT)
        ret->owned = false;
    else if (l->failed)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, l->failed,
                               "user %u is %s's (subuid), and the system cannot say who that is",
                               (unsigned)uid, l->owner);
    ret->owner = l->found_uid;
    memcpy(ret->owner_name, l->found, sizeof ret->owner_name);
    return 0;
}

static void lookup_tell(const struct lookup *l, struct identity_asker *a)
{
    struct identity who;
    struct error e;
    int r = lookup_result(l, a->uid, &who, &e);
    a->told(a, r < 0 ? NULL : &who, r < 0 ? &e : NULL);
}

void identities_forget(struct identity_asker *a)
{
    account_refund(&a->lookup->account, ACCOUNT_CONNECTIONS, 1);
    list_remove(&a->link);
    a->lookup = NULL;
}

static void lookup_tell_all(const struct lookup *l)
{
    struct identity_asker *a;
    while ((a = list_first(&l->waiting, struct identity_asker, link))) {
        identities_forget(a);
        lookup_tell(l, a);
    }
}

// ---- lookups ------------------------------------------------------------------------------------

static void lookup_free(struct lookup *l)
{
    list_remove(&l->link);
    l->all->n--;
    free(l);
}

static void lookup_done(struct task *t)
{
    struct lookup *l = container_of(t, struct lookup, task);
    if (!l->late)
        lookup_tell_all(l);
    else if (!*l->owner)
        l->all->late(l->all, l->uid, l->found);
    lookup_free(l);
}

// One that no thread has begun, as all of them hang, is not begun any more.
static void lookup_give_up(struct lookup *l)
{
    l->late = true;
    log_warn("the system's user database has not said in time who %s is", l->title);
    lookup_tell_all(l);
    if (threads_take_back(l->all->threads, &l->task))
        lookup_free(l);
}

static void look_for_late(uv_timer_t *timer)
{
    struct identities *all = container_of(timer, struct identities, timer);
    struct lookup *l, *after;
    bool waits = false;
    turns_mark(timer->loop, "names of users");
    list_for_each_safe (l, after, &all->all, link) {
        bool late = !l->late && uv_now(timer->loop) >= l->until_ms;
        waits |= !l->late && !late;
        if (late)
            lookup_give_up(l);
    }
    if (!waits)
        uv_timer_stop(timer);
}

static struct lookup *lookup_find(const struct identities *all, uid_t uid, const char *owner)
{
    struct lookup *l;
    list_for_each (l, &all->all, link)
        if (strcmp(l->owner, owner) == 0 && (*owner || l->uid == uid))
            return l;
    return NULL;
}

// Too few threads do as well, only later.
static struct lookup *lookup_new(struct identities *all, uid_t uid, const char *owner,
                                 struct error *e)
{
    struct lookup *l = calloc(1, sizeof *l);
    struct error no_matter;
    if (!l) {
        error_no_memory(e, "a user", sizeof *l);
        return NULL;
    }
    *l = (struct lookup){.all = all,
                         .task = {.work = lookup_work, .finish = lookup_done},
                         .uid = uid,
                         .until_ms = uv_now(all->timer.loop) + (*owner ? OWNER_MS : NAME_MS)};
    snprintf(l->owner, sizeof l->owner, "%s", owner);
    if (*owner)
        memcpy(l->title, l->owner, sizeof l->owner);
    else
        snprintf(l->title, sizeof l->title, "%u", (unsigned)uid);
    list_init(&l->waiting);
    account_init(&l->account, &all->accounts->all, l->title);
    list_append(&all->all, &l->link);
    all->n++;
    threads_grow(all->threads, all->n < IDENTITY_THREADS ? all->n : IDENTITY_THREADS, &no_matter);
    threads_do(all->threads, &l->task);
    return l;
}

int identities_ask(struct identities *all, struct identity_asker *a, struct error *e)
{
    const char *owner = subids_find(&all->subids, a->uid);
    struct lookup *l = lookup_find(all, a->uid, owner ? owner : "");
    if (l && l->late) {
        lookup_tell(l, a);
        return 0;
    }
    if (!l)
        l = lookup_new(all, a->uid, owner ? owner : "", e);
    int r = l ? account_charge(&l->account, ACCOUNT_CONNECTIONS, 1, e) : STATUS_MALLOC_FAIL;
    if (r < 0)
        return r;
    a->lookup = l;
    list_append(&l->waiting, &a->link);
    if (!uv_is_active((uv_handle_t *)&all->timer))
        uv_timer_start(&all->timer, look_for_late, LOOK_MS, LOOK_MS);
    return 0;
}

// ---- life ---------------------------------------------------------------------------------------

const char *identities_operator(const struct identities *all, uid_t uid)
{
    return uid == 0 ? all->root : all->own;
}

void identities_init(struct identities *all, uv_loop_t *loop, struct accounts *accounts,
                     const char *subuid)
{
    *all = (struct identities){.accounts = accounts, .subids = {.path = subuid}};
    list_init(&all->all);
    uv_timer_init(loop, &all->timer);
    who_user(0, all->root);
    who_user(geteuid(), all->own);
}

int identities_start(struct identities *all, uv_loop_t *loop, struct error *e)
{
    return threads_new(loop, &all->threads, e);
}

// Those that a thread has begun are the thread's from then on.
void identities_stop(struct identities *all)
{
    struct threads *threads = all->threads;
    struct lookup *l, *after;
    uv_close((uv_handle_t *)&all->timer, NULL);
    all->threads = NULL;
    list_for_each_safe (l, after, &all->all, link)
        if (threads_take_back(threads, &l->task))
            lookup_free(l);
    if (threads && all->n > 0)
        threads_abandon(threads, NULL, NULL);
    else if (threads)
        threads_free(threads, NULL, NULL);
}

void identities_done(struct identities *all)
{
    subids_done(&all->subids);
}
