// rknnctl doctor: what is wrong on the way to the NPU, and what to do about it. The library makes
// the checks (rknnd_diagnose) and calls on_check() on this thread as each ends; they are shown at
// once, because a check of a dead link can take seconds.
#include <stdio.h>
#include <string.h>

#include "rknnd.h"
#include "tools/rknnctl.h"
#include "tools/run/description.h"
#include "tools/run/load_option_args.h"
#include "tools/ui/print.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define NAME_COLUMN  6
#define FOUND_COLUMN 18

// `checks` collects findings for --json; print_json() frees it.
struct doctor {
    struct task task;
    const char *model; // NULL: none
    json_t *checks;    // of --json; NULL: text
    struct progress progress;
};

// Verdict, name, finding; the advice on a line of its own, all wrapped to the terminal.
static void print_check(const rknnd_check *c)
{
    static const char *const words[] = {"ok", "note", "FAIL", "-"};
    size_t width = terminal_width(stdout);
    bool bad = c->verdict == RKNND_CHECK_BAD;
    printf("%s%-*s%s%-*s", bad ? terminal_style(stdout, STYLE_RED) : "", NAME_COLUMN,
           words[c->verdict], bad ? terminal_style(stdout, STYLE_PLAIN) : "",
           FOUND_COLUMN - NAME_COLUMN, c->name);
    terminal_wrap(stdout, c->found, FOUND_COLUMN, width);
    if (*c->advice) {
        printf("%*s-> ", FOUND_COLUMN, "");
        terminal_wrap(stdout, c->advice, FOUND_COLUMN + 3, width);
    }
    fflush(stdout);
}

static void show_finding(struct doctor *d, const rknnd_check *c)
{
    static const char *const words[] = {"good", "note", "bad", "skipped"};
    if (d->checks)
        json_array_append_new(d->checks,
                              json_pack("{s:s, s:s, s:s, s:s}", "check", c->name, "verdict",
                                        words[c->verdict], "found", c->found, "advice", c->advice));
    else
        print_check(c);
}

static const char *json_member(json_t *description, const char *key)
{
    const char *text = json_string_value(json_object_get(description, key));
    return text && *text ? text : "not said";
}

// What the file says of itself, in front of the model's check. A file that cannot be described has
// no line: the check says why.
static void show_file(struct doctor *d)
{
    struct error ignored;
    json_t *description;
    char found[400];
    if (description_get(&d->task, &description, &ignored) != 0)
        return;
    snprintf(found, sizeof found, "container: %s; chip: %s; made by: %s",
             json_member(description, "container"), json_member(description, "chip"),
             json_member(description, "toolkit"));
    show_finding(d, &(rknnd_check){.name = "file", .found = found, .advice = ""});
    json_decref(description);
}

// The progress line of the model's upload is erased before a finding is printed.
static void on_check(void *user, const rknnd_check *c)
{
    struct doctor *d = user;
    progress_erase(&d->progress);
    if (strcmp(c->name, "model") == 0 && c->verdict != RKNND_CHECK_SKIPPED)
        show_file(d);
    show_finding(d, c);
}

// Bad findings are no failure of the call; they become one here, after all checks are shown.
static int diagnose_server(struct doctor *d, struct error *e)
{
    uint32_t n_bad;
    int r = load_options_set(&d->task.shapes, e);
    if (r)
        return r;
    progress_start(&d->progress, "upload");
    progress_erase(&d->progress); // checks are shown as they end
    r = rknnd_diagnose(d->model, on_check, d, &n_bad);
    progress_end(&d->progress);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    r = d->checks ? print_json(d->checks, e) : 0;
    if (r == 0 && n_bad > 0)
        return error_set(e, STATUS_FAIL, "%u check%s failed", n_bad, n_bad == 1 ? "" : "s");
    return r;
}

int cmd_doctor(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct doctor d = {.task = TASK_INIT};
    bool json = false;
    const struct option_row rows[] = {
        TASK_SHAPE(&d.task),
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "doctor [MODEL]",
        .summary =
            "Goes through every hop between a program here and the NPU (the server's URI,\n"
            "its socket or port, the greeting, the device, a computation on each core, the\n"
            "model, adb, USB), says what is wrong and what to do. Fails (1) if something is.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 1, &first, e);
    if (r == 0) {
        d.model = d.task.model = first < argc ? argv[first] : NULL;
        d.checks = json ? json_array() : NULL;
        r = diagnose_server(&d, e);
    }
    task_done(&d.task);
    return r;
}
