// What an answer is taken for: integers bit by bit, halves within their tolerance, and each way
// that an answer may be none.
#include <string.h>

#include <cmocka.h>

#include "tools/board/judge.h"
#include "tools/format/json_get.h"

static uint8_t low[] = {1, 2, 255}, high[] = {1, 3, 255}, halves[] = {0x00, 0x3c, 0x00, 0x38};
static char low_name[] = "low", high_name[] = "high", halves_name[] = "halves";
static struct kit_file files[] = {
    {low_name, low, 3}, {high_name, high, 3}, {halves_name, halves, 4}};

static const char table[] =
    "{\"chip\": \"rk3588\", \"probes\": [{\"id\": \"p\", \"switch\": \"out-zp\", \"hypotheses\": ["
    "{\"id\": \"A\", \"says\": \"a\", \"default\": true, \"choice\": 0, \"tensors\": [{\"name\": "
    "\"y\", \"node\": \"n\", \"type\": \"int8\", \"file\": \"low\", \"output\": true}]},"
    "{\"id\": \"B\", \"says\": \"b\", \"default\": false, \"choice\": 1, \"tensors\": [{\"name\": "
    "\"y\", \"node\": \"n\", \"type\": \"int8\", \"file\": \"high\", \"output\": true}]}]},"
    "{\"id\": \"h\", \"hypotheses\": [{\"id\": \"as\", \"default\": true, \"tensors\": [{\"name\": "
    "\"y\", \"node\": \"n\", \"type\": \"float16\", \"file\": \"halves\", \"tolerance\": 0.001, "
    "\"output\": true}, {\"name\": \"inside\", \"type\": \"float16\", \"file\": \"halves\", "
    "\"output\": false}]}]}]}";

// The verdict of a probe whose answer is `text`; the caller's.
static json_t *judge(const char *id, const char *text)
{
    struct kit k = {.table = json_loads(table, 0, NULL), .files = files, .n_files = 3};
    json_t *answer = json_loads(text, 0, NULL);
    assert_non_null(answer);
    json_t *verdict = judge_answer(&k, kit_probe(&k, id), answer);
    json_decref(answer);
    json_decref(k.table);
    return verdict;
}

static void check(const char *id, const char *text, const char *is, json_int_t n_wrong)
{
    json_t *verdict = judge(id, text);
    assert_string_equal(json_get_text(verdict, "is"), is);
    assert_cmp(json_integer_value(json_object_get(verdict, "n_wrong")), ==, n_wrong);
    json_decref(verdict);
}

#define Y(hex) "{\"tensors\": [{\"name\": \"y\", \"hex\": \"" hex "\"}]}"

static void integers_are_compared_bit_by_bit(void **state)
{
    (void)state;
    check("p", Y("0102ff"), "ok", 0);
    check("p", Y("0103ff"), "other", 0);
    check("p", Y("0203fe"), "wrong", 3);
}

static void the_first_that_differs_is_told(void **state)
{
    (void)state;
    json_t *verdict = judge("p", Y("0102fe")), *first = json_object_get(verdict, "first");
    assert_cmp(json_integer_value(json_object_get(first, "index")), ==, 2);
    assert_cmp(json_number_value(json_object_get(first, "expected")), ==, -1.0);
    assert_cmp(json_number_value(json_object_get(first, "seen")), ==, -2.0);
    json_decref(verdict);
    verdict = judge("p", Y("0103ff"));
    assert_string_equal(json_get_text(verdict, "hypothesis"), "B");
    assert_string_equal(json_get_text(verdict, "taken"), "A");
    json_decref(verdict);
}

static void halves_may_be_off_by_their_tolerance(void **state)
{
    (void)state;
    check("h", Y("003c0038"), "ok", 0);
    check("h", Y("003c0138"), "ok", 0);    // by 1/1024 of it
    check("h", Y("003c0438"), "wrong", 1); // by 4
    check("h", Y("007e0038"), "wrong", 1); // not a number is none that is near
}

static void what_is_no_tensor_is_wrong(void **state)
{
    (void)state;
    check("p", Y("01"), "wrong", 0);
    check("p", Y("0102zz"), "wrong", 0); // and not 255
    check("p", Y("0102f"), "wrong", 0);
    check("p", Y("0102ff0"), "wrong", 0);
    check("p", "{\"tensors\": []}", "wrong", 0);
    check("p", "{\"tensors\": 5}", "wrong", 0);
    check("p", "{\"failed\": \"no\"}", "failed", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_compared_bit_by_bit),
        cmocka_unit_test(the_first_that_differs_is_told),
        cmocka_unit_test(halves_may_be_off_by_their_tolerance),
        cmocka_unit_test(what_is_no_tensor_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
