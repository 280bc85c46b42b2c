// A guest is a stranger until the person has compared codes, so it costs a bounded amount: one
// message's bytes, one handshake, one computation of codes. A message that comes out of turn ends
// it. The client commits to its nonce before it sees the board's, so neither end can choose codes
// by trying nonces.
#include "tools/pair/pair_guest.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

int pair_guest_begin(struct pair_guest *g, int fd, struct error *e)
{
    g->state = GUEST_SHAKES;
    g->since_ms = clock_ms();
    g->have = 0;
    return pair_link_begin(&g->link, fd, true, 0, e); // nothing is waited for
}

static int answer_hello(struct pair_guest *g, const struct pair_message *hello, struct error *e)
{
    struct pair_message nonce = {.type = PAIR_NONCE};
    if (gethostname(nonce.text, sizeof nonce.text - 1) < 0)
        memcpy(nonce.text, "board", sizeof "board");
    int r = pairing_random(nonce.bytes, PAIRING_NONCE, e);
    if (r < 0)
        return r;
    memcpy(g->name, hello->text, sizeof g->name);
    memcpy(g->commitment, hello->bytes, PAIRING_NONCE);
    memcpy(g->nonce, nonce.bytes, PAIRING_NONCE);
    return pair_link_send(&g->link, &nonce, e);
}

static int compute_codes(struct pair_guest *g, const struct pair_message *reveal, struct error *e)
{
    uint8_t commitment[PAIRING_NONCE];
    int r = pairing_commit(reveal->bytes, commitment, e);
    if (r == 0 && memcmp(commitment, g->commitment, PAIRING_NONCE) != 0)
        r = error_set(e, STATUS_FAIL, "the other end does not keep to what it has promised");
    return r < 0 ? r : pairing_codes(g->link.tls->tls, reveal->bytes, g->nonce, &g->codes, e);
}

static int take_message(struct pair_guest *g, struct error *e)
{
    // An end that has agreed waits for the key: whatever it says is a reason to give up.
    static const enum pair_type wanted[] = {
        [GUEST_GREETS] = PAIR_HELLO,
        [GUEST_REVEALS] = PAIR_REVEAL,
        [GUEST_SHOWN] = PAIR_AGREED,
        [GUEST_AGREED] = PAIR_ABORT,
    };
    struct pair_message m;
    int r = pair_link_read(g->bytes, wanted[g->state], &m, e);
    if (r == 0 && g->state == GUEST_GREETS)
        r = answer_hello(g, &m, e);
    if (r == 0 && g->state == GUEST_REVEALS)
        r = compute_codes(g, &m, e);
    g->have = 0;
    return r;
}

int pair_guest_go_on(struct pair_guest *g, struct error *e)
{
    for (;;) {
        int r = g->state == GUEST_SHAKES ? pair_link_shake(&g->link, e)
                                         : pair_link_receive_some(&g->link, g->bytes, &g->have, e);
        if (r > 0)
            return 0;
        if (r == 0 && g->state != GUEST_SHAKES)
            r = take_message(g, e);
        if (r < 0)
            return r;
        g->state++;
    }
}

void pair_guest_drop(struct pair_guest *g, const char *why)
{
    if (why && g->state > GUEST_SHAKES)
        pair_link_abort(&g->link, why);
    pair_link_close(&g->link);
}
