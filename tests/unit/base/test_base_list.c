// Lists keep their order, also while members leave.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

struct member {
    int value;
    struct list link;
};

static int digits(struct list *head)
{
    struct member *m;
    int n = 0;
    list_for_each (m, head, link)
        n = 10 * n + m->value;
    return n;
}

static void members_come_and_go(void **state)
{
    (void)state;
    struct list head, other;
    struct member m[4] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}}, *i, *after;
    list_init(&head);
    list_init(&other);
    assert_null(list_first(&head, struct member, link));
    for (int k = 0; k < 4; k++)
        list_append(&head, &m[k].link);
    assert_int_equal(digits(&head), 1234);

    list_for_each_safe (i, after, &head, link) {
        if (i->value % 2 == 0) {
            list_remove(&i->link);
            list_append(&other, &i->link);
        }
    }
    assert_int_equal(digits(&head), 13);
    assert_int_equal(digits(&other), 24);

    list_remove(&m[0].link);
    list_remove(&m[0].link); // again: it is alone already
    assert_ptr_equal(list_first(&head, struct member, link), &m[2]);
    list_remove(&m[2].link);
    assert_true(list_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
