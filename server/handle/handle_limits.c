// LIMITS: who has how much of what clients may hold, and the numbers of the configuration.
#include <stdlib.h>

#include "server/clients/rights.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"
#include "server/options.h"

// Some 50 bytes each: what encoding them takes is less than a millisecond.
#define LIMITS_MAX 4096

struct limits {
    struct delimited lines;
    rknnd_LimitsReply m;
    struct error *e;
    int status;
};

// `client`: a program of the user's; 0: he himself. Programs come last.
static void put_limit(struct limits *all, const char *user, uint64_t client,
                      enum account_resource what, uint64_t used, uint64_t limit, bool quota)
{
    rknnd_Limit m = {.bytes = account_is_bytes(what),
                     .quota = quota,
                     .used = used,
                     .limit = limit,
                     .client = client};
    if (all->status < 0 || all->m.n_limits + all->m.n_programs == LIMITS_MAX)
        return;
    message_set_text(m.user, user);
    message_set_text(m.key, account_key(what));
    all->status = delimited_put(&all->lines, rknnd_Limit_fields, &m, all->e);
    if (client)
        all->m.n_programs++;
    else
        all->m.n_limits++;
}

// What a user has nothing of says nothing, but for a quota.
static void put_user(struct limits *all, const struct user *u, bool everything)
{
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        if (everything || u->account.used.of[i] || u->quota.limits.of[i])
            put_limit(all, u->title, 0, (enum account_resource)i, u->account.used.of[i],
                      account_limit(&u->account, (enum account_resource)i),
                      u->quota.limits.of[i] > 0);
}

// Whoever may not see others sees himself, and the sums.
static void put_users(struct limits *all, const struct connection *c)
{
    const struct user *u;
    put_user(all, c->user, true);
    if (!(c->rights & RIGHT_SEE_ALL))
        return;
    list_for_each (u, &c->services->users->all, link)
        if (u != c->user)
            put_user(all, u, false);
}

// Those that one may see.
static void put_programs(struct limits *all, const struct connection *c)
{
    const struct session *s;
    list_for_each (s, &c->services->sessions->all, link) {
        if (!(c->rights & RIGHT_SEE_ALL) && !session_is_visible(s, c->session, &c->origin))
            continue;
        if (all->m.n_limits + all->m.n_programs == LIMITS_MAX)
            return;
        for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
            if (s->account.used.of[i] && account_is_of_programs((enum account_resource)i))
                put_limit(all, s->user->title, s->id, (enum account_resource)i,
                          s->account.used.of[i],
                          account_limit(&s->account, (enum account_resource)i),
                          s->account.quota->of[i] > 0);
    }
}

// What counts for each connection, session, model or run, and so is no sum of anybody's.
static void put_settings(struct limits *all, const struct options *o)
{
    struct options_number numbers[OPTIONS_MAX_NUMBERS];
    size_t n = options_list_numbers(o, numbers);
    for (size_t i = 0; i < n && all->status == 0; i++) {
        rknnd_Setting m = {
            .bytes = numbers[i].bytes, .value = numbers[i].value, .usual = numbers[i].usual};
        message_set_text(m.name, numbers[i].name);
        all->status = delimited_put(&all->lines, rknnd_Setting_fields, &m, all->e);
        all->m.n_settings++;
    }
}

static void answer_limits(struct request *r)
{
    const struct connection *c = r->connection;
    const struct accounts *a = c->services->accounts;
    struct error e;
    struct limits all = {.e = &e};
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        put_limit(&all, "", 0, (enum account_resource)i, a->all.used.of[i], a->total.of[i], false);
    put_users(&all, c);
    put_programs(&all, c);
    put_settings(&all, c->services->options);
    if (all.status < 0) {
        free(all.lines.data);
        request_fail(r, &e);
    } else {
        struct iovec payload = {all.lines.data, all.lines.size};
        request_answer(r, rknnd_LimitsReply_fields, &all.m, &payload, 1, free, all.lines.data);
    }
    free(r);
}

int handle_limits(struct connection *c, const struct frame_header *h, const union message_any *any,
                  struct error *e)
{
    struct request *r = request_new(&c->requests, h, sizeof *r, e);
    (void)any;
    if (!r)
        return e->code;
    request_when_room(r, answer_limits);
    return 0;
}
