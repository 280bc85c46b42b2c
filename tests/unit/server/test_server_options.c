// Values of options: numbers with suffixes, ranges, words.
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

#include "base/cleanup.h"
#include "base/log.h"
#include "server/config/options.h"
#include "server/config/options_parse.h"
#include "server/config/options_rows.h"
#include "tests/support/manual.h"

static void takes_good_values(void **state)
{
    struct options o;
    (void)state;
    options_init(&o);
    assert_int_equal(options_set(&o, "model-cache", "3M", NULL), 0);
    assert_int_equal(o.model_cache, 3 << 20);
    assert_int_equal(options_set(&o, "max-model-size", "2G", NULL), 0);
    assert_int_equal(o.max_model_size, UINT64_C(2) << 30);
    assert_int_equal(options_set(&o, "max-contexts", "65536", NULL), 0);
    assert_int_equal(o.max_contexts, 65536);
    assert_int_equal(options_set(&o, "backend", "null:64:64,delay_us=1", NULL), 0);
    assert_string_equal(o.backend, "null");
    assert_string_equal(o.backend_options, "64:64,delay_us=1");
    assert_int_equal(options_set(&o, "backend", "sim", NULL), 0);
    assert_string_equal(o.backend_options, "");
    assert_int_equal(options_set(&o, "insecure", "yes", NULL), 0);
    assert_true(o.insecure);
    assert_int_equal(options_set(&o, "quota", "alice:contexts=3,share=4", NULL), 0);
    assert_int_equal(options_set(&o, "quota", "*:bytes=2G,in-flight=7", NULL), 0);
    assert_int_equal(o.n_quotas, 2);
    assert_string_equal(o.quotas[0].user, "alice");
    assert_int_equal(o.quotas[0].limits.of[ACCOUNT_CONTEXTS], 3);
    assert_int_equal(o.quotas[0].share, 4);
    assert_int_equal(o.quotas[0].limits.of[ACCOUNT_BYTES], 0);
    assert_string_equal(o.quotas[1].user, "*");
    assert_int_equal(o.quotas[1].limits.of[ACCOUNT_BYTES], UINT64_C(2) << 30);
    assert_int_equal(o.quotas[1].limits.of[ACCOUNT_REQUESTS], 7);
    assert_int_equal(o.quotas[1].share, 1);
    options_done(&o);
}

static void refuses_bad_values(void **state)
{
    static const char *const bad[][2] = {
        {"model-cache", ""},
        {"model-cache", "M"},
        {"model-cache", "3MB"},
        {"model-cache", "3 M"},
        {"model-cache", "-1"},
        {"model-cache", "17179869184G"},
        {"model-cache", "2000000G"},
        {"max-contexts", "0"},
        {"max-contexts", "65537"},
        {"max-contexts", "1K"},
        {"max-contexts", "0x10"},
        {"heartbeat-ms", "4294967297"},
        {"isolation", "Process"},
        {"insecure", "true"},
        {"backend", ":rk3588"},
        {"log-level", "6"},
        {"log-level", "debugging"},
        {"log-level", ""},
        {"no-such-option", "1"},
        {"quota", ""},
        {"quota", "alice"},
        {"quota", ":contexts=1"},
        {"quota", "a:"},
        {"quota", "a:contexts"},
        {"quota", "a:contexts=0"},
        {"quota", "a:cores=1"},
        {"quota", "a:share=1001"},
        {"quota", "a:share=1,"},
        {"quota", "a:contexts=1K"},
        {"quota", "a:bytes=1T"},
        {"quota", "a:contexts=1,bytes=1,contexts=2"},
        {"quota", "a:share=1,share=1"},
        {"limit", "uploads=1,uploads=1"},
    };
    struct options o;
    struct error e;
    (void)state;
    options_init(&o);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (options_set(&o, bad[i][0], bad[i][1], &e) != STATUS_PARAM_INVALID)
            fail_msg("%s = \"%s\" was taken", bad[i][0], bad[i][1]);
        assert_non_null(strstr(e.text, bad[i][0]));
    }
    options_done(&o);
}

static void refuses_too_many_addresses(void **state)
{
    struct options o;
    (void)state;
    options_init(&o);
    struct error e = {0};
    for (int i = 0; i < OPTIONS_MAX_LISTEN; i++) {
        char address[16];
        snprintf(address, sizeof address, "unix:/%d", i);
        assert_int_equal(options_set(&o, "listen", address, NULL), 0);
        assert_int_equal(options_set(&o, "listen", address, &e), STATUS_PARAM_INVALID);
        assert_non_null(strstr(e.text, i < OPTIONS_MAX_LISTEN - 1 ? "there already" : "at most"));
    }
    assert_int_equal(options_set(&o, "listen", "unix:/x", &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "at most"));
    options_done(&o);
}

static int parse(const char *first, const char *second, const char *third, struct error *e)
{
    const char *words[] = {"rknnd", first, second, third, NULL};
    int argc = third ? 4 : second ? 3 : 2;
    struct options o;
    options_init(&o);
    int r = options_parse(&o, argc, (char **)words, e);
    options_done(&o);
    return r;
}

static void misspelt_names_are_asked_about(void **state)
{
    static const char *const wrong[][2] = {
        {"lisen", "listen"},
        {"max-conections", "max-connections"},
        {"log-levl", "log-level"},
        {"worker-ilde", "worker-idle"},
        {"heartbeat-sm", "heartbeat-ms"},
    };
    struct options o;
    struct error e;
    char words[64];
    (void)state;
    options_init(&o);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(options_set(&o, wrong[i][0], "1", &e), STATUS_PARAM_INVALID);
        snprintf(words, sizeof words, "did you mean %s?", wrong[i][1]);
        assert_non_null(strstr(e.text, words));
        snprintf(words, sizeof words, "--%s=1", wrong[i][0]);
        assert_int_equal(parse(words, NULL, NULL, &e), STATUS_PARAM_INVALID);
        snprintf(words, sizeof words, "did you mean --%s?", wrong[i][1]);
        assert_non_null(strstr(e.text, words));
    }
    assert_int_equal(parse("--confg=x", NULL, NULL, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "did you mean --config?"));
    assert_int_equal(options_set(&o, "config", "x", &e), STATUS_PARAM_INVALID);
    assert_int_equal(parse("--wroker=3", NULL, NULL, &e), STATUS_PARAM_INVALID);
    assert_null(strstr(e.text, "did you mean"));
    assert_int_equal(options_set(&o, "port", "1", &e), STATUS_PARAM_INVALID);
    assert_null(strstr(e.text, "did you mean"));
    assert_int_equal(options_set(&o, "", "1", &e), STATUS_PARAM_INVALID);
    assert_null(strstr(e.text, "did you mean"));
    options_done(&o);
}

// Wherever it stands: the files are read first, and its addresses replace theirs.
static void the_command_line_wins_over_the_file(void **state)
{
    char path[] = "/tmp/rknnd_options_XXXXXX";
    struct options o;
    struct error e = {0};
    (void)state;
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("# a comment\nlisten = unix:/file\nmax-contexts=7\nmax-memories = 8\ninsecure=yes\n",
          file);
    fclose(file);
    options_init(&o);
    char *words[] = {(char *)"rknnd",
                     (char *)"--max-contexts=9",
                     (char *)"--listen=unix:/a",
                     (char *)"--config",
                     path,
                     (char *)"--listen=unix:/b",
                     NULL};
    assert_int_equal(options_parse(&o, 6, words, &e), 0);
    assert_int_equal(o.max_contexts, 9);
    assert_int_equal(o.max_memories, 8);
    assert_true(o.insecure);
    assert_int_equal(o.n_listen, 2);
    assert_string_equal(o.listen[0], "unix:/a");
    assert_string_equal(o.listen[1], "unix:/b");
    options_done(&o);
    options_init(&o);
    assert_int_equal(
        options_parse(&o, 3, (char *[]){(char *)"rknnd", (char *)"--config", path, NULL}, &e), 0);
    assert_int_equal(o.n_listen, 1);
    assert_string_equal(o.listen[0], "unix:/file");
    options_done(&o);
    unlink(path);
}

static int parse_file(struct options *o, const char *text, const char *const *words,
                      struct error *e)
{
    char path[] = "/tmp/test-options-XXXXXX";
    const char *argv[8] = {"rknnd", "--config", path};
    int argc = 3;
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    while (words && *words)
        argv[argc++] = *words++;
    options_init(o);
    int r = options_parse(o, argc, (char **)argv, e);
    unlink(path);
    return r;
}

static void a_file_says_everything_once(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"max-contexts = 4\n\n#\nmax-contexts = 4\n", ":4: max-contexts is on line 1 already"},
        {"\nbackend = sim\nbackend = vendor\n", ":3: backend is on line 2 already"},
        {"insecure = yes\ninsecure = no", ":2: insecure is on line 1 already"},
        {"log-level = debug\nlog-level = info\n", ":2: log-level is on line 1 already"},
        {"quota = root:share=2\nquota = root:bytes=1G", ":2: quota: root has a quota already"},
        {"limit = uploads=2\nlimit = contexts=7,uploads=3", ":2: limit: uploads is given already"},
        {"rights = tcp:none\nrights = tcp:run\n", ":2: rights: tcp has rights already"},
    };
    struct options o;
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(parse_file(&o, bad[i].text, NULL, &e), STATUS_PARAM_INVALID);
        if (!strstr(e.text, bad[i].words))
            fail_msg("\"%s\" says \"%s\"", bad[i].text, e.text);
        options_done(&o);
    }
    assert_int_equal(parse_file(&o,
                                "listen = unix:/a\nlisten = unix:/b\npreload = a\npreload = b\n"
                                "quota = root:share=2\nquota = *:share=3\nlimit = uploads=2\n"
                                "limit = contexts=7\nrights = tcp:none\nrights = usb:none\n",
                                NULL, &e),
                     0);
    assert_int_equal(o.n_listen + o.n_preload + o.n_quotas + o.rights.n, 8);
    options_done(&o);
}

// Of what is given for somebody, or for one limit; what the file says of others stays.
static void the_command_line_wins_entry_by_entry(void **state)
{
    static const char *const words[] = {"--quota=root:share=5", "--limit=uploads=9",
                                        "--rights=tcp:none", NULL};
    struct options o;
    struct error e;
    (void)state;
    assert_int_equal(parse_file(&o,
                                "quota = root:bytes=1G\nquota = *:share=3\nlimit = uploads=2\n"
                                "limit = contexts=7\nrights = tcp:run\nrights = usb:run\n",
                                words, &e),
                     0);
    assert_int_equal(o.n_quotas, 2);
    assert_string_equal(o.quotas[0].user, "*");
    assert_string_equal(o.quotas[1].user, "root");
    assert_int_equal(o.quotas[1].share, 5);
    assert_int_equal(o.quotas[1].limits.of[ACCOUNT_BYTES], 0);
    assert_int_equal(o.limits.of[ACCOUNT_UPLOADS], 9);
    assert_int_equal(o.limits.of[ACCOUNT_CONTEXTS], 7);
    assert_int_equal(o.rights.n, 2);
    assert_string_equal(o.rights.rules[0].who, "usb");
    assert_string_equal(o.rights.rules[1].who, "tcp");
    assert_int_equal(o.rights.rules[1].rights, 0);
    options_done(&o);
}

// What a file system may make of a file when power is lost, and one that has no end.
static void files_that_are_no_text(void **state)
{
    char path[] = "/tmp/test-options-XXXXXX";
    struct options o;
    struct error e;
    (void)state;
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    options_init(&o);
    char *words[] = {(char *)"rknnd", (char *)"--config", path, NULL};
    assert_int_equal(options_parse(&o, 3, words, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "is empty"));
    fputs("max-contexts=7\n", file);
    fwrite((const char[64]){0}, 1, 64, file);
    fclose(file);
    assert_int_equal(options_parse(&o, 3, words, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "is not text: byte 15 is 0"));
    words[2] = (char *)"/dev/zero";
    assert_int_equal(options_parse(&o, 3, words, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "/dev/zero is larger than 1048576 bytes"));
    words[2] = (char *)"/dev/null";
    assert_int_equal(options_parse(&o, 3, words, &e), 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // which nobody writes into
    words[2] = path;
    assert_int_equal(options_parse(&o, 3, words, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "is a pipe"));
    options_done(&o);
    unlink(path);
}

static void users_and_groups_exist(void **state)
{
    struct error e;
    (void)state;
    assert_int_equal(parse("--quota", "nosuchuser:contexts=1", NULL, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "\"nosuchuser\""));
    assert_int_equal(parse("--quota", "root:contexts=1", NULL, &e), 0);
    assert_int_equal(parse("--quota", "12345:contexts=1", NULL, &e), 0);
    assert_int_equal(parse("--quota", "tcp:contexts=1", "--quota=*:share=2", &e), 0);
    assert_int_equal(parse("--socket-group=root", NULL, NULL, &e), 0);
    assert_int_equal(
        parse("--socket-group=root", "--listen=unix:/x", "--listen=tcp:127.0.0.1:1", &e), 0);
    assert_int_equal(parse("--socket-group=nosuchgroup", NULL, NULL, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "\"nosuchgroup\""));
    assert_int_equal(parse("--socket-group=root", "--listen=tcp:127.0.0.1:1", NULL, &e),
                     STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "socket-group root"));
    assert_int_equal(parse("--socket-group=root", "--adopt=3", NULL, &e), STATUS_PARAM_INVALID);
}

static void a_relay_is_not_announced(void **state)
{
    static char *words[] = {(char *)"rknnd", (char *)"--relay",
                            (char *)"usb:", (char *)"--announce", NULL};
    struct options o;
    struct error e;
    (void)state;
    options_init(&o);
    assert_int_equal(options_parse(&o, 3, words, &e), 0);
    assert_int_equal(options_parse(&o, 4, words, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, "relay"));
    options_done(&o);
}

// ---- changes while the daemon runs --------------------------------------------------------------

static void set_all(struct options *o, const char *const (*values)[2])
{
    options_init(o);
    for (; (*values)[0]; values++)
        assert_int_equal(options_set(o, (*values)[0], (*values)[1], NULL), 0);
}

static void takes_what_can_change(void **state)
{
    static const char *const before[][2] = {{"listen", "unix:/a"},      {"backend", "sim"},
                                            {"quota", "*:contexts=1"},  {"limit", "uploads=3"},
                                            {"plugin-dir", "/plugins"}, {NULL, NULL}};
    static const char *const after[][2] = {
        {"listen", "unix:/a"}, {"listen", "unix:/b"},     {"backend", "sim:rk3588"},
        {"sandbox", "off"},    {"quota", "*:contexts=2"}, {"limit", "uploads=3"},
        {"max-contexts", "3"}, {"rights", "*:run"},       {NULL, NULL}};
    struct options o, fresh;
    struct options_names changed, kept;
    (void)state;
    set_all(&o, before);
    set_all(&fresh, after);
    options_update(&o, &fresh, &changed, &kept);
    assert_string_equal(changed.text, "listen, max-contexts, quota, rights, plugin-dir");
    assert_string_equal(kept.text, "options of the backend, sandbox");
    assert_int_equal(o.n_listen, 2);
    assert_string_equal(o.listen[1], "unix:/b");
    assert_string_equal(o.backend_options, "");
    assert_int_equal(o.sandbox, SANDBOX_ON);
    assert_int_equal(o.quotas[0].limits.of[ACCOUNT_CONTEXTS], 2);
    assert_int_equal(o.max_contexts, 3);
    assert_int_equal(o.rights.n, 1);
    assert_null(o.plugin_dir);
    options_done(&fresh);
    options_done(&o);
}

static void says_nothing_of_the_same(void **state)
{
    static const char *const values[][2] = {{"listen", "unix:/a"},  {"quota", "*:contexts=1"},
                                            {"rights", "*:run"},    {"tls-ca", "/ca"},
                                            {"limit", "uploads=3"}, {NULL, NULL}};
    struct options o, fresh;
    struct options_names changed, kept;
    (void)state;
    set_all(&o, values);
    set_all(&fresh, values);
    options_update(&o, &fresh, &changed, &kept);
    assert_string_equal(changed.text, "");
    assert_string_equal(kept.text, "");
    options_done(&fresh);
    options_done(&o);
}

// Of every option a value that is not its default, as rknnd.conf(5) lists them.
static const char *const at_once[][2] = {
    {"listen", "unix:/a"},    {"insecure", "yes"},        {"tls-psk-file", "/a"},
    {"tls-cert", "/a"},       {"tls-key", "/a"},          {"tls-ca", "/a"},
    {"quota", "*:share=2"},   {"limit", "uploads=2"},     {"rights", "*:run"},
    {"max-connections", "7"}, {"max-contexts", "7"},      {"max-memories", "7"},
    {"max-memory", "7"},      {"max-inflight", "7"},      {"max-inflight-bytes", "7"},
    {"max-payload", "2M"},    {"max-model-size", "7"},    {"max-models-size", "7"},
    {"model-cache", "7"},     {"upload-ttl", "7"},        {"worker-idle", "7"},
    {"heartbeat-ms", "77"},   {"peer-timeout-ms", "777"}, {"job-timeout-ms", "7"},
    {"hold-timeout-ms", "7"}, {"load-timeout-ms", "7"},   {"drain-timeout-ms", "7"},
    {"plugin-dir", "/a"},     {"costly-percent", "7"},    {"slice-us", "7"},
    {"preload", "net@1"},     {"max-loaded-size", "7"},   {"tls-crl", "/a"},
};
static const char *const at_next_start[][2] = {
    {"isolation", "thread"}, {"sandbox", "off"},    {"worker-user", "a"},  {"buffers", "memfd"},
    {"announce", "yes"},     {"socket-group", "a"}, {"trace-events", "7"}, {"module-dir", "/a"},
    {"http", "unix:/a"},     {"sysfs", "/a"},       {"relay", "usb:"},     {"backend", "null"},
    {"model-store", "/a"},   {"subuid", "/a"},
};

// The line is the option's alone, but for what a sentence puts behind it.
static void is_listed(const char *section, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = section; (at = strstr(at, name)) && at < end; at++)
        if (at[-1] == '\n' && strchr(",.;\n", at[length]))
            return;
    fail_msg("rknnd.conf(5) does not list %s where it should", name);
}

static void changes_as_the_manual_says(const char *const (*values)[2], size_t n, bool changes,
                                       const char *section, const char *end)
{
    for (size_t i = 0; i < n; i++) {
        struct options o, fresh;
        struct options_names changed, kept;
        options_init(&o);
        options_init(&fresh);
        assert_int_equal(options_set(&fresh, values[i][0], values[i][1], NULL), 0);
        options_update(&o, &fresh, &changed, &kept);
        is_listed(section, end, values[i][0]);
        assert_ptr_equal(strstr(changes ? changed.text : kept.text, values[i][0]),
                         changes ? changed.text : kept.text);
        assert_string_equal(changes ? kept.text : changed.text, "");
        options_done(&fresh);
        options_done(&o);
    }
}

static void manual_says_what_changes(void **state)
{
    cleanup(free_p) char *manual = manual_read("docs/rknnd.conf.5");
    const char *first = strstr(manual, "Countatonce"), *end = strstr(manual, "\nEXAMPLE");
    const char *second = strstr(manual, "Countfromthenextstart");
    (void)state;
    assert_true(first && second && end);
    changes_as_the_manual_says(at_once, sizeof at_once / sizeof *at_once, true, first, second);
    changes_as_the_manual_says(at_next_start, sizeof at_next_start / sizeof *at_next_start, false,
                               second, end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_good_values),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(refuses_too_many_addresses),
        cmocka_unit_test(misspelt_names_are_asked_about),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(a_file_says_everything_once),
        cmocka_unit_test(the_command_line_wins_entry_by_entry),
        cmocka_unit_test(files_that_are_no_text),
        cmocka_unit_test(users_and_groups_exist),
        cmocka_unit_test(a_relay_is_not_announced),
        cmocka_unit_test(takes_what_can_change),
        cmocka_unit_test(says_nothing_of_the_same),
        cmocka_unit_test(manual_says_what_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
