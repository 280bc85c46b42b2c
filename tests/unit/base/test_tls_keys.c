// Files of pre-shared keys: what they may say, and who may be able to read them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/tls/tls_keys_store.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f"
#define KEY_B "F0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF00112233445566778899aabbccddeeff"

static int parse(const char *text, struct tls_keys *ret, struct error *e)
{
    return tls_keys_parse(text, strlen(text), ret, e);
}

static void good_files_are_understood(void **state)
{
    (void)state;
    struct tls_keys k;
    struct error e;
    assert_int_equal(parse("# comment\n\nalice:" KEY_A "\n  bob@pc-2.local:" KEY_B "  \r\n"
                           "alice:" KEY_B " board:8911",
                           &k, &e),
                     0);
    assert_int_equal(k.n, 3);
    const struct tls_key *alice = tls_keys_find(&k, "alice", 5);
    const struct tls_key *bob = tls_keys_find(&k, "bob@pc-2.localX", 14);
    assert_int_equal(alice->size, 16);
    for (int i = 0; i < 16; i++)
        assert_int_equal(alice->bytes[i], i);
    assert_int_equal(bob->size, 32);
    assert_int_equal(bob->bytes[0], 0xf0);
    assert_int_equal(bob->bytes[31], 0xff);
    assert_string_equal(bob->server, "");
    assert_null(tls_keys_find(&k, "alic", 4));
    assert_null(tls_keys_find(&k, "", 0));
    tls_keys_done(&k);
    assert_int_equal(k.n, 0);
    assert_int_equal(parse("", &k, &e), 0);
    assert_int_equal(k.n, 0);
}

static void a_client_takes_the_key_that_is_meant_for_the_server(void **state)
{
    (void)state;
    struct tls_keys k;
    struct error e;
    assert_int_equal(
        parse("any:" KEY_A "\nme:" KEY_B " board:8911\nyou:" KEY_A " board:8911\n", &k, &e), 0);
    assert_string_equal(tls_keys_for(&k, "board:8911", NULL)->identity, "me");
    assert_string_equal(tls_keys_for(&k, "board:8911", "you")->identity, "you");
    assert_string_equal(tls_keys_for(&k, "board:8910", NULL)->identity, "any");
    assert_null(tls_keys_for(&k, "other:8911", "me"));
    tls_keys_done(&k);
}

static void bad_lines_are_refused_by_number_and_without_their_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"alice", "line 1"},
        {"\nalice " KEY_A, "line 2"},
        {":" KEY_A, "identity is 1 to"},
        {"al ice:" KEY_A, "identity is 1 to"},
        {"a/b:" KEY_A, "identity is 1 to"},
        {"0123456789012345678901234567:" KEY_A, "identity is 1 to 27"},
        {"alice:" KEY_A "\nalice:" KEY_B, "a second time"},
        {"alice:deadbeef", "16 to 64 bytes"},
        {"alice:" KEY_A "0", "16 to 64 bytes"},
        {"alice:" KEY_B KEY_B KEY_A, "16 to 64 bytes"},
        {"alice:0001020304050607080g0a0b0c0d0e0f", "hexadecimal"},
        {"alice:" KEY_A " board 8911", "HOST:PORT"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tls_keys k;
        struct error e;
        assert_int_equal(parse(bad[i].text, &k, &e), STATUS_PARAM_INVALID);
        if (!strstr(e.text, bad[i].words))
            fail_msg("%s: %s", bad[i].text, e.text);
        assert_null(strstr(e.text, "0001020304"));
    }
}

static void text_with_zeros_is_refused(void **state)
{
    (void)state;
    static const char text[] = "ali\0ce:" KEY_A;
    struct tls_keys k;
    struct error e;
    assert_int_equal(tls_keys_parse(text, sizeof text - 1, &k, &e), STATUS_PARAM_INVALID);
}

static void files_that_others_can_read_are_refused(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool good;
    } modes[] = {{0600, true},  {0400, true},  {0640, true},  {0440, true},
                 {0644, false}, {0660, false}, {0604, false}, {0620, false}};
    char path[] = "/tmp/rknnd-test-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_cmp(fd, >=, 0);
    assert_int_equal(dprintf(fd, "alice:%s\n", KEY_A), 6 + 32 + 1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct tls_keys k;
        struct error e;
        assert_int_equal(fchmod(fd, modes[i].mode), 0);
        int r = tls_keys_read(path, &k, &e);
        if ((r == 0) != modes[i].good)
            fail_msg("mode %03o: %d", (unsigned)modes[i].mode, r);
        if (r == 0)
            tls_keys_done(&k);
        else
            assert_non_null(strstr(e.text, "chmod 600"));
    }
    close(fd);
    unlink(path);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct tls_keys k;
    struct error e;
    assert_int_equal(tls_keys_read("/tmp", &k, &e), STATUS_PARAM_INVALID);
    assert_int_equal(tls_keys_read("/dev/null", &k, &e), STATUS_PARAM_INVALID);
    assert_int_equal(tls_keys_read("/nowhere/keys", &k, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "/nowhere/keys"));
}

// The key of the same identity and server gives way, wherever it is; all else stays.
static void a_key_is_put_into_a_text(void **state)
{
    (void)state;
    static const char text[] = "# mine\nalice:" KEY_B " board:8911\n\n alice:" KEY_A "\nbob:" KEY_B;
    static const char with[] = "alice:" KEY_A "\n# mine\nalice:" KEY_B " board:8911\n\nbob:" KEY_B;
    struct tls_key k = {.identity = "alice", .size = 16};
    char *ret;
    size_t size;
    struct error e;
    for (uint8_t i = 0; i < 16; i++)
        k.bytes[i] = i;
    assert_int_equal(tls_keys_insert(text, sizeof text - 1, &k, &ret, &size, &e), 0);
    assert_int_equal(size, sizeof with - 1);
    assert_memory_equal(ret, with, size);
    free(ret);
    assert_int_equal(tls_keys_insert("nonsense", 8, &k, &ret, &size, &e), STATUS_PARAM_INVALID);
}

static void a_key_is_put_into_a_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/rknnd-test-keys-XXXXXX", path[80], link[80], below[80];
    struct tls_key k = {.identity = "alice", .size = 16};
    struct tls_keys all;
    struct error e;
    struct stat st;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a/b/keys", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(tls_keys_store(path, NULL, &k, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(chmod(path, 0640), 0);
    snprintf(k.identity, sizeof k.identity, "bob");
    assert_int_equal(tls_keys_store(link, NULL, &k, &e), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(tls_keys_read(path, &all, &e), 0);
    assert_int_equal(all.n, 2);
    tls_keys_done(&all);
    snprintf(below, sizeof below, "%s/keys", path);
    assert_int_equal(tls_keys_store(below, NULL, &k, &e), STATUS_FAIL);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(tls_keys_store(path, NULL, &k, &e), STATUS_PARAM_INVALID);
    assert_int_equal(unlink(path) | unlink(link), 0);
    for (int i = 0; i < 2; i++) { // nothing else was left there
        *strrchr(path, '/') = 0;
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void there_are_only_so_many_keys(void **state)
{
    (void)state;
    static char text[(TLS_KEYS_MAX + 1) * 48];
    struct tls_keys k;
    struct error e;
    size_t n = 0;
    for (int i = 0; i < TLS_KEYS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "u%d:" KEY_A "\n", i);
    assert_int_equal(tls_keys_parse(text, n, &k, &e), 0);
    assert_int_equal(k.n, TLS_KEYS_MAX);
    assert_string_equal(tls_keys_find(&k, "u1000", 5)->identity, "u1000");
    tls_keys_done(&k);
    n += (size_t)snprintf(text + n, sizeof text - n, "more:" KEY_A "\n");
    assert_int_equal(tls_keys_parse(text, n, &k, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "more than"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_understood),
        cmocka_unit_test(a_client_takes_the_key_that_is_meant_for_the_server),
        cmocka_unit_test(bad_lines_are_refused_by_number_and_without_their_key),
        cmocka_unit_test(text_with_zeros_is_refused),
        cmocka_unit_test(files_that_others_can_read_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_key_is_put_into_a_text),
        cmocka_unit_test(a_key_is_put_into_a_file),
        cmocka_unit_test(there_are_only_so_many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
