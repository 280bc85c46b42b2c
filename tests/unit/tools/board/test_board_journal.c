// What has begun is on the disk before it runs; what never ended is told by the next kit, whichever
// way the one before it ended.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/board/journal.h"

static char folder[] = "/tmp/rknnd-journal-XXXXXX", path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state/journal", folder);
    return 0;
}

static int clean_up(void **state)
{
    char inside[64];
    (void)state;
    unlink(path);
    snprintf(inside, sizeof inside, "%s/state", folder);
    rmdir(inside);
    return rmdir(folder);
}

static void add(const char *line)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(line, f);
    fclose(f);
}

static void open_again(struct journal *j)
{
    struct error e;
    journal_close(j);
    assert_cmp(journal_open(j, path, &e), ==, 0);
}

static void what_has_not_ended_is_told(void **state)
{
    (void)state;
    struct error e;
    struct journal j = {.fd = -1};
    open_again(&j);
    assert_cmp(journal_begin(&j, "rknpu", "conv", &e), ==, 0);
    assert_cmp(journal_end(&j, "rknpu", "conv", &e), ==, 0);
    assert_cmp(journal_begin(&j, "rknpu", "chain", &e), ==, 0);
    open_again(&j);
    assert_cmp(journal_past(&j, "rknpu", "conv"), ==, JOURNAL_CLEAR);
    assert_cmp(journal_past(&j, "rknpu", "chain"), ==, JOURNAL_CUT);
    assert_cmp(journal_past(&j, "rocket", "chain"), ==, JOURNAL_CLEAR);
    assert_cmp(journal_begin(&j, "rknpu", "chain", &e), ==, 0);
    assert_cmp(journal_end(&j, "rknpu", "chain", &e), ==, 0);
    open_again(&j);
    assert_cmp(journal_past(&j, "rknpu", "chain"), ==, JOURNAL_CLEAR);
    journal_close(&j);
}

static void another_boot_is_a_reboot(void **state)
{
    (void)state;
    struct journal j = {.fd = -1};
    json_t *words = json_array();
    open_again(&j);
    add("begin 00000000-0000-0000-0000-000000000000 rocket start\n"
        "begin 00000000-0000-0000-0000-000000000000 rocket2 half\nbegin cut off");
    open_again(&j);
    assert_cmp(journal_past(&j, "rocket", "start"), ==, JOURNAL_REBOOTED);
    journal_tell(&j, "rocket", words);
    assert_cmp(json_array_size(words), ==, 1);
    const char *text = json_string_value(json_array_get(words, 0));
    assert_non_null(strstr(text, "\"start\" was running on rocket, and the machine"));
    json_decref(words);
    journal_close(&j);
}

static void a_line_that_was_cut_off_swallows_none(void **state)
{
    (void)state;
    struct error e;
    struct journal j = {.fd = -1};
    open_again(&j);
    add("begin b rocket \nbegin b rocket half\nbegin b roc");
    open_again(&j);
    assert_cmp(journal_begin(&j, "rknpu", "conv", &e), ==, 0);
    open_again(&j);
    assert_cmp(journal_past(&j, "rknpu", "conv"), ==, JOURNAL_CUT);
    assert_cmp(journal_past(&j, "rocket", "half"), ==, JOURNAL_REBOOTED);
    assert_cmp(json_object_size(j.past), ==, 2);
    journal_close(&j);
}

static void old_lines_are_left_behind(void **state)
{
    (void)state;
    struct journal j = {.fd = -1};
    open_again(&j);
    add("begin b rknpu old\n");
    FILE *f = fopen(path, "a");
    for (int i = 0; i < 60000; i++)
        fputs("end b rknpu conv\n", f);
    fputs("begin b rknpu new\n", f);
    fclose(f);
    open_again(&j);
    assert_cmp(journal_past(&j, "rknpu", "new"), ==, JOURNAL_REBOOTED);
    journal_close(&j);
}

static void two_at_a_time_are_refused(void **state)
{
    (void)state;
    struct error e = {0};
    struct journal j = {.fd = -1}, other;
    open_again(&j);
    assert_cmp(journal_open(&other, path, &e), <, 0);
    assert_non_null(strstr(e.text, "another board-test is running"));
    journal_close(&other);
    journal_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_has_not_ended_is_told, set_up, clean_up),
        cmocka_unit_test_setup_teardown(another_boot_is_a_reboot, set_up, clean_up),
        cmocka_unit_test_setup_teardown(a_line_that_was_cut_off_swallows_none, set_up, clean_up),
        cmocka_unit_test_setup_teardown(old_lines_are_left_behind, set_up, clean_up),
        cmocka_unit_test_setup_teardown(two_at_a_time_are_refused, set_up, clean_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
