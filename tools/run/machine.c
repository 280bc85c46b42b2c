#include "tools/run/machine.h"

#include <stdbool.h>
#include <string.h>

static const struct machine_kind {
    const char *name;
    double per; // of what a reading counts, in the unit that is shown
} machine_kinds[] = {
    [RKNND_SENSOR_TEMPERATURE] = {"temperature", 1e3},
    [RKNND_SENSOR_POWER] = {"power", 1e6},
    [RKNND_SENSOR_ENERGY] = {"energy", 1e6},
    [RKNND_SENSOR_COOLING] = {"cooling", 1},
};

// NULL: of a newer server.
static const struct machine_kind *machine_kind(const rknnd_sensor *s)
{
    return s->kind < sizeof machine_kinds / sizeof *machine_kinds && machine_kinds[s->kind].name
               ? &machine_kinds[s->kind]
               : NULL;
}

void machine_get(struct machine *m)
{
    *m = (struct machine){0};
    if (rknnd_get_sensors(NULL, &m->sensors) < 0)
        snprintf(m->why, sizeof m->why, "%s", rknnd_last_error());
    if (rknnd_get_clocks(NULL, &m->clocks) < 0)
        m->clocks = NULL;
}

void machine_done(struct machine *m)
{
    rknnd_free(m->sensors);
    rknnd_free(m->clocks);
    *m = (struct machine){0};
}

// ---- people -------------------------------------------------------------------------------------

static void machine_print_npu(const struct machine *m, FILE *out)
{
    const char *before = "";
    for (uint32_t i = 0; m->clocks && i < m->clocks->n; i++) {
        const rknnd_clock *c = rknnd_clock_at(m->clocks, i);
        if (strcmp(c->domain, "NPU") != 0)
            continue;
        fprintf(out, "%sNPU %.0f MHz", before, (double)c->hz / 1e6);
        if (*c->governor)
            fprintf(out, " (%s)", c->governor);
        before = ", ";
    }
    if (!*before)
        fputs("no NPU clock", out);
}

// The one with the highest value; NULL: there is none.
static const rknnd_sensor *machine_highest(const struct machine *m, uint32_t kind)
{
    const rknnd_sensor *highest = NULL;
    for (uint32_t i = 0; m->sensors && i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        if (s->kind == kind && (!highest || s->value > highest->value))
            highest = s;
    }
    return highest;
}

static void machine_print_highest(const struct machine *m, uint32_t kind, const char *unit,
                                  FILE *out)
{
    const rknnd_sensor *s = machine_highest(m, kind);
    if (!s) {
        fprintf(out, "no %s sensor", machine_kinds[kind].name);
        return;
    }
    double per = machine_kinds[kind].per;
    fprintf(out, "%.1f", (double)s->value / per);
    if (s->limit > 0)
        fprintf(out, " of %.0f", (double)s->limit / per);
    fprintf(out, " %s (%s)", unit, s->name);
}

// Fans turn; everything else that cools does so by doing less.
static void machine_print_slowed(const struct machine *m, FILE *out)
{
    for (uint32_t i = 0; m->sensors && i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        if (s->kind == RKNND_SENSOR_COOLING && s->value > 0 && !strcasestr(s->name, "fan"))
            fprintf(out, ", slowed down by heat (%s, %lld of %lld)", s->name, (long long)s->value,
                    (long long)s->limit);
    }
}

void machine_print_heat(const struct machine *m, FILE *out)
{
    if (m->sensors) {
        machine_print_highest(m, RKNND_SENSOR_TEMPERATURE, "C", out);
        fputs(", ", out);
        machine_print_highest(m, RKNND_SENSOR_POWER, "W", out);
        machine_print_slowed(m, out);
    } else {
        fprintf(out, "no sensors: %s", m->why);
    }
    fputc('\n', out);
}

void machine_print(const struct machine *m, FILE *out)
{
    fputs("machine: ", out);
    machine_print_npu(m, out);
    fputs(", ", out);
    machine_print_heat(m, out);
}

// ---- programs -----------------------------------------------------------------------------------

json_t *machine_json(const struct machine *m)
{
    if (!m->sensors)
        return json_null();
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        const struct machine_kind *kind = machine_kind(s);
        if (kind)
            json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:f, s:o}", "kind", kind->name, "name", s->name, "value",
                          (double)s->value / kind->per, "limit",
                          s->limit > 0 ? json_real((double)s->limit / kind->per) : json_null()));
    }
    return list;
}
