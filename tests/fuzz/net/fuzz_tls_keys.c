// Fuzzes the parser of files of pre-shared keys.
#include <stdlib.h>
#include <string.h>

#include "base/tls/tls_keys_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

// A key that is put into a good file is its first one, once, and no other one is lost.
static void insert(const char *text, size_t size, const struct tls_keys *before)
{
    struct tls_key more = {.identity = "alice", .size = TLS_KEY_MIN};
    struct tls_keys after;
    char *with;
    size_t n, same = 0;
    if (before->n == TLS_KEYS_MAX)
        return;
    must(tls_keys_insert(text, size, &more, &with, &n, NULL) == 0);
    must(tls_keys_parse(with, n, &after, NULL) == 0);
    free(with);
    for (size_t i = 0; i < before->n; i++)
        same += strcmp(before->all[i].identity, "alice") == 0 && !*before->all[i].server;
    must(after.n == before->n + 1 - same && strcmp(after.all->identity, "alice") == 0);
    tls_keys_done(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_keys k;
    struct error e;
    if (tls_keys_parse((const char *)data, size, &k, &e) < 0)
        return 0;
    for (size_t i = 0; i < k.n; i++) {
        const char *identity = k.all[i].identity;
        must(tls_identity_is_valid(identity, strlen(identity)));
        must(tls_keys_find(&k, identity, strlen(identity)));
        must(k.all[i].size >= TLS_KEY_MIN && k.all[i].size <= TLS_KEY_MAX);
    }
    insert((const char *)data, size, &k);
    tls_keys_done(&k);
    return 0;
}
