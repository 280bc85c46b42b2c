// magic[8] type[2] port[2] bytes[32] text[160]; numbers are little-endian.
#include "tools/pair/pair_message.h"

#include <string.h>

#include "base/bytes.h"
#include "base/text/text.h"
#include "base/tls/tls_keys.h"

#define MAGIC "rknnpr01"

// What each type uses.
static const struct {
    const char *name;
    bool port, bytes, text;
} types[] = {
    [PAIR_HELLO] = {.name = "HELLO", .bytes = true, .text = true},
    [PAIR_NONCE] = {.name = "NONCE", .bytes = true, .text = true},
    [PAIR_REVEAL] = {.name = "REVEAL", .bytes = true},
    [PAIR_AGREED] = {.name = "AGREED"},
    [PAIR_KEY] = {.name = "KEY", .port = true, .bytes = true},
    [PAIR_STORED] = {.name = "STORED"},
    [PAIR_ABORT] = {.name = "ABORT", .text = true},
};

const char *pair_type_name(enum pair_type type)
{
    return types[type].name;
}

void pair_message_write(const struct pair_message *m, uint8_t ret[PAIR_MESSAGE_SIZE])
{
    memcpy(ret, MAGIC, 8);
    ret[8] = (uint8_t)m->type;
    ret[9] = 0;
    ret[10] = (uint8_t)(m->port & 0xff);
    ret[11] = (uint8_t)(m->port >> 8);
    memcpy(ret + 12, m->bytes, PAIR_BYTES);
    memset(ret + 12 + PAIR_BYTES, 0, PAIR_TEXT);
    memcpy(ret + 12 + PAIR_BYTES, m->text, strnlen(m->text, PAIR_TEXT - 1));
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

static int check_unused(const struct pair_message *m, struct error *e)
{
    size_t length = strlen(m->text);
    bool rest = all_zero((const uint8_t *)m->text + length, PAIR_TEXT - length);
    if (!rest || (!types[m->type].text && length > 0) || (!types[m->type].port && m->port) ||
        (!types[m->type].bytes && !all_zero(m->bytes, PAIR_BYTES)))
        return error_set(e, STATUS_FAIL, "%s says more than it may", types[m->type].name);
    if (types[m->type].port && m->port == 0)
        return error_set(e, STATUS_FAIL, "%s lacks a port", types[m->type].name);
    return 0;
}

int pair_message_read(const uint8_t bytes[PAIR_MESSAGE_SIZE], struct pair_message *ret,
                      struct error *e)
{
    struct pair_message m = {.port = (uint16_t)(bytes[10] | bytes[11] << 8)};
    unsigned type = (unsigned)(bytes[8] | bytes[9] << 8);
    if (memcmp(bytes, MAGIC, 8) != 0)
        return error_set(e, STATUS_FAIL, "the other end is no rknnctl pair, or of another version");
    if (type < PAIR_HELLO || type > PAIR_ABORT)
        return error_set(e, STATUS_FAIL, "message %u is not known", type);
    m.type = (enum pair_type)type;
    memcpy(m.bytes, bytes + 12, PAIR_BYTES);
    memcpy(m.text, bytes + 12 + PAIR_BYTES, PAIR_TEXT);
    if (m.text[PAIR_TEXT - 1])
        return error_set(e, STATUS_FAIL, "the text of %s has no end", types[type].name);
    int r = check_unused(&m, e);
    if (r < 0)
        return r;
    if (type == PAIR_HELLO && !tls_identity_is_valid(m.text, strlen(m.text)))
        return error_set(e, STATUS_FAIL, "what HELLO says is no identity");
    text_make_printable(m.text);
    *ret = m;
    return 0;
}
