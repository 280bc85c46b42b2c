// Fuzzes the messages of rknnctl pair: what is read can be shown, is written as it was, and of each
// type says only what it may.
#include <stdlib.h>
#include <string.h>

#include "base/tls/tls_keys.h"
#include "tools/pair/pair_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[PAIR_MESSAGE_SIZE] = {0}, again[PAIR_MESSAGE_SIZE];
    struct pair_message m;
    struct error e = {0};
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (pair_message_read(bytes, &m, &e) < 0) {
        must(e.code < 0 && *e.text);
        return 0;
    }
    must(*pair_type_name(m.type));
    for (const char *c = m.text; *c; c++)
        must((unsigned char)*c >= ' ' && *c != 0x7f);
    must(m.type != PAIR_HELLO || tls_identity_is_valid(m.text, strlen(m.text)));
    pair_message_write(&m, again);
    must(memcmp(again, bytes, sizeof bytes - PAIR_TEXT) == 0); // its text is made printable
    must(pair_message_read(again, &m, &e) == 0);
    return 0;
}
