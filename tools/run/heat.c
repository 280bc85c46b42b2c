// What a board's sensors say, for `top` and reports. What is absent is said: a board without a
// power sensor and a driver that hangs look different to who reads it.
#include "tools/run/heat.h"

#include <stdbool.h>
#include <string.h>

static const struct heat_kind {
    const char *name;
    double per; // of what a reading counts, in the unit that is shown
} heat_kinds[] = {
    [RKNND_SENSOR_TEMPERATURE] = {"temperature", 1e3},
    [RKNND_SENSOR_POWER] = {"power", 1e6},
    [RKNND_SENSOR_ENERGY] = {"energy", 1e6},
    [RKNND_SENSOR_COOLING] = {"cooling", 1},
};

// NULL: of a newer server.
static const struct heat_kind *heat_kind(const rknnd_sensor *s)
{
    return s->kind < sizeof heat_kinds / sizeof *heat_kinds && heat_kinds[s->kind].name
               ? &heat_kinds[s->kind]
               : NULL;
}

void heat_get(struct heat *m)
{
    *m = (struct heat){0};
    if (rknnd_get_sensors(NULL, &m->sensors) < 0)
        snprintf(m->why, sizeof m->why, "%s", rknnd_last_error());
    if (rknnd_get_clocks(NULL, &m->clocks) < 0)
        m->clocks = NULL;
}

void heat_done(struct heat *m)
{
    rknnd_free(m->sensors);
    rknnd_free(m->clocks);
    *m = (struct heat){0};
}

// ---- people -------------------------------------------------------------------------------------

static void heat_print_npu(const struct heat *m, FILE *out)
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
static const rknnd_sensor *heat_highest(const struct heat *m, uint32_t kind)
{
    const rknnd_sensor *highest = NULL;
    for (uint32_t i = 0; m->sensors && i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        if (s->kind == kind && (!highest || s->value > highest->value))
            highest = s;
    }
    return highest;
}

static void heat_print_highest(const struct heat *m, uint32_t kind, const char *unit, FILE *out)
{
    const rknnd_sensor *s = heat_highest(m, kind);
    if (!s) {
        fprintf(out, "no %s sensor", heat_kinds[kind].name);
        return;
    }
    double per = heat_kinds[kind].per;
    fprintf(out, "%.1f", (double)s->value / per);
    if (s->limit > 0)
        fprintf(out, " of %.0f", (double)s->limit / per);
    fprintf(out, " %s (%s)", unit, s->name);
}

// Fans turn; everything else that cools does so by doing less.
static void heat_print_slowed(const struct heat *m, FILE *out)
{
    for (uint32_t i = 0; m->sensors && i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        if (s->kind == RKNND_SENSOR_COOLING && s->value > 0 && !strcasestr(s->name, "fan"))
            fprintf(out, ", slowed down by heat (%s, %lld of %lld)", s->name, (long long)s->value,
                    (long long)s->limit);
    }
}

void heat_print_rest(const struct heat *m, FILE *out)
{
    if (m->sensors) {
        heat_print_highest(m, RKNND_SENSOR_TEMPERATURE, "C", out);
        fputs(", ", out);
        heat_print_highest(m, RKNND_SENSOR_POWER, "W", out);
        heat_print_slowed(m, out);
    } else {
        fprintf(out, "no sensors: %s", m->why);
    }
    fputc('\n', out);
}

void heat_print(const struct heat *m, FILE *out)
{
    fputs("machine: ", out);
    heat_print_npu(m, out);
    fputs(", ", out);
    heat_print_rest(m, out);
}

// ---- programs -----------------------------------------------------------------------------------

json_t *heat_json(const struct heat *m)
{
    if (!m->sensors)
        return json_null();
    json_t *list = json_array();
    for (uint32_t i = 0; i < m->sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(m->sensors, i);
        const struct heat_kind *kind = heat_kind(s);
        if (kind)
            json_array_append_new(
                list,
                json_pack("{s:s, s:s, s:f, s:o}", "kind", kind->name, "name", s->name, "value",
                          (double)s->value / kind->per, "limit",
                          s->limit > 0 ? json_real((double)s->limit / kind->per) : json_null()));
    }
    return list;
}
