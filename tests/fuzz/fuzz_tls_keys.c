// Fuzzes the parser of files of pre-shared keys.
#include <stdlib.h>
#include <string.h>

#include "base/tls/tls_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
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
    tls_keys_done(&k);
    return 0;
}
