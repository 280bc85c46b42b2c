// Stored models on the disk: what is there after a process was killed, or a call failed, before any
// call of a change; and that what is renamed into its place has reached the disk first. The calls
// of the linked objects go through __wrap_… below (LINKER:--wrap).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "server/shelf/shelf_disk.h"

#define MAX_CALLS 400
#define MAX_FDS   1024

// ---- calls that are counted ---------------------------------------------------------------------

static struct {
    unsigned n, kill_at, fail_at; // 0: never
    int error;                    // of the one that fails
    bool watch;
    bool unsynced[MAX_FDS]; // written, and not synced
    bool renamed_unsynced;  // while something was
    bool folder_unsynced;   // something was renamed since the last sync
} calls;

// True: this one fails.
static bool count_call(void)
{
    if (++calls.n == calls.kill_at)
        kill(getpid(), SIGKILL);
    if (calls.n != calls.fail_at)
        return false;
    errno = calls.error;
    return true;
}

static bool any_unsynced(void)
{
    for (size_t i = 0; i < MAX_FDS; i++)
        if (calls.unsynced[i])
            return true;
    return false;
}

#define WRAPPED(type, name, ...)                                                                   \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(ssize_t, write, int fd, const void *bytes, size_t size)
{
    if (count_call())
        return -1;
    if (calls.watch)
        calls.unsynced[fd] = true;
    return __real_write(fd, bytes, size);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    if (count_call())
        return -1;
    calls.unsynced[fd] = false;
    calls.folder_unsynced = false;
    return 0; // which is sooner: there is no power failure here
}

WRAPPED(int, renameat, int from, const char *a, int to, const char *b)
{
    if (count_call())
        return -1;
    calls.renamed_unsynced = calls.renamed_unsynced || any_unsynced();
    calls.folder_unsynced = true;
    return __real_renameat(from, a, to, b);
}

WRAPPED(int, mkdirat, int in, const char *name, mode_t mode)
{
    return count_call() ? -1 : __real_mkdirat(in, name, mode);
}

WRAPPED(int, unlinkat, int in, const char *name, int flags)
{
    return count_call() ? -1 : __real_unlinkat(in, name, flags);
}

WRAPPED(int, fallocate, int fd, int mode, off_t at, off_t size)
{
    return count_call() ? -1 : __real_fallocate(fd, mode, at, size);
}

int __real_openat(int in, const char *name, int flags, ...);
int __wrap_openat(int in, const char *name, int flags, ...);
int __wrap_openat(int in, const char *name, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return count_call() ? -1 : __real_openat(in, name, flags, mode);
}

// ---- a store ------------------------------------------------------------------------------------

static char folder[] = "/tmp/test-shelf-XXXXXX";

static char place[64]; // of the store at present

static int fresh_store(void)
{
    static unsigned n;
    struct error e;
    int root;
    snprintf(place, sizeof place, "%s/%u", folder, n++);
    assert_cmp(shelf_open(place, &root, &e), ==, 0);
    return root;
}

static int put(int root, const char *name, const char *version, uint8_t byte, size_t size,
               struct stored *ret, struct error *e)
{
    static const char description[] = "{\"chip\": \"rk3588\", \"inputs\": [{\"name\": \"x\", "
                                      "\"shape\": [4, 3]}], \"outputs\": []}";
    void *map;
    cleanup(fd_close_p) int fd = fd_memory_sealed("model", size, 0, &map, e);
    assert_cmp(fd, >=, 0);
    memset(map, byte, size);
    struct shelf_put p = {.name = name,
                          .version = version,
                          .manifest = {.size = size, .file = "a.rknn", .owner = "alice"},
                          .labels = {(const uint8_t *)"cat\ndog\n", 8},
                          .description = {(const uint8_t *)description, sizeof description - 1},
                          .fd = fd};
    assert_cmp(sha256(map, size, p.manifest.sha256, e), ==, 0);
    munmap(map, size);
    return shelf_put(root, &p, ret, e);
}

// The first byte of the model that the name means; -1: none, and then nothing is in the list.
static int what_is(int root, const char *name, const char *version)
{
    struct stored s;
    struct error e;
    uint8_t byte;
    int fd;
    if (shelf_find(root, name, version, &s, NULL, &e) < 0)
        return -1;
    assert_cmp(shelf_load(root, &s, &fd, &e), ==, 0); // the hash is right
    assert_cmp(pread(fd, &byte, 1, 0), ==, 1);
    close(fd);
    return byte;
}

static size_t count_stored(int root)
{
    struct stored *all;
    struct error e;
    size_t n;
    assert_cmp(shelf_list(root, &all, &n, &e), ==, 0);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(all[i].problem, "");
    free(all);
    return n;
}

// What was left half-done.
static unsigned count_left(void)
{
    DIR *d = opendir(place);
    const struct dirent *entry;
    unsigned n = 0;
    assert_non_null(d);
    while ((entry = readdir(d)))
        n += strncmp(entry->d_name, ".new", 4) == 0 || strncmp(entry->d_name, ".gone", 5) == 0;
    closedir(d);
    return n;
}

// ---- changes ------------------------------------------------------------------------------------

static int change_push(int root, struct error *e)
{
    struct stored s;
    return put(root, "net", "2", 2, 70000, &s, e);
}

static int change_first(int root, struct error *e)
{
    struct stored s;
    return put(root, "other", "", 3, 5, &s, e);
}

static int change_remove(int root, struct error *e)
{
    return shelf_remove(root, "net", "1", e);
}

static int change_remove_all(int root, struct error *e)
{
    return shelf_remove(root, "net", "", e);
}

static int change_default(int root, struct error *e)
{
    return shelf_set_default(root, "net", "1", e);
}

// `before` and `after`: what net means, net@1, net@2 and other, -1: nothing.
static const struct change {
    const char *name;
    int (*run)(int root, struct error *e);
    bool second; // there is net@2 before
    int before[4], after[4];
} changes[] = {
    {"push", change_push, false, {1, 1, -1, -1}, {2, 1, 2, -1}},
    {"push of a new name", change_first, false, {1, 1, -1, -1}, {1, 1, -1, 3}},
    {"remove", change_remove, true, {2, 1, 2, -1}, {2, -1, 2, -1}},
    {"remove all", change_remove_all, true, {2, 1, 2, -1}, {-1, -1, -1, -1}},
    {"default", change_default, true, {2, 1, 2, -1}, {1, 1, 2, -1}},
};

#define N_CHANGES (sizeof changes / sizeof *changes)

static bool is_state(int root, const int state[4])
{
    return what_is(root, "net", "") == state[0] && what_is(root, "net", "1") == state[1] &&
           what_is(root, "net", "2") == state[2] && what_is(root, "other", "") == state[3];
}

static int store_before(const struct change *c)
{
    struct stored s;
    struct error e;
    calls.kill_at = calls.fail_at = 0;
    int root = fresh_store();
    assert_cmp(root, >=, 0);
    assert_cmp(put(root, "net", "", 1, 1000, &s, &e), ==, 0);
    assert_string_equal(s.version, "1");
    if (c->second)
        assert_cmp(put(root, "net", "2", 2, 70000, &s, &e), ==, 0);
    assert_true(is_state(root, c->before));
    return root;
}

// What a crash, or a failure, has left is one of the two; and going on from there leads to the end.
static void check_afterwards(const struct change *c, int root, unsigned n)
{
    struct error e;
    bool done = is_state(root, c->after);
    if (!done && !is_state(root, c->before))
        fail_msg("%s, call %u: neither what was nor what should be", c->name, n);
    assert_cmp(shelf_clean(root, &e), ==, 0);
    assert_cmp(count_left(), ==, 0);
    assert_true(is_state(root, done ? c->after : c->before));
    int r = c->run(root, &e);
    if (!done)
        assert_cmp(r, ==, 0);
    assert_true(is_state(root, c->after));
    assert_cmp(count_left(), ==, 0);
    count_stored(root);
}

// ---- tests --------------------------------------------------------------------------------------

// True: the change came to its end before the n-th call.
static bool kill_before(const struct change *c, int root, unsigned n)
{
    struct error e;
    int status;
    pid_t child = fork();
    assert_cmp(child, >=, 0);
    if (child == 0) {
        calls.n = 0;
        calls.kill_at = n;
        _exit(c->run(root, &e) == 0 ? 0 : 1);
    }
    assert_cmp(waitpid(child, &status, 0), ==, child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

static void killed_before_each_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CHANGES; i++) {
        bool done = false;
        unsigned n;
        for (n = 1; !done && n < MAX_CALLS; n++) {
            cleanup(fd_close_p) int root = store_before(&changes[i]);
            done = kill_before(&changes[i], root, n);
            check_afterwards(&changes[i], root, n);
        }
        assert_true(done);
        assert_cmp(n, >, 5); // there were some
    }
}

static void each_call_fails(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EROFS, EIO};
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
        for (size_t i = 0; i < N_CHANGES; i++)
            for (unsigned n = 1;; n++) {
                struct error e = {0};
                cleanup(fd_close_p) int root = store_before(&changes[i]);
                calls.n = 0;
                calls.fail_at = n;
                calls.error = errors[k];
                int r = changes[i].run(root, &e);
                bool reached = calls.n >= n;
                calls.fail_at = 0;
                assert_true(r == 0 || *e.text);
                check_afterwards(&changes[i], root, n);
                if (!reached)
                    break;
            }
}

static void synced_before_renamed(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CHANGES; i++) {
        struct error e;
        cleanup(fd_close_p) int root = store_before(&changes[i]);
        memset(&calls, 0, sizeof calls);
        calls.watch = true;
        assert_cmp(changes[i].run(root, &e), ==, 0);
        assert_false(calls.renamed_unsynced);
        assert_false(calls.folder_unsynced);
        calls.watch = false;
    }
}

static void versions(void **state)
{
    (void)state;
    struct stored s;
    struct error e;
    cleanup(fd_close_p) int root = fresh_store();
    assert_cmp(put(root, "net", "", 1, 10, &s, &e), ==, 0);
    assert_cmp(put(root, "net", "3", 2, 10, &s, &e), ==, 0);
    assert_cmp(put(root, "net", "", 3, 10, &s, &e), ==, 0); // its third: the number is taken
    assert_string_equal(s.version, "4");
    assert_cmp(put(root, "net", "v1.2-rc_1", 4, 10, &s, &e), ==, 0);
    assert_cmp(what_is(root, "net", ""), ==, 4);
    assert_cmp(put(root, "net", "3", 2, 10, &s, &e), ==, 0); // the same bytes: nothing to do
    assert_cmp(put(root, "net", "3", 9, 10, &s, &e), ==, STATUS_PARAM_INVALID);
    assert_cmp(count_stored(root), ==, 4);
    assert_cmp(shelf_set_default(root, "net", "3", &e), ==, 0);
    assert_cmp(put(root, "net", "", 5, 10, &s, &e), ==, 0);
    assert_cmp(what_is(root, "net", ""), ==, 2); // what was chosen stays
    assert_cmp(shelf_remove(root, "net", "3", &e), ==, STATUS_PARAM_INVALID);
    assert_cmp(shelf_set_default(root, "net", "nix", &e), ==, STATUS_MODEL_INVALID);
    assert_cmp(shelf_set_default(root, "net", "", &e), ==, 0);
    assert_cmp(what_is(root, "net", ""), ==, 5);
    assert_cmp(s.manifest.batch, ==, 4);
    assert_cmp(s.manifest.n_labels, ==, 2);
    assert_string_equal(s.manifest.chip, "rk3588");
}

static void limits(void **state)
{
    (void)state;
    struct stored s;
    struct error e;
    uint8_t bytes[100] = {0};
    void *map;
    cleanup(fd_close_p) int root = fresh_store();
    cleanup(fd_close_p) int fd = fd_memory_sealed("model", sizeof bytes, 0, &map, &e);
    struct shelf_put p = {.name = "a",
                          .version = "",
                          .manifest = {.size = sizeof bytes, .owner = "bob"},
                          .description = {(const uint8_t *)"{}", 2},
                          .fd = fd};
    assert_cmp(sha256(map, sizeof bytes, p.manifest.sha256, &e), ==, 0);
    munmap(map, sizeof bytes);
    assert_cmp(put(root, "alices", "", 1, 150, &s, &e), ==, 0);
    p.limits = (struct shelf_limits){.owner = 100, .all = 249};
    assert_cmp(shelf_put(root, &p, &s, &e), ==, STATUS_MALLOC_FAIL);
    assert_non_null(strstr(e.text, "limit stored"));
    p.limits.all = 250;
    assert_cmp(shelf_put(root, &p, &s, &e), ==, 0);
    p.limits.all = 0;
    assert_cmp(shelf_put(root, &p, &s, &e), ==, STATUS_MALLOC_FAIL);
    assert_non_null(strstr(e.text, "quota stored"));
}

// What somebody has put there, or changed, is told, and not followed.
static void strange_folders(void **state)
{
    (void)state;
    struct stored s, *all;
    struct error e;
    size_t n;
    int fd;
    cleanup(fd_close_p) int root = fresh_store();
    assert_cmp(put(root, "net", "", 1, 10, &s, &e), ==, 0);
    assert_cmp(symlinkat("/etc", root, "link"), ==, 0);
    assert_cmp(symlinkat("1", openat(root, "net", O_DIRECTORY), "5"), ==, 0);
    assert_cmp(mkdirat(root, "net/6", 0700), ==, 0);
    assert_cmp(mkdirat(root, "empty", 0700), ==, 0);
    assert_cmp(mkdirat(root, "not a name", 0700), ==, 0);
    assert_cmp(shelf_list(root, &all, &n, &e), ==, 0);
    assert_cmp(n, ==, 4);
    for (size_t i = 0; i < n; i++)
        assert_true(strcmp(all[i].version, "1") == 0 ? !*all[i].problem : *all[i].problem);
    free(all);
    assert_cmp(what_is(root, "net", ""), ==, 1);
    fd = openat(root, "net/1/model", O_WRONLY);
    assert_cmp(pwrite(fd, "x", 1, 3), ==, 1);
    close(fd);
    assert_cmp(shelf_find(root, "net", "1", &s, NULL, &e), ==, 0);
    assert_cmp(shelf_load(root, &s, &fd, &e), ==, STATUS_MODEL_INVALID);
    assert_non_null(strstr(e.text, "SHA-256"));
    assert_cmp(shelf_remove(root, "net", "5", &e), ==, 0); // the link, not what it names
    assert_cmp(shelf_find(root, "net", "1", &s, NULL, &e), ==, 0);
}

static void names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "yolo.v5-n_640", "1", "Z9"};
    static const char *const bad[] = {"",
                                      ".",
                                      "..",
                                      "../a",
                                      "a/b",
                                      ".a",
                                      "-a",
                                      "a b",
                                      "a\nb",
                                      "a\\b",
                                      "\xc3\xa9t\xc3\xa9",
                                      "a@1",
                                      "a:b",
                                      "\x7f",
                                      "a\xff",
                                      "%2e%2e"};
    char longest[SHELF_NAME_SIZE + 1];
    memset(longest, 'a', sizeof longest);
    longest[SHELF_NAME_SIZE] = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(shelf_is_name(good[i]) && shelf_is_version(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(shelf_is_name(bad[i]) || shelf_is_version(bad[i]));
    assert_false(shelf_is_name(longest));
    longest[SHELF_NAME_SIZE - 1] = 0;
    assert_true(shelf_is_name(longest));
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_cmp(system(command), ==, 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_before_each_call),
        cmocka_unit_test(each_call_fails),
        cmocka_unit_test(synced_before_renamed),
        cmocka_unit_test(versions),
        cmocka_unit_test(limits),
        cmocka_unit_test(strange_folders),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
