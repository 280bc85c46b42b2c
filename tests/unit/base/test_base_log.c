// A log line is one line, whatever is in it, and reaches the level that was set.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

static char text[4096];
static int saved_stderr, file;

static int set_up(void **state)
{
    (void)state;
    file = fd_memory("log", 0, NULL);
    saved_stderr = dup(STDERR_FILENO);
    return file < 0 || dup2(file, STDERR_FILENO) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    dup2(saved_stderr, STDERR_FILENO);
    fd_close(saved_stderr);
    fd_close(file);
    return 0;
}

static const char *written(void)
{
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static void levels_filter(void **state)
{
    (void)state;
    int evaluated = 0;
    assert_true(log_set_level_text("3"));
    log_info("shown %d", ++evaluated);
    log_debug("hidden %d", ++evaluated);
    assert_int_equal(evaluated, 1);
    assert_non_null(strstr(written(), " I shown 1\n"));
    assert_null(strstr(written(), "hidden"));
}

static void only_levels_are_levels(void **state)
{
    (void)state;
    static const char *const wrong[] = {"6", "-1", "33", "Debug", "debugs", "warning", "3 "};
    log_set_level(LOG_WARN);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(log_set_level_text(wrong[i]));
    assert_true(log_set_level_text(""));
    assert_true(log_set_level_text(NULL));
    assert_int_equal(log_level_now(), LOG_WARN);
}

static void levels_have_names(void **state)
{
    static const char *const names[] = {"silent", "error", "warn", "info", "debug", "trace"};
    (void)state;
    for (int i = LOG_SILENT; i <= LOG_TRACE; i++) {
        assert_true(log_set_level_text(names[i]));
        assert_int_equal(log_level_now(), i);
        assert_non_null(strstr(LOG_LEVELS, names[i]));
    }
}

// time() is some milliseconds behind the clock that lines have their time from.
static time_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

// ISO 8601 with the zone; journald, whose lines begin with a level in brackets, has its own.
static void lines_have_a_date(void **state)
{
    static const char *const zones[][2] = {
        {"UTC0", "+00:00"}, {"XXX-5:30", "+05:30"}, {"YYY3", "-03:00"}};
    (void)state;
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        char zone[8];
        int year, month, day, hour, minute, second, ms, end = 0;
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(lseek(file, 0, SEEK_SET), 0);
        setenv("TZ", zones[i][0], 1);
        tzset();
        time_t before = seconds_now();
        log_error("words");
        time_t after = seconds_now();
        int n = sscanf(written(), "%4d-%2d-%2dT%2d:%2d:%2d.%3d%6s E words%n", &year, &month, &day,
                       &hour, &minute, &second, &ms, zone, &end);
        assert_int_equal(n, 8);
        assert_string_equal(text + end, "\n");
        assert_string_equal(zone, zones[i][1]);
        struct tm parts = {.tm_year = year - 1900,
                           .tm_mon = month - 1,
                           .tm_mday = day,
                           .tm_hour = hour,
                           .tm_min = minute,
                           .tm_sec = second};
        time_t told = mktime(&parts);
        assert_cmp(told, >=, before);
        assert_cmp(told, <=, after);
    }
}

// It would wait for ever.
static void a_full_pipe_costs_lines(void **state)
{
    static char all[1 << 20];
    char filler[4096] = {0};
    int ends[2];
    size_t size = 0;
    (void)state;
    log_set_level(LOG_INFO);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], filler, sizeof filler) > 0)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_never_wait();
    log_info("lost");
    log_info("lost, too");
    while (read(ends[0], filler, sizeof filler) > 0)
        continue;
    log_info("there");
    log_info("again");
    dup2(file, STDERR_FILENO);
    for (ssize_t n; (n = read(ends[0], all + size, sizeof all - 1 - size)) > 0;)
        size += (size_t)n;
    close(ends[0]);
    assert_null(strstr(all, "lost"));
    assert_int_equal(log_n_left_out(), 2);
    const char *told = strstr(all, " W 2 lines were left out");
    assert_non_null(told);
    const char *there = strstr(told, " I there\n");
    assert_non_null(there);
    assert_null(strstr(there, "left out"));
}

static void lines_stay_one_line(void **state)
{
    (void)state;
    char longer[2000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    errno = EAGAIN;
    log_error("a client called \"x\n00:00:00.000 E \033[31mforged\"");
    log_error("%s", longer);
    assert_int_equal(errno, EAGAIN);
    const char *first_end = strchr(written(), '\n');
    assert_non_null(strstr(text, "forged"));
    assert_cmp(strstr(text, "forged"), <, first_end);
    assert_null(strchr(text, '\033'));
    assert_cmp(strlen(first_end + 1), <=, 1024);
    assert_ptr_equal(strchr(first_end + 1, '\n'), text + strlen(text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(levels_filter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_levels_are_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(levels_have_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_have_a_date, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_pipe_costs_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_stay_one_line, set_up, tear_down),
    };
    unsetenv("JOURNAL_STREAM");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
