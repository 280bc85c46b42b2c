// Users, their quotas and accounts. What is charged counts for all of a user's programs together.
// Who comes over the network without TLS has no other identity than the address he comes from. A
// user who is another's (identities.h) has models, rights and a name of his own, but his account is
// below that one's, whose quota is for both, and they take turns as one.
#include "server/clients/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clients/identities.h"
#include "server/config/options.h"

// `name`: of a local one.
static void set_names(struct user *u, const char *name)
{
    bool usb = strcmp(u->source, ORIGIN_USB) == 0;
    if (u->local)
        snprintf(u->name, sizeof u->name, "%s", name);
    else if (*u->identity)
        snprintf(u->name, sizeof u->name, ORIGIN_TLS "%s", u->identity);
    else
        snprintf(u->name, sizeof u->name, usb ? "usb" : "tcp");
    bool address = !u->local && !usb && !*u->identity && u->source[0];
    snprintf(u->title, sizeof u->title, "%s%s%s", u->name, address ? " " : "",
             address ? u->source : "");
}

// A local user is meant by number, whatever he was called when the options were read.
static bool is_meant(const struct quota *q, const struct user *u)
{
    return u->local ? q->is_local && q->uid == u->uid : strcmp(q->user, u->name) == 0;
}

// The user's own quota, else that of "tls" for whoever has an identity, else that of "*".
static struct quota find_users_quota(const struct options *o, const struct user *u)
{
    struct quota ret = {.share = 1};
    bool kind = false;
    for (uint32_t i = 0; i < o->n_quotas; i++) {
        if (is_meant(&o->quotas[i], u))
            return o->quotas[i];
        if (strcmp(o->quotas[i].user, "*") == 0 && !kind)
            ret = o->quotas[i];
        if (strcmp(o->quotas[i].user, "tls") == 0 && *u->identity) {
            ret = o->quotas[i];
            kind = true;
        }
    }
    return ret;
}

// What it does not say of programs is as it is for everyone's.
static struct quota find_quota(const struct options *o, const struct user *u)
{
    struct quota ret = find_users_quota(o, u->owner ? u->owner : u);
    if (u->owner)
        ret.limits = (struct account_amounts){0};
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        if (!ret.programs.of[i])
            ret.programs.of[i] = o->program_limits.of[i];
    return ret;
}

static bool is_same(const struct user *u, const struct origin *p)
{
    if (p->local || u->local)
        return p->local && u->local && u->uid == p->uid;
    if (*p->identity || *u->identity)
        return strcmp(u->identity, p->identity) == 0;
    return strcmp(u->source, p->source) == 0;
}

// A local user is found by uid, another by the identity or the address.
static struct user *user_find(const struct users *all, const struct origin *p)
{
    struct user *u;
    list_for_each (u, &all->all, link)
        if (is_same(u, p))
            return u;
    return NULL;
}

static enum account_tier tier_of(const struct origin *p)
{
    return origin_is_operator(p) ? ACCOUNT_OPERATOR : p->member ? ACCOUNT_MEMBER : ACCOUNT_ORDINARY;
}

static void open_account(struct accounts *all, struct user *u, enum account_tier tier)
{
    struct account *parent = u->owner                   ? &u->owner->account
                             : tier == ACCOUNT_OPERATOR ? &all->operators
                             : u->local                 ? &all->all
                                                        : &all->network;
    account_init(&u->account, parent, u->title);
    u->account.quota = &u->quota.limits;
    u->account.quota_name = u->quota.user;
    u->account.tier = tier;
}

// One that is known. Of his programs, some may be in more groups than others.
static struct user *user_again(const struct users *all, const struct origin *p)
{
    struct user *u = user_find(all, p);
    if (!u)
        return NULL;
    if (u->account.tier < tier_of(p))
        u->account.tier = tier_of(p);
    return user_ref(u);
}

// Takes over a reference to `owner`, unless it fails. The quota is looked up when the user comes,
// and when quotas change.
static int user_new(struct users *all, const struct origin *p, const char *name, struct user *owner,
                    struct user **ret, struct error *e)
{
    struct user *u = calloc(1, sizeof *u);
    if (!u)
        return error_no_memory(e, "a user", sizeof *u);
    u->refs = 1;
    u->owner = owner;
    u->local = p->local;
    u->uid = p->uid;
    snprintf(u->source, sizeof u->source, "%s", *p->identity ? "" : p->source);
    memcpy(u->identity, p->identity, sizeof u->identity);
    set_names(u, name);
    u->quota = find_quota(all->options, u);
    open_account(all->accounts, u, tier_of(p));
    rounds_line_init(&u->line);
    shelf_line_init(&u->shelf);
    scheduler_group_init(all->scheduler, &u->scheduling, u->quota.share);
    u->number = ++all->last_number;
    list_append(&all->all, &u->link);
    *ret = u;
    return 0;
}

// The person whose user this is; NULL: his own. What root's containers do is not root's: they are
// many, and an operator's part is not to be theirs. Owners are not looked up in turn: one is
// nobody's himself, also where a file has two in each other's ranges.
static int find_person(struct users *all, const struct origin *p, const struct identity *who,
                       struct user **ret, struct error *e)
{
    *ret = NULL;
    if (!who || origin_is_operator(p) || !who->owned)
        return 0;
    const struct origin owner = {.local = true, .uid = who->owner};
    if (origin_is_operator(&owner) || owner.uid == p->uid)
        return 0;
    *ret = user_again(all, &owner);
    return *ret ? 0 : user_new(all, &owner, who->owner_name, NULL, ret, e);
}

static const char *given_name(const struct users *all, const struct origin *p,
                              const struct identity *who)
{
    if (!p->local)
        return NULL;
    return origin_is_operator(p) ? identities_operator(all->identities, p->uid) : who->name;
}

int user_get(struct users *all, const struct origin *p, const struct identity *who,
             struct user **ret, struct error *e)
{
    struct user *owner;
    *ret = user_again(all, p);
    if (*ret)
        return 0;
    int r = find_person(all, p, who, &owner, e);
    if (r == 0)
        r = user_new(all, p, given_name(all, p, who), owner, ret, e);
    if (r < 0)
        user_unref(owner);
    return r;
}

bool user_is_there(const struct users *all, const struct origin *p)
{
    return user_find(all, p) != NULL;
}

void users_rename(struct users *all, uid_t uid, const char *name)
{
    struct user *u = user_find(all, &(struct origin){.local = true, .uid = uid});
    if (u)
        set_names(u, name);
}

void users_update(struct users *all)
{
    struct user *u;
    list_for_each (u, &all->all, link) {
        u->quota = find_quota(all->options, u);
        u->scheduling.weight = u->quota.share;
    }
}

struct user *user_person(struct user *u)
{
    return u->owner ? u->owner : u;
}

struct user *user_ref(struct user *u)
{
    u->refs++;
    return u;
}

void user_unref(struct user *u)
{
    if (!u || --u->refs > 0)
        return;
    list_remove(&u->link);
    rounds_line_done(&u->line);
    user_unref(u->owner);
    free(u);
}
