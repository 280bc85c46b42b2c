// Messages: the table, bounds, texts, sequences.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/message.h"

static void rows_of_the_message_table(void **state)
{
    (void)state;
    struct frame_header h = {.type = MESSAGE_INFER};
    assert_string_equal(message_row(MESSAGE_INFER)->name, "INFER");
    assert_ptr_equal(message_fields(&h), rknnd_Infer_fields);
    h.flags = FRAME_REPLY;
    assert_ptr_equal(message_fields(&h), rknnd_InferReply_fields);
    h.flags = FRAME_REPLY | FRAME_ERROR;
    assert_ptr_equal(message_fields(&h), rknnd_Error_fields);
    h.type = 0;
    assert_null(message_fields(&h));
    h.type = 65535;
    assert_null(message_fields(&h));
}

static int decode(const pb_msgdesc_t *fields, const void *bytes, size_t size)
{
    union message_any m;
    struct error e = {0};
    int r = message_decode(fields, (struct bytes){bytes, size}, &m, &e);
    assert_int_equal(r < 0, e.text[0] != 0);
    return r;
}

static void bounds_are_kept(void **state)
{
    (void)state;
    uint8_t bytes[600] = {0};
    bytes[0] = 0x0a; // field 1, length-delimited
    bytes[1] = 31;
    assert_int_equal(decode(rknnd_ModelDescribe_fields, bytes, 33), STATUS_FAIL); // not 32
    bytes[1] = 33;
    assert_int_equal(decode(rknnd_ModelDescribe_fields, bytes, 35), STATUS_FAIL);
    bytes[1] = 32;
    assert_int_equal(decode(rknnd_ModelDescribe_fields, bytes, 34), 0);
    assert_int_equal(decode(rknnd_ModelDescribe_fields, bytes, 33), STATUS_FAIL); // cut
    memset(bytes + 2, 'x', sizeof bytes - 2);
    memcpy(bytes, "\x0a\xff\x01", 3); // 255 bytes
    assert_int_equal(decode(rknnd_Goodbye_fields, bytes, 258), 0);
    memcpy(bytes, "\x0a\x80\x02", 3); // 256 and the terminator do not fit
    assert_int_equal(decode(rknnd_Goodbye_fields, bytes, 259), STATUS_FAIL);
    for (size_t i = 0; i < 258; i += 2)
        memcpy(bytes + i, "\x32\x00", 2); // Infer.inputs, an empty one each
    assert_int_equal(decode(rknnd_Infer_fields, bytes, 256), 0);
    assert_int_equal(decode(rknnd_Infer_fields, bytes, 258), STATUS_FAIL);
}

static void unknown_fields_are_skipped_and_missing_ones_are_zero(void **state)
{
    (void)state;
    static const uint8_t newer[] = {0x08, 0x05, 0xfa, 0x3f, 0x03, 'n', 'e', 'w'}; // field 1023
    rknnd_Hello hello;
    memset(&hello, 0xa5, sizeof hello);
    struct bytes b = {newer, sizeof newer};
    assert_int_equal(message_decode(rknnd_Hello_fields, b, &hello, NULL), 0);
    assert_int_equal(hello.version_min, 5);
    assert_int_equal(hello.version_max, 0);
    assert_int_equal(hello.session_secret.size, 0);
    assert_string_equal(hello.program, "");
    b.size = 0;
    assert_int_equal(message_decode(rknnd_Hello_fields, b, &hello, NULL), 0);
    assert_int_equal(hello.version_min, 0);
}

// Each text through a field of 8 bytes.
static void texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
    } cases[] = {
        {"", ""},
        {"1234567", "1234567"},
        {"12345678", "1234567"},
        {"12345é", "12345é"},
        {"123456é", "123456"},
        {"猫猫猫", "猫猫"},
        {"1234猫5", "1234猫"},
        {"12345猫", "12345"},
        {"123🐈", "123🐈"},
        {"1234🐈", "1234"},
        {"a\xff\x80z", "a??z"},                   // never UTF-8
        {"\xc3", "?"},                            // a character that ends too early
        {"\xe7\x8c", "??"},                       //
        {"\xc0\xaf", "??"},                       // a '/' in two bytes
        {"\xed\xa0\x80", "???"},                  // half of a UTF-16 pair
        {"\xf4\x90\x80\x80", "????"},             // past the last character
        {"\xf0\x9f\x90\x88", "\xf0\x9f\x90\x88"}, //
        {"tab\tis", "tab\tis"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char field[8];
        message_set_text(field, cases[i].text);
        assert_string_equal(field, cases[i].field);
    }
}

static void peers_words_are_made_printable(void **state)
{
    (void)state;
    rknnd_Error m = {.code = STATUS_MODEL_INVALID, .text = "a\x1b[2Jb\n猫\x7f\xc2\x9b\xfe"};
    struct error e;
    assert_int_equal(message_error_take(&m, &e), STATUS_MODEL_INVALID);
    assert_int_equal(e.code, STATUS_MODEL_INVALID);
    assert_string_equal(e.text, "a?[2Jb?猫???");
}

static void peers_codes_are_made_known(void **state)
{
    (void)state;
    static const int strange[] = {0, 1, -14, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        rknnd_Error m = {.code = strange[i]};
        struct error e;
        assert_int_equal(message_error_take(&m, &e), STATUS_FAIL);
        assert_string_equal(e.text, status_text(STATUS_FAIL));
        assert_int_equal(message_error_take(&m, NULL), STATUS_FAIL);
    }
}

static void longest_words_reach_the_peer(void **state)
{
    (void)state;
    struct error e = {.code = STATUS_FAIL}, got;
    rknnd_Error m;
    memset(e.text, 'w', sizeof e.text - 1);
    struct frame_out *f = message_error_frame(MESSAGE_PING, 1, &e);
    assert_non_null(f);
    struct bytes b = {f->head + FRAME_HEADER_SIZE, f->head_size - FRAME_HEADER_SIZE};
    assert_int_equal(message_decode(rknnd_Error_fields, b, &m, NULL), 0);
    message_error_take(&m, &got);
    assert_string_equal(got.text, e.text);
    frame_out_free(f);
}

static void delimited_lists(void **state)
{
    (void)state;
    uint8_t list[64], *at = list;
    for (uint64_t i = 0; i < 3; i++) {
        rknnd_Ping m = {.token = i << 40};
        size_t before = (size_t)(at - list);
        assert_true(message_delimited_put(rknnd_Ping_fields, &m, &at, list + sizeof list));
        assert_int_equal((size_t)(at - list) - before,
                         message_delimited_size(rknnd_Ping_fields, &m));
        assert_false(message_delimited_put(rknnd_Ping_fields, &m, &at, at));
    }
    struct bytes rest = {list, (size_t)(at - list)};
    struct bytes cut = {list, rest.size - 1};
    for (uint64_t i = 0; i < 3; i++) {
        rknnd_Ping m;
        assert_int_equal(message_delimited_take(rknnd_Ping_fields, &rest, &m, NULL), 0);
        assert_int_equal(m.token, i << 40);
        struct error e = {0};
        assert_int_equal(message_delimited_take(rknnd_Ping_fields, &cut, &m, &e),
                         i < 2 ? 0 : STATUS_FAIL);
        assert_int_equal(e.text[0] != 0, i == 2);
    }
    assert_int_equal(rest.size, 0);
    rknnd_Ping m;
    assert_int_equal(message_delimited_take(rknnd_Ping_fields, &rest, &m, NULL), STATUS_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_message_table),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(unknown_fields_are_skipped_and_missing_ones_are_zero),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(peers_words_are_made_printable),
        cmocka_unit_test(peers_codes_are_made_known),
        cmocka_unit_test(longest_words_reach_the_peer),
        cmocka_unit_test(delimited_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
