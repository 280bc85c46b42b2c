// Reads the values of --quota: USER:KEY=N[,KEY=N]...
#include "server/clients/quota.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/options/number.h"

// 0 is not accepted, because in struct quota it means "no limit". Only bytes may have a suffix.
static int quota_set(struct quota *q, const char *key, const char *value, struct error *e)
{
    uint64_t n;
    bool bytes = strcmp(key, "bytes") == 0;
    int r = !value  ? STATUS_PARAM_INVALID
            : bytes ? number_parse_bytes(value, 1, UINT64_MAX, &n, NULL)
                    : number_parse(value, 1, UINT32_MAX, &n, NULL);
    if (r < 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s wants a number above 0", key);
    if (bytes)
        q->bytes = n;
    else if (strcmp(key, "contexts") == 0)
        q->contexts = (uint32_t)n;
    else if (strcmp(key, "in-flight") == 0)
        q->in_flight = (uint32_t)n;
    else if (strcmp(key, "share") == 0 && n <= QUOTA_MAX_SHARE)
        q->share = (uint32_t)n;
    else
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s=%s\" is none of contexts=N, in-flight=N, bytes=N, share=1..%d", key,
                         value, QUOTA_MAX_SHARE);
    return 0;
}

// strsep() cuts the copy in place; keys may come in any order, and the last one of a kind counts.
int quota_parse(const char *text, struct quota *ret, struct error *e)
{
    cleanup(free_p) char *copy = strdup(text);
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    char *rest = copy, *user = strsep(&rest, ":");
    *ret = (struct quota){.share = 1};
    if (!*user || strlen(user) >= sizeof ret->user || !rest)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not USER:KEY=N[,KEY=N]… with the keys contexts, in-flight, "
                         "bytes, share",
                         text);
    strcpy(ret->user, user);
    while (rest) {
        char *value = strsep(&rest, ","), *key = strsep(&value, "=");
        int r = quota_set(ret, key, value, e);
        if (r < 0)
            return r;
    }
    return 0;
}
