// Accounts of what is held: a tree, whose root is the whole server.
//
//     all --+-- operators ---- root, the service's user
//           +-- network ------ a source address each: peers have no other identity there
//           +-- a local user each, and the USB cable
//                    +-- his programs
//
// A charge has to fit each account from the program's or user's up to the root. What a user may
// have is half of what others leave of all, rounded up: so he leaves as much as he has. A program
// leaves less to others of the same user, where that is one person; of a user's quota it may have
// all. That needs no list of who else there is, and no memory of what they wanted. (dbus-broker's
// quotas are of this kind.)
#include "server/clients/account.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"

#define KEPT           8 // 1/8 of everything is kept
#define PROGRAM_LEAVES 8

static const struct {
    const char *key, *words;
    bool bytes;
    uint8_t descriptors, workers; // that each takes along
    int status;
} rows[] = {
#define X(NAME, key, words, bytes, descriptors, workers, status)                                   \
    {key, words, bytes, descriptors, workers, STATUS_##status},
    ACCOUNT_LIST(X)
#undef X
};

static struct accounts *accounts_of(const struct account *a)
{
    while (a->parent)
        a = a->parent;
    return container_of((struct account *)a, struct accounts, all);
}

void account_init(struct account *a, struct account *parent, const char *name)
{
    *a = (struct account){.parent = parent, .name = name, .leaves = 2};
}

void account_init_program(struct account *a, struct account *user, bool several, const char *name)
{
    *a = (struct account){
        .parent = user, .name = name, .program = true, .leaves = several ? 2 : PROGRAM_LEAVES};
}

void accounts_init(struct accounts *all)
{
    *all = (struct accounts){.worker_threads = 1};
    account_init(&all->all, NULL, "server");
    account_init(&all->operators, &all->all, "operators");
    account_init(&all->network, &all->all, "network");
    all->operators.tier = ACCOUNT_OPERATOR;
}

// ---- limits
// --------------------------------------------------------------------------------------

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

// What all together may have, as far as one of this tier is concerned. What operators hold comes
// out of the part that is kept for them, first.
static uint64_t total_for(const struct account *root, enum account_resource what,
                          enum account_tier tier)
{
    const struct accounts *all = accounts_of(root);
    uint64_t total = all->total.of[what];
    uint64_t kept = tier == ACCOUNT_OPERATOR ? 0
                    : tier == ACCOUNT_MEMBER ? total / KEPT / 2
                                             : total / KEPT;
    return less(total, less(kept, all->operators.used.of[what]));
}

static bool has_quota(const struct account *a, enum account_resource what)
{
    return a->quota && a->quota->of[what];
}

// Whether it may have all that its parent may have: then that one's limit is the one that counts.
static bool takes_all(const struct account *a, enum account_resource what, enum account_tier tier)
{
    return tier == ACCOUNT_OPERATOR || (a->program && has_quota(a->parent, what));
}

// What the account may have, if its parent may have `part`.
static uint64_t limit_of(const struct account *a, enum account_resource what,
                         enum account_tier tier, uint64_t part)
{
    if (has_quota(a, what))
        return a->quota->of[what];
    uint64_t left = less(part, a->parent->used.of[what] - a->used.of[what]);
    return takes_all(a, what, tier) ? left : left - left / a->leaves;
}

// What a charge of n more has to fit in.
struct charge {
    enum account_resource what;
    enum account_tier tier;
    uint64_t n;
    const struct account *full; // the lowest account that it does not fit in; NULL: none
};

// Returns what the account may have. A quota is what the administrator has said, so above it only
// the total counts.
static uint64_t check_charge(const struct account *a, struct charge *c, bool below_quota)
{
    uint64_t limit;
    if (a->parent) {
        uint64_t part = check_charge(a->parent, c, below_quota || has_quota(a, c->what));
        limit = limit_of(a, c->what, c->tier, part);
    } else {
        limit = total_for(a, c->what, c->tier);
    }
    bool counts = !below_quota || !a->parent;
    if (a->program && !has_quota(a, c->what) && takes_all(a, c->what, c->tier))
        counts = false;
    if (counts && (c->n > limit || a->used.of[c->what] > limit - c->n))
        c->full = a;
    return limit;
}

static uint64_t limit_for(const struct account *a, enum account_resource what,
                          enum account_tier tier)
{
    return check_charge(a, &(struct charge){.what = what, .tier = tier}, false);
}

// A program's is its user's.
static enum account_tier tier_of(const struct account *a)
{
    return a->program ? a->parent->tier : a->tier;
}

uint64_t account_limit(const struct account *a, enum account_resource what)
{
    return limit_for(a, what, tier_of(a));
}

// The account in whose limit n more do not fit; NULL: they fit.
static const struct account *find_full(const struct account *a, enum account_resource what,
                                       uint64_t n)
{
    struct charge c = {.what = what, .tier = tier_of(a), .n = n};
    check_charge(a, &c, false);
    return c.full;
}

bool account_has_room(const struct account *a, enum account_resource what)
{
    return !find_full(a, what, 1);
}

// The option that sets a total.
static const char *limit_option(enum account_resource what)
{
    return what == ACCOUNT_CONNECTIONS ? "max-connections"
           : what == ACCOUNT_STORAGE   ? "max-models-size"
                                       : "limit";
}

static int account_refuse(const struct account *a, const struct account *full,
                          enum account_resource what, uint64_t n, struct error *e)
{
    unsigned long long more = n, used = full->used.of[what],
                       limit = limit_for(full, what, tier_of(a));
    unsigned long long total = accounts_of(a)->total.of[what];
    const char *words = rows[what].words;
    const char *kind = full->program ? "program" : "user";
    if (has_quota(full, what))
        return error_set(e, rows[what].status,
                         "%s %s has as many %s as the quota allows: %llu (quota %s, %s%s)", kind,
                         full->name, words, limit, full->quota_name,
                         full->program ? QUOTA_OF_PROGRAM : "", rows[what].key);
    if (full->parent)
        return error_set(e, rows[what].status,
                         "%s %s has %llu %s, and %llu more would leave too little for others%s: at "
                         "present %llu of %llu %s (%s)",
                         kind, full->name, used, words, more,
                         full->program ? " of the same user" : "", limit, total, rows[what].key,
                         limit_option(what));
    return error_set(
        e, rows[what].status,
        "the server has %llu of %llu %s, and %llu more would be of those that are kept "
        "for its operators (%s)",
        used, total, words, more, limit_option(what));
}

// ---- changes
// -------------------------------------------------------------------------------------

// What n of something are in all: itself, descriptors, threads.
static int account_parts(const struct account *a, enum account_resource what, uint64_t n,
                         enum account_resource ret_what[3], uint64_t ret_n[3])
{
    int parts = 0;
    ret_what[parts] = what;
    ret_n[parts++] = n;
    if (rows[what].descriptors) {
        ret_what[parts] = ACCOUNT_DESCRIPTORS;
        ret_n[parts++] = n * rows[what].descriptors;
    }
    if (rows[what].workers) {
        ret_what[parts] = ACCOUNT_THREADS;
        ret_n[parts++] = n * rows[what].workers * accounts_of(a)->worker_threads;
    }
    return parts;
}

static void account_add(struct account *a, enum account_resource what, uint64_t n)
{
    enum account_resource kinds[3];
    uint64_t amounts[3];
    int parts = account_parts(a, what, n, kinds, amounts);
    for (; a; a = a->parent)
        for (int i = 0; i < parts; i++)
            a->used.of[kinds[i]] += amounts[i];
}

int account_charge(struct account *a, enum account_resource what, uint64_t n, struct error *e)
{
    enum account_resource kinds[3];
    uint64_t amounts[3];
    int parts = account_parts(a, what, n, kinds, amounts);
    for (int i = 0; i < parts; i++) {
        const struct account *full = find_full(a, kinds[i], amounts[i]);
        if (full)
            return account_refuse(a, full, kinds[i], amounts[i], e);
    }
    account_add(a, what, n);
    return 0;
}

void account_refund(struct account *a, enum account_resource what, uint64_t n)
{
    enum account_resource kinds[3];
    uint64_t amounts[3];
    int parts = account_parts(a, what, n, kinds, amounts);
    for (; a; a = a->parent)
        for (int i = 0; i < parts; i++) {
            assert(a->used.of[kinds[i]] >= amounts[i]);
            a->used.of[kinds[i]] -= amounts[i];
        }
}

int account_charge_sized(struct account *a, enum account_resource what, enum account_resource sized,
                         uint64_t bytes, struct error *e)
{
    int r = account_charge(a, what, 1, e);
    if (r < 0)
        return r;
    r = account_charge(a, sized, bytes, e);
    if (r < 0)
        account_refund(a, what, 1);
    return r;
}

void account_refund_sized(struct account *a, enum account_resource what,
                          enum account_resource sized, uint64_t bytes)
{
    account_refund(a, sized, bytes);
    account_refund(a, what, 1);
}

void account_move(struct account *from, struct account *to, enum account_resource what, uint64_t n)
{
    account_add(to, what, n);
    account_refund(from, what, n);
}

void account_count(struct account *a, enum account_resource what, uint64_t *counted, uint64_t now)
{
    if (now > *counted)
        account_add(a, what, now - *counted);
    else if (now < *counted)
        account_refund(a, what, *counted - now);
    *counted = now;
}

// ---- names
// ---------------------------------------------------------------------------------------

const char *account_key(enum account_resource what)
{
    return rows[what].key;
}

bool account_is_bytes(enum account_resource what)
{
    return rows[what].bytes;
}

bool account_is_of_programs(enum account_resource what)
{
    switch (what) {
    case ACCOUNT_SESSIONS:
    case ACCOUNT_UPLOADS:
    case ACCOUNT_MODELS:
    case ACCOUNT_STORAGE:
    case ACCOUNT_STORED:
    case ACCOUNT_WORKERS:
    case ACCOUNT_THREADS:
        return false;
    default:
        return true;
    }
}

enum account_resource account_find(const char *key)
{
    unsigned i = 0;
    while (i < ACCOUNT_RESOURCES && strcmp(rows[i].key, key) != 0)
        i++;
    return (enum account_resource)i;
}
