// Whether the server's machine runs slower than it could: who chooses its clocks, and heat.
#include <stdio.h>
#include <string.h>

#include "client/debug/doctor.h"
#include "rknnd.h"

#define NEAR_CRITICAL 10000 // thousandths of a degree

static bool is_slow_governor(const char *governor)
{
    return strcmp(governor, "powersave") == 0;
}

// The NPU, memory and CPUs: all of them are in a run's time.
static void machine_governors(struct checks *checks, const rknnd_list *clocks)
{
    unsigned n = 0, slow = 0;
    for (uint32_t i = 0; i < clocks->n; i++) {
        const rknnd_clock *c = rknnd_clock_at(clocks, i);
        n += *c->governor != 0;
        if (!is_slow_governor(c->governor))
            continue;
        slow++;
        checks_tell(
            checks, RKNND_CHECK_NOTE, "governor",
            "on the server's machine, choose another governor for it (performance, ondemand, "
            "schedutil; rknpu_ondemand or userspace for an NPU)",
            "%s %s is kept at its lowest clock, %.0f MHz, by its governor powersave", c->domain,
            c->name, (double)c->hz / 1e6);
    }
    if (slow == 0)
        checks_tell(checks, n > 0 ? RKNND_CHECK_GOOD : RKNND_CHECK_NOTE, "governor", "",
                    n > 0 ? "no clock is held down by its governor"
                          : "the machine does not tell who chooses its clocks");
}

// A fan that turns is no reason to worry; other devices cool by slowing something down.
static bool is_slowed(const rknnd_sensor *s)
{
    return s->kind == RKNND_SENSOR_COOLING && s->value > 0 && !strcasestr(s->name, "fan");
}

static void machine_heat(struct checks *checks, const rknnd_list *sensors)
{
    const char *cool = "cool the board (heat sink, fan, air), or ask for fewer runs";
    const rknnd_sensor *hottest = NULL;
    bool bad = false;
    for (uint32_t i = 0; i < sensors->n; i++) {
        const rknnd_sensor *s = rknnd_sensor_at(sensors, i);
        bool hot = s->kind == RKNND_SENSOR_TEMPERATURE;
        if (hot && (!hottest || s->value > hottest->value))
            hottest = s;
        if (is_slowed(s))
            checks_tell(checks, RKNND_CHECK_NOTE, "heat", cool,
                        "the machine slows itself down (%s: %lld of %lld)", s->name,
                        (long long)s->value, (long long)s->limit);
        else if (hot && s->limit > 0 && s->value > s->limit - NEAR_CRITICAL)
            checks_tell(checks, RKNND_CHECK_NOTE, "heat", cool,
                        "%s is at %.1f C, and at %.1f C the machine turns itself off", s->name,
                        (double)s->value / 1e3, (double)s->limit / 1e3);
        else
            continue;
        bad = true;
    }
    if (!bad && hottest)
        checks_tell(checks, RKNND_CHECK_GOOD, "heat", "", "%.1f C at the most (%s)",
                    (double)hottest->value / 1e3, hottest->name);
    else if (!bad)
        checks_tell(checks, RKNND_CHECK_NOTE, "heat", "",
                    "the machine has no temperature sensor that the server can read");
}

// A server that knows no SENSORS is from before 0.3, and its clocks may be told all the same.
void doctor_machine(struct checks *checks)
{
    rknnd_list *list = NULL;
    if (rknnd_get_clocks(NULL, &list) == 0)
        machine_governors(checks, list);
    else
        checks_tell(checks, RKNND_CHECK_NOTE, "governor", "", "%s", rknnd_last_error());
    rknnd_free(list);
    list = NULL;
    if (rknnd_get_sensors(NULL, &list) == 0)
        machine_heat(checks, list);
    else
        checks_tell(checks, RKNND_CHECK_NOTE, "heat", "", "%s", rknnd_last_error());
    rknnd_free(list);
}
