#include "tools/pair/pair.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/tls/pairing.h"
#include "base/tls/tls_keys_store.h"

#define SERVICE_GROUP "rknnd" // may read the board's keys

int pair_differs(struct error *e)
{
    return error_set(e, STATUS_FAIL,
                     "the code that was typed is another one: it was mistyped, or somebody is "
                     "between the two machines; nothing has been stored, begin again at both ends");
}

// Shows what to do, takes what is typed, and compares.
static int ask_code(struct pair_link *l, const char *question, const char *code, struct error *e)
{
    char typed[64];
    int r = pair_link_ask(l, question, typed, sizeof typed, e);
    if (r == 0 && !pairing_code_is(typed, code))
        r = pair_differs(e);
    return r;
}

int pair_store(const struct pair *p, const char *identity, const char *server,
               const uint8_t key[PAIR_BYTES], struct error *e)
{
    struct tls_key k = {.size = PAIR_BYTES};
    snprintf(k.identity, sizeof k.identity, "%s", identity);
    snprintf(k.server, sizeof k.server, "%s", server);
    memcpy(k.bytes, key, PAIR_BYTES);
    int r = tls_keys_store(p->file, *server ? NULL : SERVICE_GROUP, &k, e);
    explicit_bzero(&k, sizeof k);
    return r;
}

static int agree_with_board(struct pair *p, struct pair_link *l, struct pairing_codes *ret,
                            struct error *e)
{
    struct pair_message hello = {.type = PAIR_HELLO}, nonce, reveal = {.type = PAIR_REVEAL};
    snprintf(hello.text, sizeof hello.text, "%s", p->identity);
    int r = pairing_random(reveal.bytes, PAIRING_NONCE, e);
    if (r == 0)
        r = pairing_commit(reveal.bytes, hello.bytes, e);
    if (r == 0)
        r = pair_link_send(l, &hello, e);
    if (r == 0)
        r = pair_link_receive(l, PAIR_NONCE, &nonce, e);
    if (r == 0)
        r = pairing_codes(l->tls->tls, reveal.bytes, nonce.bytes, ret, e);
    if (r == 0)
        r = pair_link_send(l, &reveal, e);
    if (r == 0)
        snprintf(p->paired, sizeof p->paired, "%s", nonce.text);
    return r;
}

static int take_key(struct pair *p, struct pair_link *l, struct error *e)
{
    struct pair_message key;
    int r = pair_link_receive(l, PAIR_KEY, &key, e);
    if (r < 0)
        return r;
    snprintf(p->server, sizeof p->server, strchr(p->host, ':') ? "[%s]:%u" : "%s:%u", p->host,
             key.port);
    r = pair_store(p, p->identity, p->server, key.bytes, e);
    explicit_bzero(&key, sizeof key);
    return r < 0 ? r : pair_link_send(l, &(struct pair_message){.type = PAIR_STORED}, e);
}

static int pair_as_client(struct pair *p, struct pair_link *l, struct error *e)
{
    struct pairing_codes codes;
    char question[PAIR_TEXT + 80];
    int r = agree_with_board(p, l, &codes, e);
    if (r < 0)
        return r;
    snprintf(question, sizeof question, "The code that %s shows:", p->paired);
    r = ask_code(l, question, codes.of_board, e);
    if (r == 0)
        r = pair_link_send(l, &(struct pair_message){.type = PAIR_AGREED}, e);
    if (r < 0)
        return r;
    printf("Right. Now type this one there: %s\n", codes.of_client);
    fflush(stdout);
    return take_key(p, l, e);
}

int pair_with_board(struct pair *p, struct error *e)
{
    struct pair_link l;
    uint64_t until = clock_ms() + p->wait_ms;
    int fd = pair_connect(p->host, p->port, until, e);
    int r = fd < 0 ? fd : pair_link_open(&l, fd, until, e);
    if (r < 0)
        return r;
    if ((r = pair_as_client(p, &l, e)) < 0)
        pair_link_abort(&l, e->text);
    pair_link_close(&l);
    return r;
}
