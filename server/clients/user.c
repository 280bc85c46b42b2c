// Users and their quotas. A user exists while one of its sessions does; what is taken counts for
// all its programs together, and is given back by whoever took it. All who come over the network
// are one user, "tcp".
#include "server/clients/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options.h"

static void set_name(struct user *u)
{
    if (u->local)
        who_user(u->uid, u->name);
    else
        snprintf(u->name, sizeof u->name, "tcp");
}

// A quota names a user by name or by number.
static bool is_meant(const struct quota *q, const struct user *u)
{
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)u->uid);
    return strcmp(q->user, u->name) == 0 || (u->local && strcmp(q->user, number) == 0);
}

// The user's own quota, else that of "*".
static struct quota find_quota(const struct options *o, const struct user *u)
{
    struct quota ret = {.share = 1};
    for (uint32_t i = 0; i < o->n_quotas; i++) {
        if (is_meant(&o->quotas[i], u))
            return o->quotas[i];
        if (strcmp(o->quotas[i].user, "*") == 0)
            ret = o->quotas[i];
    }
    return ret;
}

// A user is found by uid, or by not being local. The quota is looked up once, when the first
// session comes.
int user_get(struct users *all, const struct origin *p, struct user **ret, struct error *e)
{
    struct user *u;
    list_for_each (u, &all->all, link)
        if (u->local == p->local && (!u->local || u->uid == p->uid)) {
            u->refs++;
            *ret = u;
            return 0;
        }
    u = calloc(1, sizeof *u);
    if (!u)
        return error_no_memory(e, "a user", sizeof *u);
    u->refs = 1;
    u->local = p->local;
    u->uid = p->uid;
    set_name(u);
    u->quota = find_quota(all->options, u);
    scheduler_group_init(all->scheduler, &u->scheduling, u->quota.share);
    list_append(&all->all, &u->link);
    *ret = u;
    return 0;
}

void user_unref(struct user *u)
{
    if (!u || --u->refs > 0)
        return;
    list_remove(&u->link);
    free(u);
}

// Names the limit and the quota it comes from, so that an administrator finds the option.
static int user_refuse(const struct user *u, const char *what, uint64_t limit, int status,
                       struct error *e)
{
    return error_set(e, status, "user %s has as many %s as the quota allows: %llu (quota %s)",
                     u->name, what, (unsigned long long)limit, u->quota.user);
}

int user_take_context(struct user *u, struct error *e)
{
    if (u->quota.contexts && u->n_contexts >= u->quota.contexts)
        return user_refuse(u, "contexts", u->quota.contexts, STATUS_MALLOC_FAIL, e);
    u->n_contexts++;
    return 0;
}

void user_give_context(struct user *u)
{
    u->n_contexts--;
}

// Written so that the sum cannot overflow.
int user_take_bytes(struct user *u, uint64_t bytes, struct error *e)
{
    if (u->quota.bytes && (bytes > u->quota.bytes || u->bytes > u->quota.bytes - bytes))
        return user_refuse(u, "bytes", u->quota.bytes, STATUS_MALLOC_FAIL, e);
    u->bytes += bytes;
    return 0;
}

void user_give_bytes(struct user *u, uint64_t bytes)
{
    u->bytes -= bytes;
}

// Nothing is taken on failure.
int user_take_request(struct user *u, uint64_t bytes, struct error *e)
{
    if (u->quota.in_flight && u->n_in_flight >= u->quota.in_flight)
        return user_refuse(u, "requests in flight", u->quota.in_flight, STATUS_DEVICE_UNAVAILABLE,
                           e);
    int r = user_take_bytes(u, bytes, e);
    if (r == 0)
        u->n_in_flight++;
    return r;
}

void user_give_request(struct user *u, uint64_t bytes)
{
    u->n_in_flight--;
    user_give_bytes(u, bytes);
}
