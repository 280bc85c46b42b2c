// One probe after the other, on one target after the other: nothing runs at the same time, so that
// what hangs is known by name.
#include "tools/board/board_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tensor/chip.h"
#include "tools/board/facts.h"
#include "tools/board/journal.h"
#include "tools/board/judge.h"
#include "tools/board/outcome.h"
#include "tools/board/private_daemon.h"
#include "tools/board/probe_process.h"
#include "tools/board/targets.h"
#include "tools/board/try.h"
#include "tools/ui/interrupt.h"
#include "tools/ui/print.h"

#define ALL_MS   600000u // ten minutes
#define PROBE_MS 45000u
#define SHORT_MS 3000u // less is not worth a beginning
#define ANY_CHIP "rk3588"
#define START    "start" // whether it is there
#define ALIVE    "alive" // whether it still is

struct state {
    const struct board_plan *plan;
    struct kit kit;
    struct journal journal;
    FILE *log;
    uint64_t began_ms;
    json_t *facts, *targets, *results; // results: of each probe, in the kit's order
    struct target all[TARGETS_MAX];
    const char *given_up[TARGETS_MAX]; // why the target is not asked any more
    int n;
    char chip[64];
};

// Of the ten minutes, in milliseconds.
static uint32_t time_left(const struct state *s)
{
    uint64_t gone = clock_ms() - s->began_ms;
    return gone >= ALL_MS ? 0 : (uint32_t)(ALL_MS - gone);
}

// ---- one thing at a time ----

// Words for how a probe's process ended, where it has no answer to say it with.
static const char *const ends[] = {[WATCH_DIED] = "its process died",
                                   [WATCH_LATE] = "it did not end in time, and was ended",
                                   [WATCH_STUCK] = "it hangs in a driver, and cannot be ended",
                                   [WATCH_STOPPED] = "stopped by Ctrl-C"};

// Its answer, or {"failed"}. On the disk before it begins; *ret_end: how it ended.
static json_t *try_watched(struct state *s, struct trial *trial, const char *name,
                           enum watch_end *ret_end, uint64_t *ret_ms, struct error *e)
{
    uint32_t left = time_left(s), limit = left < PROBE_MS ? left : PROBE_MS;
    char folder[SERVER_FOLDER] = "";
    if (!trial->target->uri && server_folder_make(folder, e) < 0)
        return NULL;
    if (journal_begin(&s->journal, trial->target->name, name, e) < 0) {
        server_folder_remove(folder);
        return NULL;
    }
    fprintf(s->log, "== %s on %s\n", name, trial->target->name);
    trial->folder = folder;
    struct watched w = watch_run(try_probe, trial, limit, fileno(s->log));
    trial->folder = NULL;
    server_folder_remove(folder);
    fseek(s->log, 0, SEEK_END);
    *ret_end = w.end;
    *ret_ms = w.ns / 1000000;
    if (w.end != WATCH_STUCK && journal_end(&s->journal, trial->target->name, name, e) < 0) {
        json_decref(w.answer);
        return NULL;
    }
    if (w.end == WATCH_DONE)
        return w.answer;
    if (w.end == WATCH_DIED && w.signal)
        return json_pack("{s:o}", "failed", json_sprintf("%s: signal %d", ends[w.end], w.signal));
    return json_pack("{s:s}", "failed", ends[w.end]);
}

// The journal's word on a probe, for people: what is not repeated says how to repeat it.
static const char *past_words(const struct state *s, const struct target *t, const char *name)
{
    switch (journal_past(&s->journal, t->name, name)) {
    case JOURNAL_REBOOTED:
        return "not repeated: the machine was started again while it was running "
               "(--probe NAME tries it all the same)";
    case JOURNAL_CUT:
        return "not repeated: the kit ended without a word while it was running "
               "(--probe NAME tries it all the same)";
    default:
        return NULL;
    }
}

// Opening a driver may hang as well: it is watched as a probe is.
static int look_at_target(struct state *s, int i, struct error *e)
{
    struct target *t = &s->all[i];
    struct trial trial = {.target = t, .kit = &s->kit};
    enum watch_end end;
    uint64_t ms;
    const char *past = s->plan->only.n ? NULL : past_words(s, t, START);
    json_t *answer =
        past ? json_pack("{s:s}", "failed", past) : try_watched(s, &trial, START, &end, &ms, e);
    if (!answer)
        return e->code;
    const char *why = json_string_value(json_object_get(answer, "failed"));
    json_object_set_new(answer, "name", json_string(t->name));
    json_object_set_new(answer, "words", json_string(t->words));
    json_object_set_new(answer, "there", json_boolean(!why));
    if (!t->uri) // a daemon of the kit's own, in some temporary folder
        json_object_del(json_object_get(answer, "server"), "uri");
    facts_without_names(answer);
    json_array_append_new(s->targets, answer);
    if (why)
        s->given_up[i] = "it is not there";
    outcome_show_target(answer);
    return 0;
}

// The target is not asked any more.
static void give_up(struct state *s, int i, const char *why)
{
    s->given_up[i] = why;
    fprintf(stderr, "%-16s %-9s %s\n", "", s->all[i].name, why);
}

// After a failure: does the simplest one still come right? Else the target is left alone. Where
// that stopped the machine once it is not tried again: the failure would lead there each time.
static int check_alive(struct state *s, int i, struct error *e)
{
    if (!s->plan->only.n && past_words(s, &s->all[i], ALIVE)) {
        give_up(s, i, "after a failure here the machine stopped once: it is left alone");
        return 0;
    }
    struct trial trial = {.target = &s->all[i],
                          .kit = &s->kit,
                          .probe = json_array_get(json_object_get(s->kit.table, "probes"), 0)};
    enum watch_end end;
    uint64_t ms;
    json_t *answer = try_watched(s, &trial, ALIVE, &end, &ms, e);
    if (!answer)
        return e->code;
    if (json_object_get(answer, "failed"))
        give_up(s, i, "after a failure the simplest model fails, too: it is left alone");
    json_decref(answer);
    return 0;
}

// A result of what was not tried, with the reason.
static json_t *skipped(const char *why)
{
    return json_pack("{s:s, s:s}", "is", "skipped", "words", why);
}

// By --probe, which overrides what is risky and what the journal says.
static bool is_named(const struct state *s, const char *id)
{
    for (size_t i = 0; i < s->plan->only.n; i++)
        if (strcmp(s->plan->only.items[i], id) == 0)
            return true;
    return false;
}

// Why a probe is not tried there; NULL: it is.
static const char *why_not(const struct state *s, json_t *probe, int i)
{
    const char *id = json_string_value(json_object_get(probe, "id"));
    bool named = is_named(s, id);
    if (s->given_up[i])
        return s->given_up[i];
    if (json_object_get(probe, "cores") && !target_joins_cores(&s->all[i]))
        return "its driver gives a run one core";
    if (json_object_get(probe, "risk") && target_is_hardware(&s->all[i]) && !named)
        return "risky: only with --probe";
    if (interrupt_seen())
        return "stopped by Ctrl-C";
    if (time_left(s) < SHORT_MS)
        return "the ten minutes are over";
    return named ? NULL : past_words(s, &s->all[i], id);
}

// A probe on a target, and what follows of its end for the target.
static int run_on_target(struct state *s, json_t *probe, int i, json_t *results, struct error *e)
{
    const char *id = json_string_value(json_object_get(probe, "id")), *why = why_not(s, probe, i);
    struct trial trial = {.target = &s->all[i], .kit = &s->kit, .probe = probe};
    enum watch_end end = WATCH_DONE;
    uint64_t ms = 0;
    json_t *answer = NULL, *verdict;
    if (!why && !(answer = try_watched(s, &trial, id, &end, &ms, e)))
        return e->code;
    verdict = why ? skipped(why) : judge_answer(&s->kit, probe, answer);
    outcome_add_times(verdict, answer, ms);
    json_object_set_new(verdict, "target", json_string(s->all[i].name));
    json_array_append_new(results, facts_without_names(verdict));
    if (!why || why != s->given_up[i])
        outcome_show_verdict(id, verdict);
    bool failed = !why && json_object_get(answer, "failed"),
         refused = json_integer_value(json_object_get(answer, "code")) == STATUS_MODEL_INVALID;
    json_decref(answer);
    if (end == WATCH_STUCK)
        s->given_up[i] = "a driver holds a process that cannot be ended: it is left alone";
    else if (failed && !refused && target_is_hardware(&s->all[i]) && end != WATCH_STOPPED)
        return check_alive(s, i, e);
    return 0;
}

// In the kit's order, which begins with the simplest. Rows of probes that were not asked for stay,
// without results: the page says that they exist.
static int run_probes(struct state *s, struct error *e)
{
    json_t *probe;
    size_t p;
    json_array_foreach(json_object_get(s->kit.table, "probes"), p, probe)
    {
        json_t *results = json_array(), *row = json_copy(probe);
        json_object_del(row, "inputs");
        json_object_set_new(row, "results", results);
        json_array_append_new(s->results, row);
        if (s->plan->only.n && !is_named(s, json_string_value(json_object_get(probe, "id"))))
            continue;
        for (int i = 0; i < s->n; i++) {
            int r = run_on_target(s, probe, i, results, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

// ---- all of it ----

// As asked, as the server or the device tree says, or any, which is said. Variants (RK3588S) are
// as the chip they are of.
static int choose_chip(struct state *s, struct error *e)
{
    rknnd_server_info info = {.struct_size = sizeof info};
    const char *found = json_string_value(json_object_get(s->facts, "chip"));
    if (s->plan->chip)
        found = s->plan->chip;
    else if (s->plan->server) {
        int r = print_get_server(&info, e);
        if (r < 0)
            return r;
        found = strcmp(info.chip, "any") == 0 ? NULL : info.chip;
    }
    if (!found)
        json_array_append_new(json_object_get(s->facts, "hints"),
                              json_string("No chip was found, so models for " ANY_CHIP
                                          " are used, and what is compared is the emulator and the "
                                          "software NPU. --chip NAME takes another."));
    const struct chip *known = chip_find_variant(found ? found : ANY_CHIP);
    snprintf(s->chip, sizeof s->chip, "%s", known ? known->name : found);
    return 0;
}

// Of earlier kits: whoever starts this one again after a reboot learns at once what it was.
static void tell_of_past(struct state *s)
{
    json_t *hints = json_object_get(s->facts, "hints");
    for (int i = 0; i < s->n; i++)
        journal_tell(&s->journal, s->all[i].name, hints);
}

// Before anything runs: a name that is spelled wrongly should not cost ten minutes.
static int check_names(const struct state *s, struct error *e)
{
    for (size_t i = 0; i < s->plan->only.n; i++)
        if (!kit_probe(&s->kit, s->plan->only.items[i]))
            return error_set(e, STATUS_PARAM_INVALID,
                             "there is no probe \"%s\" for %s (--probes says which there are)",
                             s->plan->only.items[i], s->chip);
    return 0;
}

// What can fail without a board fails here, before anything is tried: names, folders, the kit
// itself.
static int prepare(struct state *s, struct error *e)
{
    s->began_ms = clock_ms();
    s->facts = facts_look();
    s->targets = json_array();
    s->results = json_array();
    s->log = server_log_new(e);
    if (!s->log)
        return e->code;
    if (!s->facts || !s->targets || !s->results)
        return error_no_memory(e, "what is found", 0);
    int r = choose_chip(s, e);
    if (r == 0)
        r = kit_open(&s->kit, s->plan->models, s->chip, e);
    if (r == 0)
        r = check_names(s, e);
    return r == 0 ? targets_fill(s->plan, s->chip, s->all, &s->n, e) : r;
}

// Also after a failure in the middle.
static void finish(struct state *s)
{
    journal_close(&s->journal);
    kit_close(&s->kit);
    json_decref(s->facts);
    json_decref(s->targets);
    json_decref(s->results);
    if (s->log)
        fclose(s->log);
}

// All that there is to say. The inputs of probes are not in it: they are the kit's.
static json_t *result_json(const struct state *s)
{
    return json_pack("{s:s, s:o, s:s, s:O, s:O, s:O, s:O?, s:O?, s:I}", "tool", rknnd_version(),
                     "date", print_json_date(), "chip", s->chip, "facts",
                     facts_without_names(s->facts), "targets", s->targets, "probes", s->results,
                     "by_hand", json_object_get(s->kit.table, "by_hand"), "unwritten",
                     json_object_get(s->kit.table, "unwritten"), "seconds",
                     (json_int_t)((clock_ms() - s->began_ms) / 1000));
}

// Ctrl-C ends the probe that runs and skips the others; what was found until then is written all
// the same.
int board_test_execute(const struct board_plan *plan, struct error *e)
{
    struct state s = {.plan = plan, .journal = {.fd = -1}};
    int r = prepare(&s, e);
    if (r == 0)
        r = outcome_check_files(plan, e);
    if (r == 0)
        r = journal_open(&s.journal, plan->journal, e);
    if (r == 0) {
        interrupt_defer();
        server_folders_sweep();
        tell_of_past(&s);
        outcome_show_facts(s.facts, s.chip);
        for (int i = 0; i < s.n && r == 0; i++)
            r = look_at_target(&s, i, e);
    }
    if (r == 0)
        r = run_probes(&s, e);
    if (r == 0)
        r = outcome_write(plan, result_json(&s), s.log, e);
    finish(&s);
    return r;
}

// Of the chip that board-test would take; nothing is tried.
int board_test_list(const struct board_plan *plan, struct error *e)
{
    struct state s = {.plan = plan, .journal = {.fd = -1}};
    int r = prepare(&s, e);
    if (r == 0)
        r = outcome_list(s.kit.table, plan->json, e);
    finish(&s);
    return r;
}
