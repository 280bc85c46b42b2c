// Rules of rights are looked up once, when a connection comes: the kernel says who is at the other
// end, by number. What users and groups rules mean is looked up when they are read, which may wait.
#include "server/clients/rights.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/who.h"

static const struct {
    const char *name;
    unsigned bit;
} rows[] = {
#define X(NAME, name, bit) {name, bit},
    RIGHTS_LIST(X)
#undef X
};

#define N_ROWS (sizeof rows / sizeof *rows)

// ---- reading
// -------------------------------------------------------------------------------------

static int add_right(unsigned *rights, const char *name, struct error *e)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *rights |= rows[i].bit;
            return 0;
        }
    if (strcmp(name, "none") == 0)
        return 0;
    return error_set(
        e, STATUS_PARAM_INVALID,
        "\"%s\" is no right; there are run, see-own, see-all, kill, debug, push, and none", name);
}

// A rule for somebody who does not exist is most likely a mistake.
static int find_who(const char *who, gid_t *ret_group, uid_t *ret_user, struct error *e)
{
    *ret_group = (gid_t)-1;
    *ret_user = (uid_t)-1;
    if (*who == '@') {
        const struct group *g = getgrnam(who + 1);
        if (g)
            *ret_group = g->gr_gid;
        else if (!who_is_number(who + 1, ret_group))
            return error_set(e, STATUS_PARAM_INVALID, "there is no group \"%s\"", who + 1);
        return 0;
    }
    if (strcmp(who, "*") == 0 || origin_is_kind(who) || who_find(who, ret_user) == 0)
        return 0;
    return error_set(
        e, STATUS_PARAM_INVALID,
        "there is no user \"%s\" (a name or number of this system, @ and a group, tls/ and an "
        "identity, tls, tcp, usb, or * for everyone)",
        who);
}

// NULL: there is none.
static const struct rights_rule *find_rule(const struct rights *all, const char *who)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (strcmp(all->rules[i].who, who) == 0)
            return &all->rules[i];
    return NULL;
}

int rights_add(struct rights *all, const char *text, struct error *e)
{
    cleanup(free_p) char *copy = strdup(text);
    struct rights_rule *rule = &all->rules[all->n];
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    if (all->n == RIGHTS_MAX_RULES)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d rules", RIGHTS_MAX_RULES);
    char *rest = copy, *who = strsep(&rest, ":");
    *rule = (struct rights_rule){0};
    if (!*who || strlen(who) >= sizeof rule->who || !rest)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not WHO:RIGHT[,RIGHT]…, like @video:run,see-own", text);
    if (find_rule(all, who))
        return error_set(e, STATUS_PARAM_INVALID, "%s has rights already: give all of them in one",
                         who);
    strcpy(rule->who, who);
    int r = find_who(who, &all->groups[all->n], &all->users[all->n], e);
    while (rest && r == 0)
        r = add_right(&rule->rights, strsep(&rest, ","), e);
    all->n += r == 0;
    return r;
}

void rights_remove(struct rights *all, const char *who)
{
    const struct rights_rule *rule = find_rule(all, who);
    if (!rule)
        return;
    uint32_t i = (uint32_t)(rule - all->rules), last = --all->n;
    all->rules[i] = all->rules[last];
    all->groups[i] = all->groups[last];
    all->users[i] = all->users[last];
}

// ---- asking -------------------------------------------------------------------------------------

static bool is_for(const struct rights *all, uint32_t rule, const struct origin *o)
{
    if (!o->local || o->uid == (uid_t)-1)
        return false;
    return *all->rules[rule].who == '@' ? o->groups >> rule & 1 : all->users[rule] == o->uid;
}

unsigned rights_of(const struct rights *all, const struct origin *o, const char *name)
{
    unsigned rights = 0;
    bool found = false;
    if (origin_is_operator(o))
        return RIGHTS_ALL;
    for (uint32_t i = 0; i < all->n; i++)
        if (is_for(all, i, o)) {
            found = true;
            rights |= all->rules[i].rights;
        }
    const struct rights_rule *rule = o->local ? NULL : find_rule(all, name);
    if (!rule && *o->identity)
        rule = find_rule(all, "tls");
    if (!rule)
        rule = find_rule(all, "*");
    if (found)
        return rights;
    if (rule)
        return rule->rights;
    return RIGHT_RUN | RIGHT_SEE_OWN | (o->local ? RIGHT_SEE_ALL : 0);
}

int rights_check(unsigned rights, unsigned needed, struct error *e)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (needed & ~rights & rows[i].bit)
            return error_set(e, STATUS_FAIL,
                             "this client lacks the right \"%s\"; root and the service's own user "
                             "have it by a Unix socket, others by the option rights",
                             rows[i].name);
    return 0;
}
