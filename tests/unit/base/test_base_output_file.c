// Files that are written whole or not at all, in a folder that others may write to, too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"

static char root[64];

static int set_up(void **state)
{
    (void)state;
    umask(022);
    strcpy(root, "/tmp/rknnd-test-XXXXXX");
    return mkdtemp(root) && chdir(root) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return chdir("/") == 0 ? system(command) : -1;
}

static void write_file(const char *path, const char *text)
{
    cleanup(output_file_drop) struct output_file o = {0};
    struct error e;
    assert_int_equal(output_file_open(&o, path, &e), 0);
    assert_true(fputs(text, o.stream) >= 0);
    assert_int_equal(output_file_close(&o, &e), 0);
}

static void expect_text(const char *path, const char *text)
{
    char got[32] = {0};
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_true(fread(got, 1, sizeof got - 1, f) < sizeof got);
    assert_string_equal(got, text);
}

// Who knows the process's number could have put a link where a name made of it was.
static void no_link_of_others_is_followed(void **state)
{
    char guessed[64];
    (void)state;
    snprintf(guessed, sizeof guessed, "out.%ld.tmp", (long)getpid());
    cleanup(fd_close_p) int fd = creat("victim", 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    assert_int_equal(symlink("victim", guessed), 0);
    write_file("out", "new");
    expect_text("victim", "precious");
    expect_text("out", "new");
}

static void names_are_drawn_anew(void **state)
{
    cleanup(free_p) char *target = NULL, *first = NULL, *other = NULL, *second = NULL;
    struct error e;
    (void)state;
    assert_int_equal(output_file_names("file", &target, &first, &e), 0);
    assert_int_equal(output_file_names("file", &other, &second, &e), 0);
    assert_string_equal(target, "file");
    assert_string_not_equal(first, second);
    assert_int_equal(strncmp(first, "file.", 5), 0);
    assert_string_equal(first + strlen(first) - 4, ".tmp");
}

static void a_file_that_is_replaced_keeps_its_mode(void **state)
{
    struct stat st;
    (void)state;
    write_file("file", "a");
    assert_int_equal(stat("file", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_int_equal(chmod("file", 0640), 0);
    write_file("file", "b");
    assert_int_equal(stat("file", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    expect_text("file", "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_link_of_others_is_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_drawn_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_replaced_keeps_its_mode, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
