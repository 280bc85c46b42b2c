// Folders are made with those above them; what is there stays; what cannot be made is named. And
// where the program rknnd is looked for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file/find_daemon.h"
#include "base/file/folder.h"

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

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode : 0;
}

static void makes_those_above(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(folder_make("a/b//c", 0755, 0700, &e), 0);
    assert_int_equal(mode_of("a"), S_IFDIR | 0755);
    assert_int_equal(mode_of("a/b"), S_IFDIR | 0755);
    assert_int_equal(mode_of("a/b/c"), S_IFDIR | 0700);
    assert_int_equal(folder_make("a/b/c/", 0755, 0755, &e), 0);
    assert_int_equal(mode_of("a/b/c"), S_IFDIR | 0700); // as it was
    assert_int_equal(folder_make_above("x/y/file", 0700, &e), 0);
    assert_int_equal(mode_of("x/y"), S_IFDIR | 0700);
    assert_int_equal(mode_of("x/y/file"), 0);
    assert_int_equal(folder_make_above("file", 0700, &e), 0);
    assert_int_equal(folder_make_above("/file", 0700, &e), 0);
}

static void tells_what_cannot_be_made(void **state)
{
    (void)state;
    struct error e;
    close(open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(folder_make("file/below", 0755, 0700, &e), STATUS_FAIL);
    assert_string_equal(e.text, "file is no folder");
    assert_int_equal(folder_make("file", 0755, 0700, &e), STATUS_FAIL);
    assert_string_equal(e.text, "file is no folder");
    assert_int_equal(symlink("nowhere", "link"), 0);
    assert_int_equal(folder_make("link/below", 0755, 0700, &e), STATUS_FAIL);
    assert_string_equal(e.text, "the folder link cannot be made: File exists");
    assert_int_equal(folder_make("/proc/none/below", 0755, 0700, &e), STATUS_FAIL);
    assert_string_equal(e.text, "the folder /proc/none cannot be made: No such file or directory");
    assert_int_equal(folder_make("/proc/self", 0755, 0700, &e), 0); // which takes no folder
}

static void opens_what_a_file_is_in(void **state)
{
    (void)state;
    const char *const files[][2] = {{"d/file", "d"}, {"file", "."}, {"/file", "/"}};
    struct error e;
    size_t n = sizeof files / sizeof *files;
    assert_int_equal(folder_make("d", 0755, 0700, &e), 0);
    if (getenv("QEMU_LD_PREFIX")) {
        print_message("skipped: / is that of QEMU's prefix for open() alone (user mode)\n");
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        struct stat is, expected;
        cleanup(fd_close_p) int fd = folder_open_of(files[i][0], &e);
        assert_int_equal(fstat(fd, &is) | stat(files[i][1], &expected), 0);
        assert_int_equal(is.st_ino, expected.st_ino);
    }
    assert_int_equal(folder_open_of("none/file", &e), STATUS_FAIL);
}

static void make_program(const char *path)
{
    struct error e;
    assert_int_equal(folder_make_above(path, 0755, &e), 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700));
}

// As RKNND_DAEMON says, beside the program, in the library's installation, in PATH; else words.
static void finds_the_daemon(void **state)
{
    (void)state;
    char path[PATH_MAX];
    struct error e;
    const char *old = getenv("PATH");
    cleanup(free_p) char *before = strdup(old ? old : "");
    unsetenv("RKNND_DAEMON");
    setenv("PATH", "/none::path", 1);
    assert_int_equal(find_daemon("i/lib/rknnd/client/librknnrt.so", path, &e),
                     STATUS_DEVICE_UNAVAILABLE);
    make_program("path/rknnd");
    assert_int_equal(find_daemon(NULL, path, &e), 0);
    assert_string_equal(path, "path/rknnd");
    make_program("i/bin/rknnd");
    make_program("i/lib/rknnd/client/librknnrt.so");
    assert_int_equal(find_daemon("i/lib/rknnd/client/librknnrt.so", path, &e), 0);
    assert_string_equal(path, "i/lib/rknnd/client/../../../bin/rknnd");
    assert_int_equal(find_daemon("i/bin/rknnctl", path, &e), 0);
    assert_string_equal(path, "i/bin/rknnd");
    setenv("RKNND_DAEMON", "/some/other", 1);
    assert_int_equal(find_daemon("i/bin/rknnctl", path, &e), 0);
    assert_string_equal(path, "/some/other");
    setenv("PATH", before, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(makes_those_above),
        TEST(tells_what_cannot_be_made),
        TEST(opens_what_a_file_is_in),
        TEST(finds_the_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
