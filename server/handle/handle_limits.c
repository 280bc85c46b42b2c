// LIMITS: who has how much of what clients may hold, and the numbers of the configuration.
// Thousands of lines are made in turns of the connection, each of which is paid for as an answer of
// this message:
//
//   limits_begin() --> users, from `user` on --> programs, from `program` on --> limits_answer()
//
// Between two turns it holds nothing: who does not read its answer keeps nobody's account.
#include <stdlib.h>

#include "server/clients/rights.h"
#include "server/clients/session.h"
#include "server/clients/user.h"
#include "server/config/options.h"
#include "server/config/options_rows.h"
#include "server/handle/handle.h"
#include "server/handle/services.h"
#include "server/net/delimited.h"

// Some 50 bytes each: what encoding them takes is milliseconds.
#define LIMITS_MAX  4096
#define LIMITS_TURN 512 // lines, and users and programs that are looked at, in a turn

struct limits {
    struct request request;
    struct delimited lines;
    rknnd_LimitsReply m;
    uint64_t user, program; // the numbers from which on others come; both lists are in their order
    unsigned n_looked;      // in this turn
    bool begun, has_users;  // all of these that are to be there
    struct error e;
    int status;
};

static bool limits_are_full(const struct limits *all)
{
    return all->m.n_limits + all->m.n_programs == LIMITS_MAX;
}

// `client`: a program of the user's; 0: he himself. Programs come last.
static void put_limit(struct limits *all, const char *user, uint64_t client,
                      enum account_resource what, uint64_t used, uint64_t limit, bool quota)
{
    rknnd_Limit m = {.bytes = account_is_bytes(what),
                     .quota = quota,
                     .used = used,
                     .limit = limit,
                     .client = client};
    if (all->status < 0 || limits_are_full(all))
        return;
    message_set_text(m.user, user);
    message_set_text(m.key, account_key(what));
    all->n_looked++;
    all->status = delimited_put(&all->lines, rknnd_Limit_fields, &m, &all->e);
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

// Who is looked at and has nothing costs, too.
static bool turn_is_over(struct limits *all)
{
    return all->status < 0 || limits_are_full(all) || ++all->n_looked > LIMITS_TURN;
}

// Whoever may not see others sees himself, and the sums. False: others are left.
static bool put_users(struct limits *all, const struct connection *c)
{
    const struct user *u;
    list_for_each (u, &c->services->users->all, link) {
        if (u->number < all->user || u == c->user)
            continue;
        if (turn_is_over(all))
            return false;
        put_user(all, u, false);
        all->user = u->number + 1;
    }
    return true;
}

static void put_program(struct limits *all, const struct session *s)
{
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        if (s->account.used.of[i] && account_is_of_programs((enum account_resource)i))
            put_limit(all, s->user->title, s->id, (enum account_resource)i, s->account.used.of[i],
                      account_limit(&s->account, (enum account_resource)i),
                      s->account.quota->of[i] > 0);
}

// Those that one may see. False: others are left.
static bool put_programs(struct limits *all, const struct connection *c)
{
    const struct session *s;
    list_for_each (s, &c->services->sessions->all, link) {
        if (s->id < all->program ||
            (!(c->rights & RIGHT_SEE_ALL) && !session_is_visible(s, c->session, &c->origin)))
            continue;
        if (turn_is_over(all))
            return false;
        put_program(all, s);
        all->program = s->id + 1;
    }
    return true;
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
        all->status = delimited_put(&all->lines, rknnd_Setting_fields, &m, &all->e);
        all->m.n_settings++;
    }
}

// Sums of all, and all of the user's own, also what he has nothing of.
static void limits_begin(struct limits *all, const struct connection *c)
{
    const struct accounts *a = c->services->accounts;
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        put_limit(all, "", 0, (enum account_resource)i, a->all.used.of[i], a->total.of[i], false);
    put_user(all, c->user, true);
    all->has_users = !(c->rights & RIGHT_SEE_ALL);
    all->begun = true;
}

static void on_abandoned(struct request *r)
{
    struct limits *all = container_of(r, struct limits, request);
    free(all->lines.data);
    free(all);
}

static void limits_answer(struct limits *all)
{
    struct iovec payload = {all->lines.data, all->lines.size};
    if (all->status < 0) {
        free(all->lines.data);
        request_fail(&all->request, &all->e);
    } else {
        request_answer(&all->request, rknnd_LimitsReply_fields, &all->m, &payload, 1, free,
                       all->lines.data);
    }
    free(all);
}

// One turn. What is there already stays as it was counted then.
static void make_limits(struct request *r)
{
    struct limits *all = container_of(r, struct limits, request);
    const struct connection *c = r->connection;
    all->n_looked = 0;
    if (!all->begun)
        limits_begin(all, c);
    all->has_users = all->has_users || put_users(all, c);
    if (!(all->has_users && put_programs(all, c)) && all->status == 0 && !limits_are_full(all)) {
        request_continue(r);
        return;
    }
    put_settings(all, c->services->options);
    limits_answer(all);
}

int handle_limits(struct connection *c, const struct frame_header *h, const union message_any *any,
                  struct error *e)
{
    struct limits *all = calloc(1, sizeof *all);
    (void)any;
    if (!all)
        return error_no_memory(e, "a request", sizeof *all);
    request_begin(&all->request, &c->requests, h, on_abandoned);
    request_when_room(&all->request, make_limits);
    return 0;
}
