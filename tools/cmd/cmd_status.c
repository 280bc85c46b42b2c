// rknnctl status: what the server holds and has done, as counters of the whole server.
#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"

// Gauges (what is held now) and counters (since the start), in groups.
static void print_text(const rknnd_server_info *info, const rknnd_server_status *s)
{
    struct format_buffer b, c;
    report_heading("%s: %s", info->uri, info->software);
    report_line("up", "%s", format_uptime(&b, s->uptime_ms));
    report_line("device", "%s, %u core%s, backend %s", info->chip, info->n_cores,
                info->n_cores == 1 ? "" : "s", info->backend);
    report_line("runtime", "%s", *info->runtime_version ? info->runtime_version : "-");
    report_line("driver", "%s", *info->driver_version ? info->driver_version : "-");
    report_line("isolation", "%s, %u worker%s, %llu died", s->isolation, s->workers,
                s->workers == 1 ? "" : "s", (unsigned long long)s->worker_deaths);
    report_line("clients", "%u connection%s, %u session%s, %u context%s", s->connections,
                s->connections == 1 ? "" : "s", s->sessions, s->sessions == 1 ? "" : "s",
                s->contexts, s->contexts == 1 ? "" : "s");
    report_line("models", "%u loaded (%s), %s cached", s->models, format_bytes(&b, s->model_bytes),
                format_bytes(&c, s->cached_bytes));
    report_line("uploads", "%u unfinished (%s)", s->uploads, format_bytes(&b, s->upload_bytes));
    report_line("buffers", "%s", format_bytes(&b, s->buffer_bytes));
    report_line("jobs", "%u waiting, %u running", s->jobs_waiting, s->jobs_running);
    report_line("", "%llu done, %llu failed, %llu run twice", (unsigned long long)s->jobs_done,
                (unsigned long long)s->jobs_failed, (unsigned long long)s->jobs_retried);
}

// Two requests: the server's constants, then its counters. They need not be of the same moment.
int cmd_status(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool json = false;
    const struct option_row rows[] = {
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "status",
        .summary =
            "Shows what the server holds and has done since it started. The connection that\n"
            "asks counts itself.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    rknnd_server_info info;
    rknnd_server_status status;
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    if (r == 0)
        r = report_get_server(&info, e);
    if (r == 0)
        r = report_get_status(&status, e);
    if (r)
        return r;
    if (json)
        return report_json(report_status_json(&status), e);
    print_text(&info, &status);
    return 0;
}
