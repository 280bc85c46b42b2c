// Tables of who uses the device: rates between two looks at a server's counters, or since the
// server began. Counters only grow; a client or model that the first look did not have counts from
// 0.
#include "tools/view/usage.h"

#include <stdbool.h>
#include <string.h>

#include "tools/format/format.h"
#include "tools/format/table.h"

// Two looks and the time between them, by the server's clock. `before` NULL: since the server
// began.
struct span {
    const rknnd_stats *before, *now;
    double seconds;
};

// By the client's number, which a server never uses twice.
static const rknnd_client_stats *earlier_client(const struct span *s, uint64_t client)
{
    for (uint32_t i = 0; s->before && i < s->before->clients->n; i++)
        if (rknnd_client_stats_at(s->before->clients, i)->client == client)
            return rknnd_client_stats_at(s->before->clients, i);
    return NULL;
}

// The same model at the first look. One that was unloaded and loaded again has smaller counters:
// then there is no earlier one, and differences do not wrap.
static const rknnd_model_stats *earlier_model(const struct span *s, const rknnd_model_stats *m)
{
    for (uint32_t i = 0; s->before && i < s->before->models->n; i++) {
        const rknnd_model_stats *old = rknnd_model_stats_at(s->before->models, i);
        if (strcmp(old->name, m->name) == 0 && old->worker_pid == m->worker_pid &&
            old->jobs <= m->jobs)
            return old;
    }
    return NULL;
}

static double per_second(const struct span *s, uint64_t now, uint64_t before)
{
    return s->seconds > 0 ? (double)(now - before) / s->seconds : 0;
}

// 100 % is one core: microseconds of device time per second, over 10,000.
static double usage_percent(const struct span *s, uint64_t now_us, uint64_t before_us)
{
    return per_second(s, now_us, before_us) / 1e4;
}

// Mean of n times; "-" where nothing happened between the looks.
static void mean_cell(struct table *t, uint64_t us, uint64_t n)
{
    struct format_buffer b;
    if (n)
        table_cell(t, "%s", format_us(&b, us / n));
    else
        table_cell(t, "-");
}

// Uptime, jobs of all clients, and each core's load.
static void print_head(const struct span *s, FILE *out)
{
    struct format_buffer b;
    uint32_t waiting = 0, running = 0;
    for (uint32_t i = 0; i < s->now->clients->n; i++) {
        waiting += rknnd_client_stats_at(s->now->clients, i)->jobs_waiting;
        running += rknnd_client_stats_at(s->now->clients, i)->jobs_running;
    }
    fprintf(out,
            "up %s, %u job%s waiting, %u running; cores:", format_uptime(&b, s->now->uptime_ms),
            waiting, waiting == 1 ? "" : "s", running);
    for (uint32_t i = 0; i < s->now->cores->n; i++) {
        uint64_t before = s->before && i < s->before->cores->n
                              ? rknnd_core_stats_at(s->before->cores, i)->busy_us
                              : 0;
        fprintf(out, " %.0f%%",
                usage_percent(s, rknnd_core_stats_at(s->now->cores, i)->busy_us, before));
    }
    fputs("\n\n", out);
}

static int print_table(const struct table *t, const char *nothing, FILE *out, size_t width)
{
    if (t->n_cells > 0)
        return table_print(t, out, "", width);
    fputs(nothing, out);
    return t->failed ? -1 : 0;
}

// A live client sends something every second.
#define SILENT_MS 3000

static void state_cell(struct table *t, const rknnd_client_stats *c)
{
    struct format_buffer b;
    if (c->stopped)
        table_cell(t, "stopped");
    else if (c->silent_ms >= SILENT_MS)
        table_cell(t, "silent %s", format_uptime(&b, c->silent_ms));
    else
        table_cell(t, "-");
}

// Local clients have a user, remote ones an address: "tcp, 192.168.7.2".
static const char *shown_user(const rknnd_client_stats *c)
{
    bool local = strncmp(c->origin, "unix", 4) == 0 || !c->origin[0];
    return local ? c->user : c->origin;
}

// Clients that have no context and have run nothing, like rknnctl itself, are left out.
static int print_clients(const struct span *s, FILE *out, size_t width)
{
    static const struct table_column columns[] = {
        {"CLIENT", TABLE_RIGHT, TABLE_FIXED, 0},   {"USER", TABLE_LEFT, TABLE_FIXED, 0},
        {"PROGRAM", TABLE_LEFT, TABLE_CUT_END, 0}, {"CTX", TABLE_RIGHT, TABLE_FIXED, 0},
        {"WAIT", TABLE_RIGHT, TABLE_FIXED, 0},     {"JOBS/S", TABLE_RIGHT, TABLE_FIXED, 0},
        {"DEVICE", TABLE_RIGHT, TABLE_FIXED, 0},   {"QUEUED", TABLE_RIGHT, TABLE_FIXED, 0},
        {"FAILED", TABLE_RIGHT, TABLE_FIXED, 0},   {"STATE", TABLE_LEFT, TABLE_FIXED, 0},
    };
    static const rknnd_client_stats nothing;
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < s->now->clients->n; i++) {
        const rknnd_client_stats *c = rknnd_client_stats_at(s->now->clients, i),
                                 *old = earlier_client(s, c->client);
        if (c->contexts == 0 && c->jobs_done + c->jobs_failed == 0)
            continue; // someone who only looks
        old = old ? old : &nothing;
        table_cell(&t, "%llu", (unsigned long long)c->client);
        table_cell(&t, "%s", shown_user(c));
        table_cell(&t, "%s", c->program);
        table_cell(&t, "%u", c->contexts);
        table_cell(&t, "%u", c->jobs_waiting);
        table_cell(&t, "%.1f", per_second(s, c->jobs_done, old->jobs_done));
        table_cell(&t, "%.0f%%", usage_percent(s, c->core_us, old->core_us));
        mean_cell(&t, c->queue_us - old->queue_us,
                  c->jobs_done + c->jobs_failed - old->jobs_done - old->jobs_failed);
        table_cell(&t, "%llu", (unsigned long long)c->jobs_failed);
        state_cell(&t, c);
    }
    int r = print_table(&t, "no clients\n", out, width);
    table_done(&t);
    return r;
}

// Rates of a model; its worker's process and how often one died.
static int print_models(const struct span *s, FILE *out, size_t width)
{
    static const struct table_column columns[] = {
        {"MODEL", TABLE_LEFT, TABLE_CUT_END, 0}, {"CTX", TABLE_RIGHT, TABLE_FIXED, 0},
        {"JOBS/S", TABLE_RIGHT, TABLE_FIXED, 0}, {"RUN", TABLE_RIGHT, TABLE_FIXED, 0},
        {"MEMORY", TABLE_RIGHT, TABLE_FIXED, 0}, {"WORKER", TABLE_RIGHT, TABLE_FIXED, 0},
        {"DEATHS", TABLE_RIGHT, TABLE_FIXED, 0},
    };
    static const rknnd_model_stats nothing;
    struct format_buffer b;
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < s->now->models->n; i++) {
        const rknnd_model_stats *m = rknnd_model_stats_at(s->now->models, i),
                                *old = earlier_model(s, m);
        old = old ? old : &nothing;
        table_cell(&t, "%s", m->name);
        table_cell(&t, "%u", m->contexts);
        table_cell(&t, "%.1f", per_second(s, m->jobs, old->jobs));
        mean_cell(&t, m->run_us - old->run_us, m->jobs - old->jobs);
        table_cell(&t, "%s", format_bytes(&b, m->memory_size));
        if (m->worker_pid)
            table_cell(&t, "%u", m->worker_pid);
        else
            table_cell(&t, "-");
        table_cell(&t, "%u", m->worker_deaths);
    }
    int r = print_table(&t, "no models\n", out, width);
    table_done(&t);
    return r;
}

// The span is measured by the server's uptime, so that a slow link does not distort rates.
int usage_print(const rknnd_stats *before, const rknnd_stats *now, FILE *out, size_t width)
{
    uint64_t ms = now->uptime_ms - (before ? before->uptime_ms : 0);
    const struct span s = {before, now, (double)ms / 1e3};
    print_head(&s, out);
    int r = print_clients(&s, out, width);
    fputc('\n', out);
    return print_models(&s, out, width) < 0 ? -1 : r;
}
