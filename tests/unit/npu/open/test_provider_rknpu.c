// The maker's kernel driver as seen by npu/open, without a kernel: every request of whole runs is
// held against tables of its own, in each version, and each request fails once in each way.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu/npu.h"
#include "tests/unit/npu/open/digits_case.h"
#include "tests/unit/npu/open/kernel_standin.h"

#define SHARED_NET "rknn/multiple_input_demo.rk3588.rknn"
#define OPTIONS    "rknpu:,heap=memfd,compatible="

static void check_clean(struct standin_counts c)
{
    assert_int_equal(c.wrong, 0);
    assert_true(c.imports <= c.kept);
    assert_int_equal(c.objects, c.kept);
    assert_int_equal(c.maps, 0);
    assert_int_equal(c.open_files, 0);
}

static int digits_with(struct standin_settings set, const char *options, struct error *e)
{
    float scores[DIGITS_SCORES] = {0}, untouched[DIGITS_SCORES] = {0};
    standin_begin(&set);
    int status = digits_whole(options, scores, e);
    check_clean(standin_end());
    if (status == 0)
        assert_memory_equal(scores, digits_expected(), sizeof scores);
    else if (!set.fail_times)
        assert_memory_equal(scores, untouched, sizeof scores);
    return status;
}

static void check_right(struct standin_settings set, const char *options)
{
    struct error e = {0};
    if (digits_with(set, options, &e) < 0)
        fail_msg("version %u: %s", set.version, e.text);
}

static void check_refused(struct standin_settings set, int code, const char *why)
{
    struct error e = {0};
    assert_int_equal(digits_with(set, OPTIONS, &e), code);
    if (!strstr(e.text, why))
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

// ---- versions ----

static const unsigned versions[] = {800, 802, 808, 809, 900, 902, 903, 905, 906, 907, 908};

static void all_versions_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        check_right((struct standin_settings){.version = versions[i]}, OPTIONS);
        check_right((struct standin_settings){.version = versions[i], .misc = true}, OPTIONS);
        check_right((struct standin_settings){.version = versions[i], .other_size = true}, OPTIONS);
        check_right((struct standin_settings){.version = versions[i], .domain = 3}, OPTIONS);
    }
}

static void other_versions_are_refused(void **state)
{
    static const struct {
        unsigned version;
        const char *words;
    } unknown[] = {{0, "version 0.0.0"},
                   {799, "version 0.7.99"},
                   {810, "version 0.8.10"},
                   {909, "version 0.9.9"},
                   {10000, "version 1.0.0"}};
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        check_refused((struct standin_settings){.version = unknown[i].version},
                      STATUS_DEVICE_UNMATCH, unknown[i].words);
}

// ---- cores ----

static void several_cores_are_right(void **state)
{
    static const uint32_t masks[] = {1, 2, 4, 3, 7};
    uint8_t *wanted;
    size_t n;
    unsigned left;
    struct error e = {0};
    (void)state;
    if (digits_shared("emu:rk3588", SHARED_NET, 1, &wanted, &n, &left, &e) < 0)
        fail_msg("%s", e.text);
    if (!wanted)
        skip();
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        uint8_t *found;
        standin_begin(&(struct standin_settings){.version = 908});
        if (digits_shared(OPTIONS, SHARED_NET, masks[i], &found, &n, &left, &e) < 0)
            fail_msg("cores %u: %s", masks[i], e.text);
        struct standin_counts c = standin_end();
        check_clean(c);
        assert_int_equal(c.cores, masks[i]);
        assert_memory_equal(found, wanted, n);
        free(found);
    }
    free(wanted);
}

// ---- devices ----

static void what_was_looked_for_is_said(void **state)
{
    struct error e = {0};
    float scores[DIGITS_SCORES];
    (void)state;
    check_refused((struct standin_settings){.version = 908, .denies_nodes = true},
                  STATUS_DEVICE_UNAVAILABLE, "that this process may open: Permission denied");
    standin_begin(&(struct standin_settings){.version = 908});
    assert_int_equal(digits_whole("rknpu:/dev/dri/card7,compatible=", scores, &e),
                     STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(e.text, "/dev/dri/card7: No such file"));
    assert_int_equal(digits_whole("rknpu:" STANDIN_DRM ",compatible=/nowhere", scores, &e),
                     STATUS_DEVICE_UNAVAILABLE);
    assert_int_equal(digits_whole("rknpu:,fast,compatible=", scores, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "\"fast\""));
    assert_int_equal(digits_whole("npu", scores, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "names no way"));
    check_clean(standin_end());
    check_right((struct standin_settings){.version = 908}, ",compatible=");
    check_right((struct standin_settings){.version = 908}, "rknpu:" STANDIN_DRM ",compatible=");
    check_right((struct standin_settings){.version = 908, .misc = true},
                "rknpu:/dev/rknpu,heap=memfd,compatible=");
}

static int note_path(void *owner, const char *path, enum npu_access access, struct error *e)
{
    char *all = owner;
    (void)e;
    snprintf(all + strlen(all), 400 - strlen(all), "%s%s ", access == NPU_ACCESS_DEVICE ? "+" : "",
             path);
    return 0;
}

static void the_sandbox_has_the_node_alone(void **state)
{
    char paths[400];
    struct error e = {0};
    (void)state;
    for (int misc = 0; misc < 2; misc++) {
        paths[0] = 0;
        standin_begin(&(struct standin_settings){.version = 908, .misc = misc});
        assert_int_equal(npu_backend.list_paths("rknpu:,compatible=/a", note_path, paths, &e), 0);
        check_clean(standin_end());
        assert_string_equal(paths,
                            misc ? "+/dev/rknpu +/dev/dma_heap /a " : "+" STANDIN_DRM " /a ");
    }
}

// ---- memory ----

static void memory_is_below_4_gb(void **state)
{
    (void)state;
    for (int low = 0; low < 2; low++)
        check_right(
            (struct standin_settings){.version = 908, .starts_high = true, .flag_means_low = low},
            OPTIONS);
    check_refused(
        (struct standin_settings){
            .version = 908, .starts_high = true, .flag_means_low = true, .misc = true},
        STATUS_MALLOC_FAIL, "below 4 GB");
}

static void memory_as_the_chip_has_it(void **state)
{
    (void)state;
    check_right((struct standin_settings){.version = 802, .no_iommu = true}, OPTIONS);
    check_refused((struct standin_settings){.version = 908, .lacks = 4096}, STATUS_MALLOC_FAIL,
                  "instead of");
    check_refused((struct standin_settings){.version = 908, .map_fails = true}, STATUS_MALLOC_FAIL,
                  "cannot be mapped");
    check_right((struct standin_settings){.version = 908}, "rknpu:,sram,compatible=");
}

static void sram_is_asked_for_by_name(void **state)
{
    float scores[DIGITS_SCORES];
    struct error e = {0};
    (void)state;
    for (int asked = 0; asked < 2; asked++) {
        standin_begin(&(struct standin_settings){.version = 908});
        assert_int_equal(
            digits_whole(asked ? "rknpu:,sram,compatible=" : "rknpu:,compatible=", scores, &e), 0);
        struct standin_counts c = standin_end();
        check_clean(c);
        assert_int_equal(c.sram != 0, asked);
    }
}

// ---- memory of programs ----

// What the emulator gives of the picture, with a copy.
static void expect_direct(float scores[DIGITS_SCORES])
{
    struct digits_direct d;
    struct error e = {0};
    int status = digits_direct_init(&d, "emu:rk3588", &e);
    if (status == 0)
        status = digits_direct_run(&d, NULL, scores, &e);
    digits_direct_done(&d);
    if (status < 0)
        fail_msg("%s", e.text);
}

static void check_run(struct digits_direct *d, const struct npu_buffer *b)
{
    float scores[DIGITS_SCORES] = {0}, wanted[DIGITS_SCORES];
    struct error e = {0};
    expect_direct(wanted);
    if (digits_direct_run(d, b, scores, &e) < 0)
        fail_msg("%s", e.text);
    assert_memory_equal(scores, wanted, sizeof wanted);
}

// How often the picture is in the driver's own memory after a run with it as a dma-buf.
static unsigned count_copies(struct standin_settings set)
{
    struct digits_direct d;
    struct error e = {0};
    float unused[DIGITS_SCORES];
    expect_direct(unused); // before the stand-in takes the kernel's place
    standin_begin(&set);
    if (digits_direct_init(&d, OPTIONS, &e) < 0)
        fail_msg("%s", e.text);
    standin_watch(d.buffer.fd, d.buffer.map + DIGITS_PICTURE, DIGITS_PICTURE);
    for (int i = 0; i < 2; i++)
        check_run(&d, &d.buffer);
    unsigned copies = standin_copies();
    npu_backend.buffer_gone(d.s.device, &d.buffer);
    check_run(&d, NULL);
    assert_int_equal(standin_copies(), 1);
    standin_watch(-1, NULL, 0);
    digits_direct_done(&d);
    check_clean(standin_end());
    return copies;
}

static void nothing_of_a_dma_buf_is_copied(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        for (int misc = 0; misc < 2; misc++)
            assert_int_equal(
                count_copies((struct standin_settings){.version = versions[i], .misc = misc}), 0);
}

static void what_cannot_stay_is_copied(void **state)
{
    const struct standin_settings cases[] = {
        {.version = 908, .no_iommu = true},
        {.version = 908, .domain = 3},
        {.version = 908, .ignores_handles = true},
        {.version = 908, .starts_high = true, .flag_means_low = true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(count_copies(cases[i]), 1);
}

// The kernel gives one handle for one file.
static void two_buffers_of_one_file(void **state)
{
    struct digits_direct d;
    struct error e = {0};
    (void)state;
    standin_begin(&(struct standin_settings){.version = 908});
    if (digits_direct_init(&d, OPTIONS, &e) < 0)
        fail_msg("%s", e.text);
    struct npu_buffer other = d.buffer;
    standin_watch(d.buffer.fd, d.buffer.map + DIGITS_PICTURE, DIGITS_PICTURE);
    check_run(&d, &d.buffer);
    check_run(&d, &other);
    npu_backend.buffer_gone(d.s.device, &d.buffer);
    check_run(&d, &other);
    assert_int_equal(standin_copies(), 0);
    standin_watch(-1, NULL, 0);
    npu_backend.buffer_gone(d.s.device, &other);
    npu_backend.buffer_gone(d.s.device, &other); // nothing more
    digits_direct_done(&d);
    check_clean(standin_end());
}

// Each request of a run with a dma-buf fails once: the tensor is copied, or the run has words.
static void imports_that_fail(void **state)
{
    int right = 0, refused = 0;
    float wanted[DIGITS_SCORES];
    (void)state;
    expect_direct(wanted);
    for (int misc = 0; misc < 2; misc++)
        for (long i = 0; i < 40; i++) {
            struct digits_direct d;
            float scores[DIGITS_SCORES] = {0};
            struct error e = {0};
            standin_begin(&(struct standin_settings){
                .version = 908, .misc = misc, .fail_at = i, .fail_errno = ENOMEM, .fail_times = 1});
            int status = digits_direct_init(&d, OPTIONS, &e);
            if (status == 0)
                status = digits_direct_run(&d, &d.buffer, scores, &e);
            if (status == 0)
                assert_memory_equal(scores, wanted, sizeof wanted);
            else
                assert_true(strlen(e.text) > 10);
            right += status == 0;
            refused += status < 0;
            digits_direct_done(&d);
            check_clean(standin_end());
        }
    assert_true(right > 10 && refused > 20);
}

static int go_on(struct npu_slices *slices, struct error *e)
{
    (void)slices;
    (void)e;
    return 0;
}

// Copies and syncs are those of inputs, outputs and the CPU's nodes, however many segments.
static void segments_copy_nothing(void **state)
{
    static const atomic_bool never;
    struct npu_slices slices = {.us = 1, .wanted = &never, .wait = go_on};
    struct digits_direct d;
    struct error e = {0};
    struct standin_counts c[3];
    float scores[DIGITS_SCORES];
    (void)state;
    standin_begin(&(struct standin_settings){.version = 908});
    if (digits_direct_init(&d, OPTIONS, &e) < 0)
        fail_msg("%s", e.text);
    c[0] = standin_counts();
    for (int i = 1; i < 3; i++) {
        d.s.slices = i == 2 ? &slices : NULL;
        if (digits_direct_run(&d, NULL, scores, &e) < 0)
            fail_msg("%s", e.text);
        c[i] = standin_counts();
    }
    digits_direct_done(&d);
    check_clean(standin_end());
    assert_int_equal(c[1].submits - c[0].submits, 1);
    assert_true(c[2].submits - c[1].submits >= 4);
    assert_int_equal(c[2].syncs - c[1].syncs, c[1].syncs - c[0].syncs);
    assert_int_equal(c[2].synced - c[1].synced, c[1].synced - c[0].synced);
    assert_int_equal(c[2].objects, c[0].objects);
}

// ---- failures ----

static void a_signal_is_no_failure(void **state)
{
    (void)state;
    for (long i = 0; i < 40; i++) {
        check_right(
            (struct standin_settings){
                .version = 908, .fail_at = i, .fail_errno = EINTR, .fail_times = 3},
            OPTIONS);
        check_right(
            (struct standin_settings){
                .version = 805, .misc = true, .fail_at = i, .fail_errno = EAGAIN, .fail_times = 1},
            OPTIONS);
    }
}

// Each request fails once. Some failures are lived with, as those of a question about SRAM.
static void each_request_fails_with_words(void **state)
{
    static const int errors[] = {ENODEV, EBUSY, ENOMEM, EFAULT, ETIMEDOUT, EACCES};
    (void)state;
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        for (int misc = 0; misc < 2; misc++) {
            int refused = 0;
            for (long i = 0; i < 40; i++) {
                struct error e = {0};
                struct standin_settings set = {.version = 907,
                                               .misc = misc,
                                               .fail_at = i,
                                               .fail_errno = errors[k],
                                               .fail_times = 1};
                if (digits_with(set, OPTIONS, &e) < 0) {
                    refused++;
                    assert_true(strlen(e.text) > 10);
                }
            }
            assert_true(refused > 10);
        }
}

static void a_job_that_fails_says_how(void **state)
{
    static const struct {
        int error, code;
        const char *words;
    } ways[] = {{ETIMEDOUT, STATUS_TIMEOUT, "did not end its tasks in time"},
                {EBUSY, STATUS_FAIL, "Device or resource busy"},
                {ENODEV, STATUS_DEVICE_UNAVAILABLE, "No such device"},
                {EINVAL, STATUS_FAIL, "tasks were not run"}};
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        check_refused((struct standin_settings){.version = 908, .submit_errno = ways[i].error},
                      ways[i].code, ways[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_versions_are_right),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(several_cores_are_right),
        cmocka_unit_test(what_was_looked_for_is_said),
        cmocka_unit_test(the_sandbox_has_the_node_alone),
        cmocka_unit_test(memory_is_below_4_gb),
        cmocka_unit_test(memory_as_the_chip_has_it),
        cmocka_unit_test(sram_is_asked_for_by_name),
        cmocka_unit_test(nothing_of_a_dma_buf_is_copied),
        cmocka_unit_test(what_cannot_stay_is_copied),
        cmocka_unit_test(two_buffers_of_one_file),
        cmocka_unit_test(imports_that_fail),
        cmocka_unit_test(segments_copy_nothing),
        cmocka_unit_test(a_signal_is_no_failure),
        cmocka_unit_test(each_request_fails_with_words),
        cmocka_unit_test(a_job_that_fails_says_how),
    };
    return cmocka_run_group_tests(tests, digits_begin, digits_end);
}
