// Mainline's driver as seen by npu/open, without a kernel (test_provider_rknpu.c says how).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/npu/open/digits_case.h"
#include "tests/unit/npu/open/rocket_standin.h"

#define SHARED_NET "strangers/lprnet_us.rk3588.rknn"
#define OPTIONS    "rocket:,compatible="

static void check_clean(struct rocket_standin_counts c)
{
    assert_int_equal(c.wrong, 0);
    assert_int_equal(c.objects, c.kept);
    assert_int_equal(c.maps, 0);
    assert_int_equal(c.fences, 0);
    assert_int_equal(c.open_files, 0);
}

static int rocket_with(struct rocket_standin_settings set, const char *options, struct error *e)
{
    float scores[DIGITS_SCORES] = {0};
    rocket_standin_begin(&set);
    int status = digits_whole(options, scores, e);
    struct rocket_standin_counts c = rocket_standin_end();
    check_clean(c);
    if (status == 0) {
        assert_memory_equal(scores, digits_expected(), sizeof scores);
        assert_true(c.tasks >= 2); // convolutions are not the CPU's
    }
    return status;
}

static void it_is_right(void **state)
{
    struct error e = {0};
    (void)state;
    for (int poisoned = 0; poisoned < 2; poisoned++)
        if (rocket_with((struct rocket_standin_settings){.poisoned = poisoned}, OPTIONS, &e) < 0)
            fail_msg("%s", e.text);
    assert_int_equal(rocket_with((struct rocket_standin_settings){0},
                                 "rocket:" STANDIN_ACCEL ",compatible=", &e),
                     0);
}

// A net with pools, tables, sums, and programs that set only what has changed.
static void a_whole_net_is_right(void **state)
{
    uint8_t *found, *wanted;
    size_t n, n_wanted;
    unsigned left, left_by_file;
    struct error e = {0};
    (void)state;
    if (digits_shared("emu:rk3588", SHARED_NET, 1, &wanted, &n_wanted, &left_by_file, &e) < 0)
        fail_msg("%s", e.text);
    if (!wanted)
        skip();
    rocket_standin_begin(&(struct rocket_standin_settings){.poisoned = true});
    int status = digits_shared(OPTIONS, SHARED_NET, 1, &found, &n, &left, &e);
    struct rocket_standin_counts c = rocket_standin_end();
    check_clean(c);
    assert_int_equal(status, 0);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(found, wanted, n);
    assert_true(c.tasks > 20);
    assert_true(left > left_by_file);
    free(found);
    free(wanted);
}

static void a_job_that_fails_says_how(void **state)
{
    struct error e = {0};
    (void)state;
    assert_int_equal(rocket_with((struct rocket_standin_settings){.hangs = true}, OPTIONS, &e),
                     STATUS_TIMEOUT);
    assert_non_null(strstr(e.text, "did not end its tasks in time"));
    assert_int_equal(
        rocket_with((struct rocket_standin_settings){.fence = -ETIMEDOUT}, OPTIONS, &e),
        STATUS_TIMEOUT);
    assert_non_null(strstr(e.text, "was reset by the driver"));
}

static void a_signal_is_no_failure(void **state)
{
    struct error e = {0};
    (void)state;
    for (long i = 0; i < 60; i++)
        if (rocket_with((struct rocket_standin_settings){.fail_at = i,
                                                         .fail_errno = EINTR,
                                                         .fail_times = 2},
                        OPTIONS, &e) < 0)
            fail_msg("%ld: %s", i, e.text);
}

static void each_request_fails_with_words(void **state)
{
    static const int errors[] = {ENODEV, EBUSY, ENOMEM, EINVAL, ETIMEDOUT};
    (void)state;
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        int refused = 0;
        for (long i = 0; i < 60; i++) {
            struct error e = {0};
            struct rocket_standin_settings fails = {
                .fail_at = i, .fail_errno = errors[k], .fail_times = 1};
            if (rocket_with(fails, OPTIONS, &e) < 0) {
                refused++;
                assert_true(strlen(e.text) > 10);
            }
        }
        assert_true(refused > 20);
    }
}

static void what_it_cannot_do_is_said(void **state)
{
    float scores[DIGITS_SCORES];
    struct error e = {0};
    (void)state;
    rocket_standin_begin(&(struct rocket_standin_settings){0});
    assert_int_equal(digits_whole("rocket:,sram,compatible=", scores, &e), STATUS_PARAM_INVALID);
    assert_int_equal(digits_whole("rocket:/dev/accel/accel0,compatible=", scores, &e),
                     STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(e.text, "/dev/accel/accel0: No such file"));
    assert_int_equal(digits_of_chip("rk3576", OPTIONS, &e), STATUS_DEVICE_UNMATCH);
    assert_non_null(strstr(e.text, "RK3588 alone, and this is rk3576"));
    check_clean(rocket_standin_end());
}

static void dma_bufs_are_copied(void **state)
{
    struct digits_direct d, emulated;
    float scores[DIGITS_SCORES] = {0}, wanted[DIGITS_SCORES] = {1};
    struct error e = {0};
    (void)state;
    int status = digits_direct_init(&emulated, "emu:rk3588", &e);
    if (status == 0)
        status = digits_direct_run(&emulated, NULL, wanted, &e);
    digits_direct_done(&emulated);
    assert_int_equal(status, 0);
    rocket_standin_begin(&(struct rocket_standin_settings){0});
    status = digits_direct_init(&d, OPTIONS, &e);
    if (status == 0)
        status = digits_direct_run(&d, &d.buffer, scores, &e);
    digits_direct_done(&d);
    check_clean(rocket_standin_end());
    if (status < 0)
        fail_msg("%s", e.text);
    assert_memory_equal(scores, wanted, sizeof wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_right),
        cmocka_unit_test(a_whole_net_is_right),
        cmocka_unit_test(a_job_that_fails_says_how),
        cmocka_unit_test(a_signal_is_no_failure),
        cmocka_unit_test(each_request_fails_with_words),
        cmocka_unit_test(what_it_cannot_do_is_said),
        cmocka_unit_test(dma_bufs_are_copied),
    };
    return cmocka_run_group_tests(tests, digits_begin, digits_end);
}
