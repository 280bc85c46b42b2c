#include "tools/pair/pair.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "base/tls/pairing.h"
#include "base/tls/tls_keys_store.h"

#define STRANGER_MS   5000    // in which who connects has to say HELLO, or make room for others
#define SERVICE_GROUP "rknnd" // may read the board's keys

static const char differs[] =
    "the code that was typed is another one: it was mistyped, or somebody "
    "is between the two machines";

// Fails in words here and at the other end.
static int give_up(struct pair_link *l, struct error *e)
{
    pair_link_abort(l, e->text);
    return e->code;
}

// Shows what to do, takes what is typed, and compares.
static int ask_code(struct pair_link *l, const char *question, const char *code, struct error *e)
{
    char typed[64];
    int r = pair_link_ask(l, question, typed, sizeof typed, e);
    if (r == 0 && !pairing_code_is(typed, code))
        r = error_set(e, STATUS_FAIL, "%s; nothing has been stored, begin again at both ends",
                      differs);
    return r;
}

static int store(const struct pair *p, const char *identity, const char *server,
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

// ---- the PC -------------------------------------------------------------------------------------

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
    r = store(p, p->identity, p->server, key.bytes, e);
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
    int r = fd < 0 ? fd : pair_link_open(&l, fd, false, until, e);
    if (r < 0)
        return r;
    if ((r = pair_as_client(p, &l, e)) < 0)
        give_up(&l, e);
    pair_link_close(&l);
    return r;
}

// ---- the board ----------------------------------------------------------------------------------

// As far as it goes without a person: who it is, and the codes.
static int agree_with_client(struct pair *p, struct pair_link *l, struct pairing_codes *ret,
                             struct error *e)
{
    struct pair_message hello, nonce = {.type = PAIR_NONCE}, reveal;
    uint8_t commitment[PAIRING_NONCE];
    if (gethostname(nonce.text, sizeof nonce.text - 1) < 0)
        snprintf(nonce.text, sizeof nonce.text, "board");
    int r = pair_link_receive(l, PAIR_HELLO, &hello, e);
    if (r == 0)
        r = pairing_random(nonce.bytes, PAIRING_NONCE, e);
    if (r == 0)
        r = pair_link_send(l, &nonce, e);
    if (r == 0)
        r = pair_link_receive(l, PAIR_REVEAL, &reveal, e);
    if (r == 0)
        r = pairing_commit(reveal.bytes, commitment, e);
    if (r == 0 && memcmp(commitment, hello.bytes, PAIRING_NONCE) != 0)
        r = error_set(e, STATUS_FAIL, "the other end does not keep to what it has promised");
    if (r == 0)
        r = pairing_codes(l->tls->tls, reveal.bytes, nonce.bytes, ret, e);
    if (r == 0)
        snprintf(p->paired, sizeof p->paired, "%s", hello.text);
    return r;
}

// The file's own key of this identity will be replaced; whoever sits here should know.
static const char *warning(const struct pair *p)
{
    struct tls_keys keys;
    if (tls_keys_read(p->file, &keys, NULL) < 0)
        return "";
    bool there = tls_keys_find(&keys, p->paired, strlen(p->paired));
    tls_keys_done(&keys);
    return there ? " (it has a key already, which will be replaced)" : "";
}

static int give_key(struct pair *p, struct pair_link *l, struct error *e)
{
    struct pair_message key = {.type = PAIR_KEY, .port = p->daemon_port}, stored;
    int r = pairing_random(key.bytes, PAIR_BYTES, e);
    if (r == 0)
        r = store(p, p->paired, "", key.bytes, e);
    if (r == 0)
        r = pair_link_send(l, &key, e);
    explicit_bzero(&key, sizeof key);
    if (r == 0)
        r = pair_link_receive(l, PAIR_STORED, &stored, e);
    return r;
}

static int pair_as_board(struct pair *p, struct pair_link *l, const struct pairing_codes *codes,
                         struct error *e)
{
    struct pair_message agreed;
    printf("%s at %s wants to be paired%s. Type this code there: %s\n", p->paired, p->from,
           warning(p), codes->of_board);
    fflush(stdout);
    int r = pair_link_receive(l, PAIR_AGREED, &agreed, e);
    if (r == 0)
        r = ask_code(l, "It says that the code is right, and shows another one:", codes->of_client,
                     e);
    return r < 0 ? r : give_key(p, l, e);
}

// Until the codes are there nothing has been shown that somebody could have guessed, so others who
// connect do not end the waiting.
static int meet(struct pair *p, int listener, uint64_t until, struct pair_link *ret,
                struct pairing_codes *codes, struct error *e)
{
    for (;;) {
        int fd = pair_accept(listener, until, p->from, sizeof p->from, e);
        if (fd < 0)
            return fd;
        uint64_t soon = clock_ms() + STRANGER_MS;
        int r = pair_link_open(ret, fd, true, soon < until ? soon : until, e);
        if (r == 0)
            r = agree_with_client(p, ret, codes, e);
        if (r == 0) {
            ret->until_ms = until;
            return 0;
        }
        fprintf(stderr, "%s: %s; still waiting\n", p->from, e->text);
        if (ret->fd >= 0) {
            give_up(ret, e);
            pair_link_close(ret);
        }
    }
}

int pair_with_client(struct pair *p, struct error *e)
{
    struct pairing_codes codes;
    struct pair_link l;
    uint64_t until = clock_ms() + p->wait_ms;
    int listener = pair_listen(p->host, p->port, e);
    if (listener < 0)
        return listener;
    printf("Waiting for `rknnctl pair HOST` at port %u, for %u seconds at most.\n", p->port,
           (unsigned)(p->wait_ms / 1000));
    fflush(stdout);
    int r = meet(p, listener, until, &l, &codes, e);
    fd_close(listener);
    if (r < 0)
        return r;
    if ((r = pair_as_board(p, &l, &codes, e)) < 0)
        give_up(&l, e);
    pair_link_close(&l);
    return r;
}
