// Bringing models over: from memory, from files, in parts, over links that break.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "fake_server.h"
#include "rknnd.h"

#define SIZE 25500 // 26 parts, the last one shorter

static struct fake_server server;
static uint8_t model[SIZE];
static char path[] = "/tmp/test-client-upload-XXXXXX";

static int set_up_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        model[i] = (uint8_t)(i * 7 + i / 251);
    int fd = mkstemp(path);
    ssize_t n = write(fd, model, SIZE);
    close(fd);
    return n == SIZE ? 0 : -1;
}

static int tear_down_all(void **state)
{
    (void)state;
    return unlink(path);
}

static int set_up(void **state)
{
    (void)state;
    return rknnd_set_server(fake_server_begin(&server));
}

static int tear_down(void **state)
{
    (void)state;
    rknnd_set_progress(NULL, NULL);
    fake_server_stop(&server);
    return 0;
}

static void open_and_close(void *data, uint32_t size, rknn_init_extend *extend)
{
    rknn_context c;
    int r = rknn_init(&c, data, size, 0, extend);
    if (r != RKNN_SUCC)
        fail_msg("%d: %s", r, rknnd_last_error());
    rknn_destroy(c);
}

static void model_in_memory(void **state)
{
    (void)state;
    open_and_close(model, SIZE, NULL);
    assert_int_equal(server.model_received, SIZE);
    assert_memory_equal(server.model, model, SIZE);
    open_and_close(model, SIZE, NULL); // held: nothing is sent
    assert_int_equal(server.n_chunk_bytes, SIZE);
}

static void model_of_a_file(void **state)
{
    (void)state;
    open_and_close(path, 0, NULL);
    assert_memory_equal(server.model, model, SIZE);
    assert_string_equal(server.last_model_name, path + strlen("/tmp/"));
}

static void part_of_file_and_memory(void **state)
{
    (void)state;
    rknn_init_extend part = {.real_model_offset = 100, .real_model_size = 3000};
    open_and_close(path, 0, &part);
    assert_int_equal(server.model_received, 3000);
    assert_memory_equal(server.model, model + 100, 3000);
    part.real_model_offset = 200;
    part.real_model_size = 2999;
    open_and_close(model, SIZE, &part);
    assert_memory_equal(server.model, model + 200, 2999);
}

static uint8_t offered[32];

static enum fake_answer note_offer(struct fake_peer *p, const struct frame_header *h,
                                   const union message_any *m)
{
    (void)p;
    if (h->type == MESSAGE_MODEL_OFFER)
        memcpy(offered, m->MODEL_OFFER_request.sha256, sizeof offered);
    return FAKE_DEFAULT;
}

// A remembered hash is not that of a file that has been written to since.
static void changed_file(void **state)
{
    (void)state;
    uint8_t expected[32];
    struct error e;
    server.hook = note_offer;
    open_and_close(path, 0, NULL);
    assert_int_equal(sha256(model, SIZE, expected, &e), 0);
    assert_memory_equal(offered, expected, sizeof expected);
    int fd = open(path, O_WRONLY);
    model[5] ^= 1;
    assert_int_equal(pwrite(fd, model, SIZE, 0), SIZE);
    close(fd);
    open_and_close(path, 0, NULL);
    assert_int_equal(sha256(model, SIZE, expected, &e), 0);
    assert_memory_equal(offered, expected, sizeof expected);
}

static struct {
    unsigned n;
    uint64_t last, total;
    bool backwards;
} seen;

static void note_progress(void *user, uint64_t done, uint64_t total)
{
    assert_ptr_equal(user, &seen);
    seen.backwards |= done < seen.last;
    seen.last = done;
    seen.total = total;
    seen.n++;
}

static void progress_is_told(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    rknnd_set_progress(note_progress, &seen);
    open_and_close(path, 0, NULL);
    assert_cmp(seen.n, >=, 26);
    assert_int_equal(seen.last, SIZE);
    assert_int_equal(seen.total, SIZE);
    assert_false(seen.backwards);
    seen.n = 0;
    open_and_close(path, 0, NULL);
    assert_int_equal(seen.n, 0); // the server holds it
}

// How many parts a link carries before it breaks.
static atomic_int link_life;

static enum fake_answer break_often(struct fake_peer *p, const struct frame_header *h,
                                    const union message_any *m)
{
    (void)p, (void)m;
    if (h->type != MESSAGE_MODEL_CHUNK)
        return FAKE_DEFAULT;
    return atomic_fetch_sub(&link_life, 1) > 0 ? FAKE_DEFAULT : FAKE_HANG_UP;
}

static enum fake_answer break_every_fourth(struct fake_peer *p, const struct frame_header *h,
                                           const union message_any *m)
{
    if (h->type == MESSAGE_HELLO)
        link_life = 4;
    return break_often(p, h, m);
}

static void broken_links(void **state)
{
    (void)state;
    server.hook = break_every_fourth;
    open_and_close(path, 0, NULL);
    assert_memory_equal(server.model, model, SIZE);
    assert_int_equal(server.n_chunk_bytes, SIZE); // nothing went twice
    assert_cmp(server.n_connections, >, 4);
}

// Cuts the link in the middle of the upload, when the program has just chosen another server.
static enum fake_answer choose_another(struct fake_peer *p, const struct frame_header *h,
                                       const union message_any *m)
{
    (void)m;
    if (h->type != MESSAGE_MODEL_CHUNK || p->server->n_chunk_bytes < SIZE / 2)
        return FAKE_DEFAULT;
    p->server->hook = NULL;
    assert_int_equal(rknnd_set_server("tcp:127.0.0.1:1"), RKNN_SUCC);
    return FAKE_HANG_UP;
}

static void upload_stays_with_its_server(void **state)
{
    (void)state;
    server.hook = choose_another;
    open_and_close(model, SIZE, NULL);
    assert_memory_equal(server.model, model, SIZE);
    assert_int_equal(server.n_connections, 2);
}

static void link_that_leads_nowhere(void **state)
{
    (void)state;
    rknn_context c;
    link_life = 3;
    server.hook = break_often;
    assert_int_equal(rknn_init(&c, path, 0, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(server.n_chunk_bytes, 3000);
    server.hook = NULL; // a later try goes on
    open_and_close(path, 0, NULL);
    assert_int_equal(server.n_chunk_bytes, SIZE);
}

static enum fake_answer refuse_tenth(struct fake_peer *p, const struct frame_header *h,
                                     const union message_any *m)
{
    (void)p;
    if (h->type != MESSAGE_MODEL_CHUNK || m->MODEL_CHUNK_request.offset != 10000)
        return FAKE_DEFAULT;
    fake_fail(p, h, STATUS_MALLOC_FAIL, "no room left");
    return FAKE_DONE;
}

static void refused_part(void **state)
{
    (void)state;
    rknn_context c;
    server.hook = refuse_tenth;
    assert_int_equal(rknn_init(&c, model, SIZE, 0, NULL), RKNN_ERR_MALLOC_FAIL);
    assert_non_null(strstr(rknnd_last_error(), "no room left"));
    server.hook = NULL;
    open_and_close(model, SIZE, NULL);
}

static enum fake_answer claim_too_much(struct fake_peer *p, const struct frame_header *h,
                                       const union message_any *m)
{
    rknnd_ModelOfferReply offer = {.offset = SIZE};
    (void)m;
    if (h->type != MESSAGE_MODEL_OFFER)
        return FAKE_DEFAULT;
    fake_send(p, h->type, FRAME_REPLY, h->id, rknnd_ModelOfferReply_fields, &offer, NULL, 0);
    return FAKE_DONE;
}

static void impossible_offset(void **state)
{
    (void)state;
    rknn_context c;
    server.hook = claim_too_much;
    assert_int_equal(rknn_init(&c, model, SIZE, 0, NULL), RKNN_ERR_DEVICE_UNAVAILABLE);
    assert_int_equal(server.n_chunk_bytes, 0);
}

static void too_large_for_server(void **state)
{
    (void)state;
    rknn_context c;
    char large[] = "/tmp/test-client-large-XXXXXX";
    int fd = mkstemp(large);
    assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
    close(fd);
    assert_int_equal(rknn_init(&c, large, 0, 0, NULL), RKNN_ERR_MODEL_INVALID);
    assert_non_null(strstr(rknnd_last_error(), "1048577"));
    unlink(large);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(model_in_memory),
        TEST(model_of_a_file),
        TEST(part_of_file_and_memory),
        TEST(changed_file),
        TEST(progress_is_told),
        TEST(broken_links),
        TEST(upload_stays_with_its_server),
        TEST(link_that_leads_nowhere),
        TEST(refused_part),
        TEST(impossible_offset),
        TEST(too_large_for_server),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
