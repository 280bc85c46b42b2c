// Sensors and clocks in base units (celsius, watts, joules, hertz), as Prometheus wants them. A
// kind that the machine does not have has no series at all, not one with 0.
#include "server/metrics/metrics_machine.h"

#include <inttypes.h>
#include <string.h>

#include "server/metrics/metrics_lines.h"

// ---- sensors ------------------------------------------------------------------------------------

// How a kind is shown: its base unit is `per` of what the reading counts.
struct machine_metric {
    enum sensor_kind kind;
    double per;
    const char *name, *type, *help, *limit, *limit_help;
};

static const struct machine_metric machine_metrics[] = {
    {SENSOR_TEMPERATURE, 1e3, "machine_temperature_celsius", "gauge",
     "What the machine's temperature sensors say.", "machine_temperature_critical_celsius",
     "Where a temperature is critical."},
    {SENSOR_POWER, 1e6, "machine_power_watts", "gauge", "What the machine's power sensors say.",
     "machine_power_limit_watts", "Where power is capped."},
    {SENSOR_ENERGY, 1e6, "machine_energy_joules_total", "counter",
     "Energy taken, as the machine counts it.", NULL, NULL},
    {SENSOR_COOLING, 1, "machine_cooling_state", "gauge",
     "Steps by which the machine slows something down because of heat, or a fan turns.",
     "machine_cooling_state_max", "The most steps of it."},
};

static bool machine_has(const struct reading *now, enum sensor_kind kind, bool limit)
{
    for (size_t i = 0; i < now->n_sensors; i++)
        if (now->sensors[i].kind == kind && (!limit || now->sensors[i].limit > 0))
            return true;
    return false;
}

static void put_sensors(FILE *out, const struct reading *now, const struct machine_metric *m,
                        bool limit)
{
    const char *name = limit ? m->limit : m->name;
    if (!name || !machine_has(now, m->kind, limit))
        return;
    metrics_put_head(out, name, limit ? "gauge" : m->type, limit ? m->limit_help : m->help);
    for (size_t i = 0; i < now->n_sensors; i++) {
        const rknnd_Sensor *s = &now->sensors[i];
        if (s->kind != m->kind || (limit && s->limit <= 0))
            continue;
        fprintf(out, "rknnd_%s{", name);
        metrics_put_label(out, "sensor", s->name);
        fprintf(out, "} %.15g\n", (double)(limit ? s->limit : s->value) / m->per);
    }
}

// ---- clocks -------------------------------------------------------------------------------------

static void put_clock(FILE *out, const char *name, const rknnd_Clock *c)
{
    fprintf(out, "rknnd_%s{", name);
    metrics_put_label(out, "domain", *c->domain ? c->domain : "other");
    fputc(',', out);
    metrics_put_label(out, "clock", c->name);
}

static void put_clocks(FILE *out, const struct reading *now)
{
    metrics_put_head(out, "machine_clock_hertz", "gauge", "How fast the machine is clocked.");
    for (size_t i = 0; i < now->n_clocks; i++) {
        put_clock(out, "machine_clock_hertz", &now->clocks[i]);
        fprintf(out, "} %" PRIu64 "\n", now->clocks[i].hz);
    }
    metrics_put_head(out, "machine_clock_max_hertz", "gauge", "How fast it may be; 0: not known.");
    for (size_t i = 0; i < now->n_clocks; i++) {
        put_clock(out, "machine_clock_max_hertz", &now->clocks[i]);
        fprintf(out, "} %" PRIu64 "\n", now->clocks[i].max_hz);
    }
    metrics_put_head(out, "machine_clock_governor", "gauge", "Who chooses it; always 1.");
    for (size_t i = 0; i < now->n_clocks; i++) {
        put_clock(out, "machine_clock_governor", &now->clocks[i]);
        fputc(',', out);
        metrics_put_label(out, "governor",
                          *now->clocks[i].governor ? now->clocks[i].governor : "none");
        fputs("} 1\n", out);
    }
}

void metrics_machine(FILE *out, const struct reading *now)
{
    metrics_put_head(out, "machine_sensors_answer", "gauge",
                     "1: the machine's sensors were read; 0: a driver hangs.");
    fprintf(out, "rknnd_machine_sensors_answer %d\n", now != NULL);
    if (!now)
        return;
    for (size_t i = 0; i < sizeof machine_metrics / sizeof *machine_metrics; i++) {
        put_sensors(out, now, &machine_metrics[i], false);
        put_sensors(out, now, &machine_metrics[i], true);
    }
    if (now->n_clocks > 0)
        put_clocks(out, now);
}
