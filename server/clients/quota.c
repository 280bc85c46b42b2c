// Reads the values of --quota, USER:KEY=N[,KEY=N]..., and of --limit, which has no user.
#include "server/clients/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/options/number.h"

static int unknown_key(const char *key, bool with_share, struct error *e)
{
    char keys[256] = "";
    size_t n = 0;
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        n += (size_t)snprintf(keys + n, sizeof keys - n, "%s%s", i ? ", " : "",
                              account_key((enum account_resource)i));
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is none of %s%s", key, keys,
                     with_share ? ", share" : "");
}

// 0 is not accepted, because it means "no limit", and that nothing is given. Only bytes may have a
// suffix.
static int quota_set(struct account_amounts *limits, struct account_amounts *programs,
                     uint32_t *share, const char *key, const char *value, struct error *e)
{
    uint64_t n;
    bool program = strncmp(key, QUOTA_OF_PROGRAM, strlen(QUOTA_OF_PROGRAM)) == 0;
    enum account_resource what = account_find(program ? key + strlen(QUOTA_OF_PROGRAM) : key);
    if (program && what != ACCOUNT_RESOURCES && !account_is_of_programs(what))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s: what programs of a user share is counted for the user alone", key);
    bool is_share = share && strcmp(key, "share") == 0;
    if (what == ACCOUNT_RESOURCES && !is_share)
        return unknown_key(key, share, e);
    bool bytes = !is_share && account_is_bytes(what);
    uint64_t max = is_share ? QUOTA_MAX_SHARE : bytes ? UINT64_MAX : UINT32_MAX;
    int r = !value  ? STATUS_PARAM_INVALID
            : bytes ? number_parse_bytes(value, 1, max, &n, NULL)
                    : number_parse(value, 1, max, &n, NULL);
    if (r < 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s wants a number from 1 to %llu", key,
                         (unsigned long long)max);
    uint64_t share_before = is_share ? *share : 0;
    uint64_t *limit = is_share ? &share_before : &(program ? programs : limits)->of[what];
    if (*limit != 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s is given already", key);
    if (is_share)
        *share = (uint32_t)n;
    else
        *limit = n;
    return 0;
}

// strsep() cuts the text in place; keys may come in any order.
static int quota_set_all(struct account_amounts *limits, struct account_amounts *programs,
                         uint32_t *share, char *rest, struct error *e)
{
    int r = 0;
    while (rest && r == 0) {
        char *value = strsep(&rest, ","), *key = strsep(&value, "=");
        r = quota_set(limits, programs, share, key, value, e);
    }
    return r;
}

int quota_parse(const char *text, struct quota *ret, struct error *e)
{
    cleanup(free_p) char *copy = strdup(text);
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    char *rest = copy, *user = strsep(&rest, ":");
    *ret = (struct quota){.share = 0};
    if (!*user || strlen(user) >= sizeof ret->user || !rest)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "\"%s\" is not USER:KEY=N[,KEY=N]…, like alice:contexts=4,bytes=1G,share=2", text);
    strcpy(ret->user, user);
    int r = quota_set_all(&ret->limits, &ret->programs, &ret->share, rest, e);
    ret->share += ret->share == 0;
    return r;
}

int quota_parse_limits(const char *text, struct account_amounts *limits,
                       struct account_amounts *programs, struct error *e)
{
    cleanup(free_p) char *copy = strdup(text);
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    return quota_set_all(limits, programs, NULL, copy, e);
}
