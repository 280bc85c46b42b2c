// Lines go to standard error while probes run; standard output has where the files are, or JSON.
#include "tools/board/outcome.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/board/facts.h"
#include "tools/board/pack.h"
#include "tools/format/json_get.h"
#include "tools/ui/print.h"
#include "tools/view/page.h"

#define MAX_LOG (4u << 20)

static const char readme[] =
    "What `rknnctl board-test` found on a board.\n\n"
    "  result.json  all of it: the machine, each way to the NPU, each probe and its answers\n"
    "  page.html    the same to read in a browser\n"
    "  log.txt      what the daemons said meanwhile\n\n"
    "Private things: the names of the machine, of the user and of the home folder are replaced by\n"
    "(host), (user) and (home). What is in here: the kernel's version, the board's model and "
    "chip,\n"
    "device nodes with their groups, clocks, temperatures, the versions of drivers and runtimes.\n"
    "No serial number, no address, no file of yours. log.txt is text of daemons: look at it "
    "before\n"
    "you send it.\n";

// As in `ssh board rknnctl board-test -o - > kit.tar.xz`.
static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0;
}

// "kit.tar.xz" has its page in "kit.html", and standard output that of the usual name.
static void page_path(const struct board_plan *plan, char path[PATH_MAX])
{
    size_t n = strlen(plan->output);
    static const char ending[] = ".tar.xz";
    if (plan->page || is_standard_output(plan->output)) {
        snprintf(path, PATH_MAX, "%s", plan->page ? plan->page : "board-test.html");
        return;
    }
    if (n > strlen(ending) && strcmp(plan->output + n - strlen(ending), ending) == 0)
        n -= strlen(ending);
    snprintf(path, PATH_MAX, "%.*s.html", (int)n, plan->output);
}

int outcome_check_files(const struct board_plan *plan, struct error *e)
{
    char path[PATH_MAX];
    page_path(plan, path);
    if (is_standard_output(plan->output) + is_standard_output(path) + plan->json > 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "standard output is for one of them: the file to send (-o -), the page "
                         "(--page -) or --json");
    int r = output_file_check(plan->output, e);
    return r == 0 ? output_file_check(path, e) : r;
}

// ---- the terminal ----

// Words of devices and libraries: harmless on a terminal.
static void show_text(const char *text)
{
    cleanup(free_p) char *copy = strdup(text);
    if (copy)
        print_text_shown(stderr, copy);
}

// Hints come first: whoever has forgotten a group, or root, need not wait for the end.
void outcome_show_facts(const json_t *facts, const char *chip)
{
    json_t *hint;
    size_t i;
    fprintf(stderr, "models for %s; %s on %s\n", chip, json_get_text(facts, "kernel"),
            *json_get_text(facts, "board") ? json_get_text(facts, "board")
                                           : json_get_text(facts, "machine"));
    json_array_foreach(json_object_get(facts, "hints"), i, hint)
    {
        fprintf(stderr, "  %s\n", json_string_value(hint));
    }
}

// One line, with the reason where it is not there.
void outcome_show_target(const json_t *target)
{
    fprintf(stderr, "%-9s %s: ", json_get_text(target, "name"), json_get_text(target, "words"));
    if (json_is_true(json_object_get(target, "there")))
        fprintf(stderr, "%s", json_get_text(json_object_get(target, "server"), "chip"));
    else
        show_text(json_get_text(target, "failed"));
    fputc('\n', stderr);
}

// Which node, which tensor, which value: expected and seen.
static void show_first(const json_t *verdict)
{
    const json_t *first = json_object_get(verdict, "first");
    if (!first)
        return;
    fprintf(stderr,
            "tensor %s%s%s, value %" JSON_INTEGER_FORMAT
            ": %g expected, %g seen; %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " differ",
            json_get_text(first, "tensor"), *json_get_text(first, "node") ? " of node " : "",
            json_get_text(first, "node"), json_integer_value(json_object_get(first, "index")),
            json_number_value(json_object_get(first, "expected")),
            json_number_value(json_object_get(first, "seen")),
            json_integer_value(json_object_get(verdict, "n_wrong")),
            json_integer_value(json_object_get(verdict, "n")));
}

// Not every question has a switch.
static void show_other(const json_t *verdict)
{
    const char *name = json_get_text(verdict, "switch");
    fprintf(stderr,
            "hypothesis %s, where rknnd takes %s%s%s%s: ", json_get_text(verdict, "hypothesis"),
            json_get_text(verdict, "taken"), *name ? " (switch " : "", name, *name ? ")" : "");
}

// One line for each probe and target, as soon as it is known.
void outcome_show_verdict(const char *probe, const json_t *verdict)
{
    const char *is = json_get_text(verdict, "is");
    fprintf(stderr, "%-16s %-9s %-7s ", probe, json_get_text(verdict, "target"), is);
    if (strcmp(is, "other") == 0)
        show_other(verdict);
    show_text(*json_get_text(verdict, "words") ? json_get_text(verdict, "words")
                                               : json_get_text(verdict, "says"));
    show_first(verdict);
    fputc('\n', stderr);
}

// For qsort().
static int compare_numbers(const void *a, const void *b)
{
    json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return (x > y) - (x < y);
}

// All of a probe's time has the start of its daemon in it; that of a run is the device's own.
void outcome_add_times(json_t *verdict, const json_t *answer, uint64_t ms)
{
    json_t *times = json_object_get(answer, "run_us"), *one;
    json_int_t all[64];
    size_t i, n = 0;
    json_array_foreach(times, i, one)
    {
        if (n < sizeof all / sizeof *all)
            all[n++] = json_integer_value(one);
    }
    if (!answer)
        return;
    json_object_set_new(verdict, "ms", json_integer((json_int_t)ms));
    if (n) {
        qsort(all, n, sizeof *all, compare_numbers);
        json_object_set_new(verdict, "median_us", json_integer(all[n / 2]));
        json_object_set_new(verdict, "least_us", json_integer(all[0]));
    }
    json_object_set(verdict, "layers", json_object_get(answer, "layers"));
    json_object_set(verdict, "no_nodes", json_object_get(answer, "no_nodes"));
    if (strcmp(json_get_text(verdict, "is"), "wrong") == 0)
        json_object_set(verdict, "seen", json_object_get(answer, "tensors"));
}

// ---- files ----

// The end of it, without this machine's names.
static char *read_log(FILE *log)
{
    fseek(log, 0, SEEK_END);
    long size = ftell(log), from = size > (long)MAX_LOG ? size - (long)MAX_LOG : 0;
    cleanup(free_p) char *text = calloc(1, (size_t)(size - from) + 1);
    if (!text || fseek(log, from, SEEK_SET) != 0)
        return NULL;
    size_t n = fread(text, 1, (size_t)(size - from), log);
    text[n] = 0;
    json_t *list = json_pack("[o]", print_json_text(text));
    char *ret = strdup(json_string_value(json_array_get(facts_without_names(list), 0)) ?: "");
    json_decref(list);
    return ret;
}

// The page of reports, with one view.
static char *make_page(json_t *result)
{
    char *text = NULL;
    size_t size = 0;
    json_t *data = json_pack("{s:o, s:O, s:O, s:O}", "model",
                             json_sprintf("board-test of %s", json_get_text(result, "chip")),
                             "tool", json_object_get(result, "tool"), "date",
                             json_object_get(result, "date"), "board", result);
    FILE *out = open_memstream(&text, &size);
    bool wrong = !out || !data || page_write(data, out) < 0;
    if (out)
        wrong = fclose(out) != 0 || wrong;
    json_decref(data);
    if (!wrong)
        return text;
    free(text);
    return NULL;
}

// Whole or not at all.
static int write_page(const char *path, const char *page, struct error *e)
{
    cleanup(output_file_drop) struct output_file file = {0};
    int r = output_file_open(&file, path, e);
    if (r < 0)
        return r;
    fputs(page, file.stream);
    return output_file_close(&file, e);
}

// Where there may be room when there is none where it was wanted. What took ten minutes is not
// thrown away.
static void write_elsewhere(const struct pack_file *files, size_t n)
{
    const char *folders[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    struct error none;
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/board-test-%d.tar.xz", folders[i] ? folders[i] : "/tmp",
                 (int)getpid());
        if (pack_write(path, files, n, &none) == 0) {
            fprintf(stderr, "what was found is in %s instead\n", path);
            return;
        }
    }
}

// Both files. The page is in the second one as well, so that one file is enough to send.
static int write_files(const struct board_plan *plan, const char *path, const char *page,
                       const char *text, const char *words, struct error *e)
{
    const struct pack_file files[] = {
        {"README.txt", readme, strlen(readme)},
        {"result.json", text, strlen(text)},
        {"page.html", page, strlen(page)},
        {"log.txt", words, strlen(words)},
    };
    struct error none;
    size_t n = sizeof files / sizeof *files;
    int p = pack_write(plan->output, files, n, e);
    int r = write_page(path, page, p < 0 ? &none : e);
    if (p < 0)
        write_elsewhere(files, n);
    else if (r < 0)
        fprintf(stderr, "the page is in %s, too, which is whole\n", plan->output);
    return p < 0 ? p : r;
}

// What was found is worth more than anything else here: it is written before anything is printed.
int outcome_write(const struct board_plan *plan, json_t *result, FILE *log, struct error *e)
{
    char path[PATH_MAX];
    cleanup(free_p) char *words = read_log(log);
    cleanup(free_p) char *page = result ? make_page(result) : NULL;
    cleanup(free_p) char *text = result ? json_dumps(result, JSON_INDENT(1)) : NULL;
    int r;
    page_path(plan, path);
    if (words && page && text)
        r = write_files(plan, path, page, text, words, e);
    else
        r = error_no_memory(e, "what was found", 0);
    if (r == 0 && plan->json)
        return print_json(result, e);
    json_decref(result);
    bool taken = is_standard_output(plan->output) || is_standard_output(path);
    if (r == 0)
        fprintf(taken ? stderr : stdout,
                "to read: %s\nto send: %s (README.txt, result.json, page.html, log.txt)\n", path,
                plan->output);
    return r;
}

// People get a line for each, with what is risky about it.
int outcome_list(const json_t *table, bool json, struct error *e)
{
    static const char *const lists[] = {"probes", "by_hand", "unwritten"};
    static const char *const words[] = {"", "by hand: ", "not written for this chip: "};
    json_t *one;
    size_t k;
    if (json)
        return print_json(json_pack("{s:O, s:O?, s:O?}", lists[0], json_object_get(table, lists[0]),
                                    lists[1], json_object_get(table, lists[1]), lists[2],
                                    json_object_get(table, lists[2])),
                          e);
    for (int i = 0; i < 3; i++) {
        json_array_foreach(json_object_get(table, lists[i]), k, one)
        {
            printf("%-16s %s%s%s%s\n", json_get_text(one, "id"), words[i],
                   json_get_text(one, "title"), json_object_get(one, "risk") ? "; risky: " : "",
                   json_get_text(one, "risk"));
        }
    }
    return 0;
}
