// Accounts: whatever users do, others and operators find something; everything comes back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/clients/account.h"
#include "tests/support/seed.h"

#define USERS 12

static struct accounts all;
static struct account users[USERS];

static int begin(void **state)
{
    (void)state;
    accounts_init(&all);
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        all.total.of[i] = 1000;
    all.total.of[ACCOUNT_DESCRIPTORS] = all.total.of[ACCOUNT_THREADS] = 100000;
    for (unsigned i = 0; i < USERS; i++)
        account_init(&users[i], &all.all, "somebody");
    return 0;
}

static uint64_t take_all(struct account *a, enum account_resource what)
{
    uint64_t n = 0;
    while (account_charge(a, what, 1, NULL) == 0)
        n++;
    return n;
}

static void each_leaves_as_much_as_he_has(void **state)
{
    (void)state;
    uint64_t before = 1000 - 1000 / 8, had = 0; // an eighth is kept
    for (unsigned i = 0; i < 6; i++) {
        uint64_t n = take_all(&users[i], ACCOUNT_CONNECTIONS);
        had += n;
        assert_in_range(n, 1, before / 2 + 1);
        assert_in_range(before - n, before / 2 - 1, before);
        before -= n;
    }
    // Whoever wants a part of what is left gets some.
    for (unsigned i = 6; i < USERS && had < 1000 - 1000 / 8; i++)
        had += take_all(&users[i], ACCOUNT_CONNECTIONS);
    assert_in_range(had, 1, 1000 - 1000 / 8);
}

static void the_network_is_one_of_them(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (unsigned i = 0; i < USERS - 1; i++) {
        account_init(&users[i], &all.network, "tcp");
        n += take_all(&users[i], ACCOUNT_CONNECTIONS);
    }
    assert_in_range(n, 400, 875 / 2 + 1);
    assert_int_equal(take_all(&users[USERS - 1], ACCOUNT_CONNECTIONS), (875 - n + 1) / 2);
}

static void part_is_kept(void **state)
{
    (void)state;
    struct account member, root;
    account_init(&member, &all.all, "member");
    member.tier = ACCOUNT_MEMBER;
    account_init(&root, &all.operators, "root");
    root.tier = ACCOUNT_OPERATOR;
    struct account_amounts everything;
    memset(&everything, 0, sizeof everything);
    everything.of[ACCOUNT_CONNECTIONS] = 5000;
    users[0].quota = &everything; // as much as an administrator can give
    users[0].quota_name = "somebody";
    assert_int_equal(take_all(&users[0], ACCOUNT_CONNECTIONS), 875);
    assert_int_equal(account_charge(&users[1], ACCOUNT_CONNECTIONS, 1, NULL),
                     STATUS_DEVICE_UNAVAILABLE);
    assert_in_range(take_all(&member, ACCOUNT_CONNECTIONS), 1, 62);
    uint64_t left = 1000 - all.all.used.of[ACCOUNT_CONNECTIONS];
    assert_cmp(left, >=, 62);
    assert_int_equal(take_all(&root, ACCOUNT_CONNECTIONS), left);
}

// What operators hold is not taken from what others may have, up to what is kept for them.
static void what_operators_hold(void **state)
{
    (void)state;
    struct account root;
    account_init(&root, &all.operators, "root");
    root.tier = ACCOUNT_OPERATOR;
    uint64_t before = account_limit(&users[0], ACCOUNT_WORKERS);
    assert_int_equal(account_charge(&root, ACCOUNT_WORKERS, 125, NULL), 0);
    assert_int_equal(account_limit(&users[0], ACCOUNT_WORKERS), before);
    assert_int_equal(account_charge(&root, ACCOUNT_WORKERS, 875, NULL), 0);
    assert_int_equal(account_charge(&users[0], ACCOUNT_WORKERS, 1, NULL), STATUS_MALLOC_FAIL);
}

static void what_goes_along(void **state)
{
    (void)state;
    struct error e;
    all.total.of[ACCOUNT_DESCRIPTORS] = 100;
    all.total.of[ACCOUNT_THREADS] = 100;
    all.worker_threads = 5;
    assert_int_equal(take_all(&users[0], ACCOUNT_CONNECTIONS), 44); // half of 88, one each
    assert_int_equal(account_charge(&users[0], ACCOUNT_CONNECTIONS, 1, &e), STATUS_MALLOC_FAIL);
    assert_non_null(strstr(e.text, "descriptors"));
    assert_int_equal(take_all(&users[1], ACCOUNT_WORKERS), 4); // half of 44, five each
    assert_int_equal(users[1].used.of[ACCOUNT_THREADS], 20);
    account_refund(&users[0], ACCOUNT_CONNECTIONS, 44);
    assert_int_equal(take_all(&users[1], ACCOUNT_WORKERS), 4); // half of 88 threads
    assert_int_equal(users[1].used.of[ACCOUNT_DESCRIPTORS], 40);
}

// A program leaves an eighth to others of its user, or half where these may be other people's; all
// of them together have no more than the user; a quota of his may be one program's.
static void programs_of_a_user(void **state)
{
    struct account_amounts quota = {{[ACCOUNT_DUMPS] = 10}}, each = {{[ACCOUNT_MEMORIES] = 3}};
    struct account programs[2];
    struct error e;
    (void)state;
    all.total.of[ACCOUNT_CONTEXTS] = all.total.of[ACCOUNT_DUMPS] =
        73; // 64 beside those that are kept
    all.total.of[ACCOUNT_MEMORIES] = all.total.of[ACCOUNT_DESCRIPTORS] = 1000;
    users[0].quota = &quota;
    for (int i = 0; i < 2; i++)
        account_init_program(&programs[i], &users[0], false, "detect");
    programs[0].quota = &each;
    programs[0].quota_name = "alice";
    assert_int_equal(account_limit(&users[0], ACCOUNT_CONTEXTS), 32);
    assert_int_equal(account_limit(&programs[0], ACCOUNT_CONTEXTS), 28);
    assert_int_equal(account_charge(&programs[0], ACCOUNT_CONTEXTS, 28, &e), 0);
    assert_true(account_charge(&programs[0], ACCOUNT_CONTEXTS, 1, &e) < 0);
    assert_non_null(strstr(e.text, "program detect has 28 contexts"));
    assert_int_equal(account_charge(&programs[1], ACCOUNT_CONTEXTS, 4, &e), 0); // 4 - 4/8
    assert_true(account_charge(&programs[1], ACCOUNT_CONTEXTS, 1, &e) < 0);
    assert_non_null(strstr(e.text, "program detect has 4 contexts"));
    assert_int_equal(users[0].used.of[ACCOUNT_CONTEXTS], 32);
    account_refund(&programs[0], ACCOUNT_CONTEXTS, 28);
    account_refund(&programs[1], ACCOUNT_CONTEXTS, 4);

    assert_int_equal(account_charge(&programs[0], ACCOUNT_DUMPS, 10, &e), 0);
    assert_true(account_charge(&programs[1], ACCOUNT_DUMPS, 1, &e) < 0);
    account_refund(&programs[0], ACCOUNT_DUMPS, 10);
    assert_int_equal(account_charge(&programs[0], ACCOUNT_MEMORIES, 3, &e), 0);
    assert_true(account_charge(&programs[0], ACCOUNT_MEMORIES, 1, &e) < 0);
    assert_non_null(strstr(e.text, "program detect has as many memories as the quota allows: 3 "
                                   "(quota alice, program.memories)"));
    account_refund(&programs[0], ACCOUNT_MEMORIES, 3);

    account_init_program(&programs[0], &users[0], true, "detect");
    assert_int_equal(account_limit(&programs[0], ACCOUNT_CONTEXTS), 16);
}

static void huge_amounts(void **state)
{
    (void)state;
    assert_cmp(account_charge(&users[0], ACCOUNT_BYTES, UINT64_MAX, NULL), <, 0);
    assert_int_equal(account_charge(&users[0], ACCOUNT_BYTES, 1, NULL), 0);
    assert_cmp(account_charge(&users[0], ACCOUNT_BYTES, UINT64_MAX, NULL), <, 0);
    assert_int_equal(all.all.used.of[ACCOUNT_BYTES], 1);
}

static void quotas_name_themselves(void **state)
{
    (void)state;
    struct error e;
    struct account_amounts quota;
    memset(&quota, 0, sizeof quota);
    quota.of[ACCOUNT_UPLOADS] = 2;
    users[0].quota = &quota;
    users[0].quota_name = "*";
    assert_int_equal(take_all(&users[0], ACCOUNT_UPLOADS), 2);
    account_charge(&users[0], ACCOUNT_UPLOADS, 1, &e);
    assert_non_null(strstr(e.text, "quota *"));
    assert_non_null(strstr(e.text, "somebody"));
}

// Random charges, moves and refunds: every account is the sum of those below it, and nothing stays.
static void try_sums(void)
{
    uint64_t held[USERS][ACCOUNT_RESOURCES] = {{0}}, sum = 0;
    for (int round = 0; round < 50000; round++) {
        unsigned u = (unsigned)rand() % USERS, v = (unsigned)rand() % USERS;
        unsigned what = (unsigned)rand() % ACCOUNT_DESCRIPTORS;
        uint64_t n = (uint64_t)rand() % 200;
        if (rand() % 2 && account_charge(&users[u], what, n, NULL) == 0)
            held[u][what] += n;
        if (rand() % 3 == 0) {
            account_refund(&users[u], what, held[u][what]);
            held[u][what] = 0;
        }
        if (rand() % 5 == 0) {
            account_move(&users[u], &users[v], what, held[u][what]);
            n = held[u][what];
            held[u][what] = 0;
            held[v][what] += n;
        }
        for (sum = 0, u = 0; u < USERS; u++)
            sum += held[u][what];
        assert_int_equal(sum, all.all.used.of[what]);
        assert_in_range(sum, 0, 1000);
    }
    for (unsigned u = 0; u < USERS; u++)
        for (unsigned what = 0; what < ACCOUNT_DESCRIPTORS; what++)
            account_refund(&users[u], what, held[u][what]);
    for (unsigned what = 0; what < ACCOUNT_RESOURCES; what++)
        assert_int_equal(all.all.used.of[what], 0);
}

static void sums_are_right(void **state)
{
    SEED_EACH (seed, 4) {
        srand((unsigned)seed);
        begin(state);
        try_sums();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_leaves_as_much_as_he_has, begin),
        cmocka_unit_test_setup(the_network_is_one_of_them, begin),
        cmocka_unit_test_setup(part_is_kept, begin),
        cmocka_unit_test_setup(what_operators_hold, begin),
        cmocka_unit_test_setup(what_goes_along, begin),
        cmocka_unit_test_setup(huge_amounts, begin),
        cmocka_unit_test_setup(programs_of_a_user, begin),
        cmocka_unit_test_setup(quotas_name_themselves, begin),
        cmocka_unit_test_setup(sums_are_right, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
