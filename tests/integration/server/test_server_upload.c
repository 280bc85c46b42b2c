// Models on their way to the server: order, resumption, hashes, several clients, limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/integration/server/in_process.h"

#define SIZE  10000u
#define CHUNK 1000u

static struct in_process server;
static uint8_t model[SIZE];
static unsigned seed;

// A model that no other test has sent.
static rknnd_ModelOffer fresh_model(void)
{
    rknnd_ModelOffer m = {.size = SIZE, .name = "fresh"};
    struct error e;
    seed++;
    for (unsigned i = 0; i < SIZE; i++)
        model[i] = (uint8_t)(i * seed + i / 256);
    assert_int_equal(sha256(model, SIZE, m.sha256, &e), 0);
    return m;
}

IN_PROCESS_START(start, server, "heartbeat-ms", "100", "peer-timeout-ms", "1500", "max-model-size",
                 "20000")
IN_PROCESS_STOP(stop, server)

static rknnd_ModelOfferReply offer(struct peer *p, const rknnd_ModelOffer *m)
{
    struct peer_frame f;
    struct error e;
    if (peer_call(p, MESSAGE_MODEL_OFFER, m, NULL, 0, &f, &e) < 0)
        fail_msg("%s", e.text);
    return f.m.MODEL_OFFER_reply;
}

static int send_part(struct peer *p, const rknnd_ModelOffer *m, uint64_t at, size_t n,
                     rknnd_ModelChunkReply *reply, struct error *e)
{
    struct peer_frame f;
    rknnd_ModelChunk c = {.offset = at};
    memcpy(c.sha256, m->sha256, sizeof c.sha256);
    int r = peer_call(p, MESSAGE_MODEL_CHUNK, &c, model + at % SIZE, n, &f, e);
    *reply = f.m.MODEL_CHUNK_reply;
    return r;
}

static rknnd_ModelChunkReply send_up_to(struct peer *p, const rknnd_ModelOffer *m, uint64_t from,
                                        uint64_t to)
{
    rknnd_ModelChunkReply reply = {0};
    struct error e;
    for (uint64_t at = from; at < to; at += CHUNK)
        if (send_part(p, m, at, CHUNK, &reply, &e) < 0)
            fail_msg("%s", e.text);
    return reply;
}

static void takes_a_model_once(void **state)
{
    struct peer a, b;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    rknnd_ModelOffer m = fresh_model();
    rknnd_ModelOfferReply first = offer(&a, &m);
    assert_false(first.held);
    assert_int_equal(first.offset, 0);
    assert_int_equal(send_up_to(&a, &m, 0, SIZE - CHUNK).received, SIZE - CHUNK);
    rknnd_ModelChunkReply last = send_up_to(&a, &m, SIZE - CHUNK, SIZE);
    assert_true(last.complete);
    assert_int_equal(last.received, SIZE);
    assert_true(offer(&b, &m).held);
    assert_int_equal(peer_status(&b).uploads, 0);
    peer_close(&a);
    peer_close(&b);
}

// ---- others' models -----------------------------------------------------------------------------

static int try_open(struct peer *p, const rknnd_ModelOffer *m)
{
    struct peer_frame f;
    rknnd_ContextOpen open = {0};
    struct error e;
    memcpy(open.sha256, m->sha256, sizeof open.sha256);
    int r = peer_call(p, MESSAGE_CONTEXT_OPEN, &open, NULL, 0, &f, &e);
    peer_frame_done(&f);
    return r;
}

static void expect_as_if_new(struct peer *p, const rknnd_ModelOffer *m)
{
    rknnd_ModelOfferReply r = offer(p, m);
    assert_false(r.held);
    assert_int_equal(r.offset, 0);
}

static void tells_nobody_what_others_have(void **state)
{
    struct peer a, b;
    rknnd_ModelChunkReply reply;
    struct error e;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect_tcp(&server, &b);
    rknnd_ModelOffer m = fresh_model(), liar = m;
    liar.size = SIZE + 1;
    expect_as_if_new(&a, &m);
    assert_true(send_up_to(&a, &m, 0, SIZE).complete);
    uint64_t stored = peer_status(&a).model_bytes;
    // Who knows nothing but the hash.
    assert_int_equal(try_open(&b, &m), STATUS_MODEL_INVALID);
    assert_int_equal(send_part(&b, &m, 0, CHUNK, &reply, &e), STATUS_FAIL);
    expect_as_if_new(&b, &liar);
    expect_as_if_new(&b, &m);
    assert_int_equal(try_open(&b, &m), STATUS_MODEL_INVALID);
    // Who brings it has it as well. It is stored once.
    peer_close(&b);
    in_process_connect_tcp(&server, &b);
    expect_as_if_new(&b, &m);
    assert_true(send_up_to(&b, &m, 0, SIZE).complete);
    assert_int_equal(peer_status(&a).model_bytes, stored);
    assert_int_equal(try_open(&b, &m), 0);
    assert_true(offer(&b, &m).held);
    peer_close(&a);
    peer_close(&b);
}

static void unfinished_uploads_are_in_nobodys_way(void **state)
{
    struct peer a, b, c;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect_tcp(&server, &b);
    in_process_connect_tcp(&server, &c);
    rknnd_ModelOffer m = fresh_model(), liar = m;
    liar.size = SIZE - 1;
    expect_as_if_new(&b, &liar);
    expect_as_if_new(&c, &m); // of the same address, which need not be the same program
    send_up_to(&c, &m, 0, CHUNK);
    expect_as_if_new(&a, &m); // is answered, and not when the others are through
    assert_true(send_up_to(&a, &m, 0, SIZE).complete);
    assert_true(send_up_to(&c, &m, CHUNK, SIZE).complete);
    assert_int_equal(try_open(&a, &m), 0);
    assert_int_equal(try_open(&c, &m), 0);
    peer_close(&a);
    peer_close(&b);
    peer_close(&c);
}

static void a_connection_has_few_unfinished_uploads(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect_tcp(&server, &p);
    for (uint8_t i = 0; i < 4; i++)
        expect_as_if_new(&p, &(rknnd_ModelOffer){.size = SIZE, .sha256 = {1, i}});
    assert_int_equal(peer_call(&p, MESSAGE_MODEL_OFFER,
                               &(rknnd_ModelOffer){.size = SIZE, .sha256 = {1, 4}}, NULL, 0, &f,
                               &e),
                     STATUS_MALLOC_FAIL);
    peer_close(&p);
}

static void takes_parts_in_order_only(void **state)
{
    struct peer p;
    rknnd_ModelChunkReply reply;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    rknnd_ModelOffer m = fresh_model();
    assert_int_equal(send_part(&p, &m, 0, CHUNK, &reply, &e), STATUS_FAIL); // not offered
    offer(&p, &m);
    assert_int_equal(send_part(&p, &m, CHUNK, CHUNK, &reply, &e), STATUS_FAIL);
    send_up_to(&p, &m, 0, 2 * CHUNK);
    assert_int_equal(send_part(&p, &m, CHUNK, CHUNK, &reply, &e), STATUS_FAIL); // again
    assert_int_equal(send_part(&p, &m, 2 * CHUNK, 0, &reply, &e), STATUS_FAIL);
    send_up_to(&p, &m, 2 * CHUNK, SIZE - CHUNK);
    static uint8_t too_much[CHUNK + 1];
    struct peer_frame f;
    rknnd_ModelChunk c = {.offset = SIZE - CHUNK};
    memcpy(c.sha256, m.sha256, sizeof c.sha256);
    assert_int_equal(peer_call(&p, MESSAGE_MODEL_CHUNK, &c, too_much, CHUNK + 1, &f, &e),
                     STATUS_FAIL);
    assert_true(send_up_to(&p, &m, SIZE - CHUNK, SIZE).complete); // no harm was done
    peer_close(&p);
}

static void refuses_sizes(void **state)
{
    struct peer p;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    rknnd_ModelOffer m = fresh_model();
    const uint64_t sizes[] = {0, 20001, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        m.size = sizes[i];
        assert_int_equal(peer_call(&p, MESSAGE_MODEL_OFFER, &m, NULL, 0, &f, &e),
                         STATUS_MODEL_INVALID);
    }
    m.size = SIZE;
    expect_as_if_new(&p, &m);
    assert_true(send_up_to(&p, &m, 0, SIZE).complete);
    m.size = SIZE + 1; // the same hash
    assert_int_equal(peer_call(&p, MESSAGE_MODEL_OFFER, &m, NULL, 0, &f, &e), STATUS_MODEL_INVALID);
    peer_close(&p);
}

static void drops_a_file_with_another_hash(void **state)
{
    struct peer p;
    rknnd_ModelChunkReply reply;
    struct error e;
    (void)state;
    in_process_connect(&server, &p);
    rknnd_ModelOffer m = fresh_model();
    offer(&p, &m);
    send_up_to(&p, &m, 0, SIZE - CHUNK);
    model[SIZE - 1] ^= 1;
    assert_int_equal(send_part(&p, &m, SIZE - CHUNK, CHUNK, &reply, &e), STATUS_MODEL_INVALID);
    model[SIZE - 1] ^= 1;
    assert_int_equal(peer_status(&p).upload_bytes, 0);
    assert_int_equal(offer(&p, &m).offset, 0);
    assert_true(send_up_to(&p, &m, 0, SIZE).complete);
    peer_close(&p);
}

static void resumes_after_a_broken_link(void **state)
{
    struct peer a, b;
    (void)state;
    in_process_connect(&server, &a);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    send_up_to(&a, &m, 0, 4 * CHUNK);
    // The last part is cut in the middle: it does not count.
    uint8_t head[FRAME_HEADER_SIZE];
    frame_header_write(head, &(struct frame_header){.type = MESSAGE_MODEL_CHUNK, .id = 77});
    peer_send_raw(&a, head, sizeof head / 2);
    peer_close(&a);
    in_process_connect(&server, &b);
    rknnd_ModelOfferReply r = offer(&b, &m);
    assert_false(r.held);
    assert_int_equal(r.offset, 4 * CHUNK);
    assert_true(send_up_to(&b, &m, r.offset, SIZE).complete);
    peer_close(&b);
}

// Of another size it is another file, whatever its hash is said to be.
static void does_not_resume_with_another_size(void **state)
{
    struct peer a, b;
    (void)state;
    in_process_connect(&server, &a);
    rknnd_ModelOffer m = fresh_model(), other = m;
    other.size = SIZE + 1;
    offer(&a, &m);
    send_up_to(&a, &m, 0, CHUNK);
    peer_close(&a);
    in_process_connect(&server, &b);
    expect_as_if_new(&b, &other);
    assert_int_equal(offer(&b, &m).offset, CHUNK);
    peer_close(&b);
}

static void makes_others_wait_for_the_outcome(void **state)
{
    struct peer a, b, c;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    in_process_connect(&server, &c);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    uint32_t b_id = peer_send(&b, MESSAGE_MODEL_OFFER, &m, NULL, 0);
    peer_status(&c); // b's offer has been read by now, or will be answered at once
    assert_true(send_up_to(&a, &m, 0, SIZE).complete);
    assert_int_equal(peer_wait(&b, b_id, &f, &e), 0);
    assert_true(f.m.MODEL_OFFER_reply.held);
    peer_close(&a);
    peer_close(&b);
    peer_close(&c);
}

static bool two_connections(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->connections == 2;
}

static void hands_over_when_the_sender_goes(void **state)
{
    struct peer a, b, c;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &c);
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    send_up_to(&a, &m, 0, 3 * CHUNK);
    uint32_t id = peer_send(&b, MESSAGE_MODEL_OFFER, &m, NULL, 0);
    peer_close(&a);
    in_process_wait_status(&c, two_connections, NULL);
    assert_int_equal(peer_wait(&b, id, &f, &e), 0);
    assert_int_equal(f.m.MODEL_OFFER_reply.offset, 3 * CHUNK);
    assert_true(send_up_to(&b, &m, 3 * CHUNK, SIZE).complete);
    peer_close(&b);
    peer_close(&c);
}

static void begins_again_when_the_first_sender_lied(void **state)
{
    struct peer a, b;
    struct peer_frame f;
    struct error e;
    rknnd_ModelChunkReply reply;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    uint32_t id = peer_send(&b, MESSAGE_MODEL_OFFER, &m, NULL, 0);
    model[5] ^= 1;
    send_up_to(&a, &m, 0, SIZE - CHUNK);
    assert_int_equal(send_part(&a, &m, SIZE - CHUNK, CHUNK, &reply, &e), STATUS_MODEL_INVALID);
    model[5] ^= 1;
    assert_int_equal(peer_wait(&b, id, &f, &e), 0);
    assert_false(f.m.MODEL_OFFER_reply.held);
    assert_int_equal(f.m.MODEL_OFFER_reply.offset, 0);
    assert_true(send_up_to(&b, &m, 0, SIZE).complete);
    peer_close(&a);
    peer_close(&b);
}

// The first sender is alive, and sends nothing more.
static void hands_over_when_the_sender_stalls(void **state)
{
    struct peer a, b;
    struct peer_frame f;
    struct error e;
    rknnd_ModelChunkReply reply;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    send_up_to(&a, &m, 0, 2 * CHUNK);
    uint32_t id = peer_send(&b, MESSAGE_MODEL_OFFER, &m, NULL, 0);
    char byte;
    while (recv(b.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 1 ||
           (peer_receive(&b, &f) && f.header.id != id))
        peer_status(&a); // a lives; b answers Pings in peer_receive()
    assert_int_equal(f.m.MODEL_OFFER_reply.offset, 2 * CHUNK);
    assert_int_equal(send_part(&a, &m, 2 * CHUNK, CHUNK, &reply, &e), STATUS_TIMEOUT);
    assert_true(send_up_to(&b, &m, 2 * CHUNK, SIZE).complete);
    peer_close(&a);
    peer_close(&b);
}

// … and stops in the middle of a part, whose rest comes when the other has begun to go on.
static void hands_over_in_the_middle_of_a_part(void **state)
{
    struct peer a, b;
    struct peer_frame f;
    struct error e;
    (void)state;
    in_process_connect(&server, &a);
    in_process_connect(&server, &b);
    rknnd_ModelOffer m = fresh_model();
    offer(&a, &m);
    send_up_to(&a, &m, 0, CHUNK);
    rknnd_ModelChunk part = {.offset = CHUNK};
    memcpy(part.sha256, m.sha256, sizeof part.sha256);
    struct iovec payload = {model + CHUNK, CHUNK};
    struct frame_out *chunk = message_frame(MESSAGE_MODEL_CHUNK, 0, 77, rknnd_ModelChunk_fields,
                                            &part, &payload, 1, NULL, NULL);
    peer_send_raw(&a, chunk->head, chunk->head_size);
    frame_out_free(chunk);
    peer_send_raw(&a, model + CHUNK, CHUNK / 2);
    assert_int_equal(offer(&b, &m).offset, CHUNK);
    send_up_to(&b, &m, CHUNK, 2 * CHUNK);
    peer_send_raw(&a, model, CHUNK - CHUNK / 2); // what has been taken away harms nobody
    assert_int_equal(peer_wait(&a, 77, &f, &e), STATUS_TIMEOUT);
    assert_true(send_up_to(&b, &m, 2 * CHUNK, SIZE).complete);
    assert_true(offer(&a, &m).held);
    peer_close(&a);
    peer_close(&b);
}

static bool no_uploads(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->uploads == 0 && status->upload_bytes == 0;
}

static void keeps_few_broken_uploads_and_not_for_long(void **state)
{
    static const char *const settings[] = {"upload-ttl", "1", "heartbeat-ms", "100", NULL};
    struct in_process other;
    struct peer watcher;
    (void)state;
    in_process_start(&other, settings);
    in_process_connect(&other, &watcher);
    for (int i = 0; i < 10; i++) {
        struct peer p;
        rknnd_ModelOffer m = fresh_model();
        in_process_connect(&other, &p);
        offer(&p, &m);
        send_up_to(&p, &m, 0, CHUNK);
        peer_close(&p);
        assert_cmp(peer_status(&watcher).uploads, <=, UPLOAD_MAX_ORPHANS + 1);
    }
    in_process_wait_status(&watcher, no_uploads, NULL);
    peer_close(&watcher);
    in_process_stop(&other);
}

static bool nothing_cached(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->cached_bytes == 0 && status->model_bytes == 0;
}

// Without a cache a model still stays for the client that has just sent it.
static void keeps_a_model_for_its_sender(void **state)
{
    static const char *const settings[] = {"model-cache", "0", NULL};
    struct in_process other;
    struct peer p, watcher;
    uint8_t hash[SHA256_SIZE];
    (void)state;
    in_process_start(&other, settings);
    in_process_connect(&other, &p);
    in_process_connect(&other, &watcher);
    fresh_model();
    peer_upload(&p, model, SIZE, 3000, hash);
    peer_open(&p, hash, 0);
    assert_int_equal(peer_status(&watcher).model_bytes, SIZE);
    peer_close(&p);
    in_process_wait_status(&watcher, nothing_cached, NULL);
    peer_close(&watcher);
    in_process_stop(&other);
}

static void refuses_what_does_not_fit_all_in_all(void **state)
{
    static const char *const settings[] = {"max-models-size", "15000", NULL};
    struct in_process other;
    struct peer a, b;
    struct peer_frame f;
    struct error e;
    uint8_t hash[SHA256_SIZE];
    (void)state;
    in_process_start(&other, settings);
    in_process_connect(&other, &a);
    in_process_connect(&other, &b);
    fresh_model();
    peer_upload(&a, model, SIZE, 5000, hash);
    rknnd_ModelOffer second = fresh_model();
    assert_int_equal(peer_call(&b, MESSAGE_MODEL_OFFER, &second, NULL, 0, &f, &e),
                     STATUS_MALLOC_FAIL);
    offer(&a, &(rknnd_ModelOffer){.size = 1, .sha256 = {1}}); // a has no use for the first any more
    peer_upload(&a, "x", 1, 1, hash);
    assert_int_equal(peer_call(&b, MESSAGE_MODEL_OFFER, &second, NULL, 0, &f, &e), 0);
    peer_close(&a);
    peer_close(&b);
    in_process_stop(&other);
}

static bool all_cached(const rknnd_ServerStatus *status, const void *with)
{
    (void)with;
    return status->models == 0 && status->cached_bytes == SIZE && status->model_bytes == 0;
}

// Contexts with the same load options share a worker; the file is held once for all of them.
static void loads_a_file_once_for_each_options(void **state)
{
    static const char *const options[] = {"", "shape x=1", "shape x=2", "shape x=1"};
    struct in_process other;
    struct peer p;
    struct peer_frame f;
    struct error e;
    rknnd_ContextOpen m = {0};
    (void)state;
    in_process_start(&other, NULL);
    in_process_connect(&other, &p);
    fresh_model();
    peer_upload(&p, model, SIZE, 5000, m.sha256);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        strcpy(m.options, options[i]);
        assert_int_equal(peer_call(&p, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &f, &e), 0);
        peer_frame_done(&f);
    }
    rknnd_ServerStatus s = peer_status(&p);
    assert_int_equal(s.contexts, 4);
    assert_int_equal(s.models, 3);
    assert_int_equal(s.model_bytes, SIZE);
    peer_close(&p);
    in_process_connect(&other, &p);
    in_process_wait_status(&p, all_cached, NULL);
    peer_close(&p);
    in_process_stop(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_model_once),
        cmocka_unit_test(tells_nobody_what_others_have),
        cmocka_unit_test(unfinished_uploads_are_in_nobodys_way),
        cmocka_unit_test(a_connection_has_few_unfinished_uploads),
        cmocka_unit_test(takes_parts_in_order_only),
        cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(drops_a_file_with_another_hash),
        cmocka_unit_test(resumes_after_a_broken_link),
        cmocka_unit_test(does_not_resume_with_another_size),
        cmocka_unit_test(makes_others_wait_for_the_outcome),
        cmocka_unit_test(hands_over_when_the_sender_goes),
        cmocka_unit_test(begins_again_when_the_first_sender_lied),
        cmocka_unit_test(hands_over_when_the_sender_stalls),
        cmocka_unit_test(hands_over_in_the_middle_of_a_part),
        cmocka_unit_test(keeps_few_broken_uploads_and_not_for_long),
        cmocka_unit_test(keeps_a_model_for_its_sender),
        cmocka_unit_test(refuses_what_does_not_fit_all_in_all),
        cmocka_unit_test(loads_a_file_once_for_each_options),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
