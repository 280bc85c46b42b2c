// A log line is one line, whatever is in it, and reaches the level that was set.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
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
    static const char *const wrong[] = {"6", "-1", "33", "debug", "3 "};
    log_set_level(LOG_WARN);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(log_set_level_text(wrong[i]));
    assert_true(log_set_level_text("") && log_set_level_text(NULL));
    assert_int_equal(log_level_now(), LOG_WARN);
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
    assert_true(strstr(text, "forged") < first_end);
    assert_null(strchr(text, '\033'));
    assert_true(strlen(first_end + 1) <= 1024);
    assert_ptr_equal(strchr(first_end + 1, '\n'), text + strlen(text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(levels_filter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_levels_are_levels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_stay_one_line, set_up, tear_down),
    };
    unsetenv("JOURNAL_STREAM");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
