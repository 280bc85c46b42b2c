// rknnctl status: what the server holds and has done, as counters of the whole server.
#include "tools/format/format.h"
#include "tools/format/table.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

// Gauges (what is held now) and counters (since the start), in groups.
static void status_print_text(const rknnd_server_info *info, const rknnd_server_status *s)
{
    struct format_buffer b, c;
    print_heading("%s: %s", info->uri, info->software);
    print_line("up", "%s", format_uptime(&b, s->uptime_ms));
    print_line("device", "%s, %u core%s, backend %s", info->chip, info->n_cores,
               info->n_cores == 1 ? "" : "s", info->backend);
    print_line("runtime", "%s", *info->runtime_version ? info->runtime_version : "-");
    print_line("driver", "%s", *info->driver_version ? info->driver_version : "-");
    print_line("isolation", "%s, %u worker%s, %llu died", s->isolation, s->workers,
               s->workers == 1 ? "" : "s", (unsigned long long)s->worker_deaths);
    print_line("clients", "%u connection%s, %u session%s, %u context%s", s->connections,
               s->connections == 1 ? "" : "s", s->sessions, s->sessions == 1 ? "" : "s",
               s->contexts, s->contexts == 1 ? "" : "s");
    print_line("models", "%u loaded (%s), %s cached", s->models, format_bytes(&b, s->model_bytes),
               format_bytes(&c, s->cached_bytes));
    print_line("uploads", "%u unfinished (%s)", s->uploads, format_bytes(&b, s->upload_bytes));
    print_line("buffers", "%s", format_bytes(&b, s->buffer_bytes));
    print_line("jobs", "%u waiting, %u running", s->jobs_waiting, s->jobs_running);
    print_line("", "%llu done, %llu failed, %llu run twice", (unsigned long long)s->jobs_done,
               (unsigned long long)s->jobs_failed, (unsigned long long)s->jobs_retried);
    print_line("loop", "longest turn %.1f ms; %llu of more than 50 ms (processor: %.1f ms)",
               (double)s->longest_turn_us / 1e3, (unsigned long long)s->slow_turns,
               (double)s->longest_turn_cpu_us / 1e3);
    if (s->lines_left_out)
        print_line("log", "%llu lines left out, as nobody read standard error",
                   (unsigned long long)s->lines_left_out);
}

// ---- who has how much ---------------------------------------------------------------------------

static void limits_print(const rknnd_list *list)
{
    static const struct table_column columns[] = {
        {"user", TABLE_LEFT, TABLE_CUT_END, 0},    {"program", TABLE_RIGHT, TABLE_FIXED, 0},
        {"what", TABLE_LEFT, TABLE_FIXED, 0},      {"has", TABLE_RIGHT, TABLE_FIXED, 0},
        {"may have", TABLE_RIGHT, TABLE_FIXED, 0}, {"by", TABLE_LEFT, TABLE_FIXED, 0}};
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < list->n; i++) {
        const rknnd_limit *l = rknnd_limit_at(list, i);
        struct format_buffer used, limit;
        table_cell(&t, "%s", *l->user ? l->user : "all");
        if (l->client)
            table_cell(&t, "%u", l->client);
        else
            table_cell(&t, "%s", "");
        table_cell(&t, "%s", l->key);
        if (l->bytes) {
            table_cell(&t, "%s", format_bytes(&used, l->used));
            table_cell(&t, "%s", format_bytes(&limit, l->limit));
        } else {
            table_cell(&t, "%llu", (unsigned long long)l->used);
            table_cell(&t, "%llu", (unsigned long long)l->limit);
        }
        table_cell(&t, "%s", l->quota ? "quota" : "");
    }
    table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
}

static json_t *limits_json(const rknnd_list *list)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < list->n; i++) {
        const rknnd_limit *l = rknnd_limit_at(list, i);
        json_array_append_new(all, json_pack("{s:s, s:I, s:s, s:b, s:b, s:I, s:I}", "user", l->user,
                                             "client", (json_int_t)l->client, "key", l->key,
                                             "bytes", (int)l->bytes, "quota", (int)l->quota, "used",
                                             (json_int_t)l->used, "limit", (json_int_t)l->limit));
    }
    return json_pack("{s:o}", "limits", all);
}

static int status_limits(bool json, struct error *e)
{
    rknnd_list *limits;
    int r = rknnd_get_limits(NULL, &limits);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (json)
        r = print_json(limits_json(limits), e);
    else
        limits_print(limits);
    rknnd_free(limits);
    return r;
}

// ---- what the configuration says ----------------------------------------------------------------

static void setting_cell(struct table *t, const rknnd_setting *s, uint64_t value)
{
    struct format_buffer b;
    if (s->bytes)
        table_cell(t, "%s", format_bytes(&b, value));
    else
        table_cell(t, "%llu", (unsigned long long)value);
}

static void settings_print(const rknnd_list *list)
{
    static const struct table_column columns[] = {{"setting", TABLE_LEFT, TABLE_FIXED, 0},
                                                  {"now", TABLE_RIGHT, TABLE_FIXED, 0},
                                                  {"default", TABLE_RIGHT, TABLE_FIXED, 0}};
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < list->n; i++) {
        const rknnd_setting *s = rknnd_setting_at(list, i);
        table_cell(&t, "%s", s->name);
        setting_cell(&t, s, s->value);
        setting_cell(&t, s, s->usual);
    }
    table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
}

static json_t *settings_json(const rknnd_list *list)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < list->n; i++) {
        const rknnd_setting *s = rknnd_setting_at(list, i);
        json_array_append_new(all, json_pack("{s:s, s:b, s:I, s:I}", "name", s->name, "bytes",
                                             (int)s->bytes, "value", (json_int_t)s->value,
                                             "default", (json_int_t)s->usual));
    }
    return json_pack("{s:o}", "settings", all);
}

static int status_settings(bool json, struct error *e)
{
    rknnd_list *settings;
    int r = rknnd_get_settings(NULL, &settings);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (settings->n == 0)
        r = error_set(e, STATUS_FAIL, "the server does not tell them: it is of an earlier version");
    else if (json)
        r = print_json(settings_json(settings), e);
    else
        settings_print(settings);
    rknnd_free(settings);
    return r;
}

// Two requests: the server's constants, then its counters. They need not be of the same moment.
int cmd_status(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool json = false, limits = false, numbers = false;
    const struct option_row rows[] = {
        {0, "limits", OPTION_FLAG, &limits, NULL, "who has how much of what programs may hold", 0,
         0, NULL},
        {0, "settings", OPTION_FLAG, &numbers, NULL, "numbers of its configuration, as they count",
         0, 0, NULL},
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "status [--limits|--settings]",
        .summary =
            "Shows what the server holds and has done since it started. The connection that\n"
            "asks counts itself.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    rknnd_server_info info;
    rknnd_server_status status;
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r == 0 && limits && numbers)
        r = error_set(e, STATUS_PARAM_INVALID, "either --limits or --settings");
    if (r == 0 && limits)
        return status_limits(json, e);
    if (r == 0 && numbers)
        return status_settings(json, e);
    if (r == 0)
        r = print_get_server(&info, e);
    if (r == 0)
        r = print_get_status(&status, e);
    if (r)
        return r;
    if (json)
        return print_json(print_status_json(&status), e);
    status_print_text(&info, &status);
    return 0;
}
