// How fast the server's machine is clocked. Measured times mean little without it: a governor that
// has lowered the NPU's or the DDR's clock explains a slow run.
#include "tools/run/frequencies.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

#define MAX_SHOWN 4 // of a domain, one by one

int frequencies_get(struct frequencies *q, struct error *e)
{
    *q = (struct frequencies){0};
    int r = rknnd_get_clocks(NULL, &q->list);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

void frequencies_done(struct frequencies *q)
{
    rknnd_free(q->list);
    *q = (struct frequencies){0};
}

// The list is in the server's order, a domain's clocks need not be neighbours.
static bool is_first_of_domain(const struct frequencies *q, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(rknnd_clock_at(q->list, k)->domain, rknnd_clock_at(q->list, i)->domain) == 0)
            return false;
    return true;
}

static double format_mhz(uint64_t hz)
{
    return (double)hz / 1e6;
}

// "594 of 1000 MHz (clk_npu, rknpu_ondemand)"; the maximum only where it differs.
static void print_one(const char *title, const rknnd_clock *c)
{
    char max[40] = "", governor[64] = "";
    if (c->max_hz && c->max_hz != c->hz)
        snprintf(max, sizeof max, " of %.0f", format_mhz(c->max_hz));
    if (*c->governor)
        snprintf(governor, sizeof governor, ", %s", c->governor);
    print_line(title, "%.0f%s MHz (%s%s)", format_mhz(c->hz), max, c->name, governor);
}

// A line for each clock, or, of a domain with many (CPU cores), one line with their range.
static void print_domain(const struct frequencies *q, uint32_t first)
{
    const char *domain = rknnd_clock_at(q->list, first)->domain,
               *title = *domain ? domain : "other";
    uint64_t min = UINT64_MAX, max = 0;
    uint32_t n = 0;
    for (uint32_t i = first; i < q->list->n; i++) {
        const rknnd_clock *c = rknnd_clock_at(q->list, i);
        if (strcmp(c->domain, domain) != 0)
            continue;
        min = c->hz < min ? c->hz : min;
        max = c->hz > max ? c->hz : max;
        n++;
    }
    if (n > MAX_SHOWN)
        print_line(title, "%.0f to %.0f MHz, %u clocks", format_mhz(min), format_mhz(max), n);
    for (uint32_t i = first; i < q->list->n && n <= MAX_SHOWN; i++)
        if (strcmp(rknnd_clock_at(q->list, i)->domain, domain) == 0)
            print_one(i == first ? title : "", rknnd_clock_at(q->list, i));
}

// One entry for each domain, at the place of its first clock.
void frequencies_print(const struct frequencies *q)
{
    if (!q->list)
        return;
    print_heading("Frequencies");
    if (q->list->n == 0)
        print_line("none", "the server's machine does not tell them");
    for (uint32_t i = 0; i < q->list->n; i++)
        if (is_first_of_domain(q, i))
            print_domain(q, i);
}

// All clocks, not summarized; hertz.
json_t *frequencies_json(const struct frequencies *q)
{
    json_t *list = json_array();
    for (uint32_t i = 0; q->list && i < q->list->n; i++) {
        const rknnd_clock *c = rknnd_clock_at(q->list, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:s}", "domain", c->domain,
                                              "name", c->name, "hz", (json_int_t)c->hz, "max_hz",
                                              (json_int_t)c->max_hz, "governor", c->governor));
    }
    return list;
}
