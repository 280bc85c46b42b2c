// Requests whose JSON came before: read as if it had not, whatever lies behind it.
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kserve/request/request_kept.h"

#define TENSOR(name, size)                                                                         \
    "{\"inputs\":[{\"name\":\"" name "\",\"shape\":[3],\"datatype\":\"UINT8\",\"parameters\":{"    \
    "\"binary_data_size\":" size "}}],\"parameters\":{\"binary_data_output\":true}}"

struct body {
    const char *json, *tail;
    int64_t header; // 0: of json
};

// The same request by a reader that remembers nothing.
static void check(struct request_kept *k, const struct body *b)
{
    char text[2000];
    size_t size = (size_t)snprintf(text, sizeof text, "%s%s", b->json, b->tail);
    int64_t header = b->header ? b->header : (int64_t)strlen(b->json);
    struct request_kept *fresh = calloc(1, sizeof *fresh);
    struct error e = {0}, expected = {0};
    assert_non_null(fresh);
    int s = request_parse(&fresh->request, (uint8_t *)text, size, header, &expected);
    assert_int_equal(request_kept_parse(k, (uint8_t *)text, size, header, &e), s);
    assert_string_equal(e.text, expected.text);
    if (s == 0) {
        const struct request_input *a = &k->request.inputs[0], *x = &fresh->request.inputs[0];
        assert_int_equal(k->request.n_inputs, fresh->request.n_inputs);
        assert_string_equal(a->name, x->name);
        assert_int_equal(a->size, x->size);
        assert_memory_equal(a->data, x->data, (size_t)x->size);
        assert_true(a->made || a->data == x->data);
        assert_string_equal(k->request.id, fresh->request.id);
        assert_int_equal(request_is_binary(&k->request, 0), request_is_binary(&fresh->request, 0));
        request_kept_done(k);
        request_done(&fresh->request);
    }
    free(fresh);
}

// Each behind each, so that what is kept is right, wrong, or of another kind.
static void what_came_before_changes_nothing(void **state)
{
    (void)state;
    static const struct body bodies[] = {
        {TENSOR("a", "3"), "abc", 0},
        {TENSOR("a", "3"), "xyz", 0},
        {TENSOR("b", "3"), "abc", 0},
        {TENSOR("a", "3"), "ab", 0},
        {TENSOR("a", "3"), "abcd", 0},
        {TENSOR("a", "4"), "abcd", 0},
        {"{\"id\":\"x\",\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"UINT8\",\"data\":["
         "7]}]}",
         "", 0},
        {"{}", "", 0},
        {"", "raw", 0},
        {TENSOR("a", "3"), "abc", 5},
        {TENSOR("a", "3"), "abc", 500},
        {TENSOR("a", "3"), "abc", REQUEST_NO_HEADER},
    };
    const size_t n = sizeof bodies / sizeof *bodies;
    struct request_kept *k = calloc(1, sizeof *k);
    assert_non_null(k);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            check(k, &bodies[i]);
            check(k, &bodies[j]);
            check(k, &bodies[i]);
        }
    free(k);
}

static void only_the_same_json_is_kept(void **state)
{
    (void)state;
    struct request_kept *k = calloc(1, sizeof *k);
    assert_non_null(k);
    check(k, &(struct body){TENSOR("a", "3"), "abc", 0});
    assert_int_equal(k->n, sizeof TENSOR("a", "3") - 1);
    check(k, &(struct body){TENSOR("a", "3"), "ab", 0});
    assert_int_equal(k->n, 0);
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_before_changes_nothing),
        cmocka_unit_test(only_the_same_json_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
