// Numbers, sizes, times and shapes for people. Results are in the caller's buffer.
#include "tools/format/format.h"

#include <stdio.h>

// Three significant digits of a value below 1,000; what rounds to 1,000 is the next unit's.
static int digits_after_point(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

// The largest unit in which the value is at least 1. The bound is what rounds up to `step`: "1024
// KiB" and "1000 ms" do not occur.
static const char *format_scaled(struct format_buffer *b, uint64_t number, double step,
                                 const char *const units[], size_t n_units)
{
    double value = (double)number;
    size_t unit = 0;
    while (unit + 1 < n_units && value >= (step > 1000 ? 1023.5 : 999.5)) {
        value /= step;
        unit++;
    }
    int digits = unit == 0 ? 0 : digits_after_point(value);
    snprintf(b->text, sizeof b->text, "%.*f %s", digits, value, units[unit]);
    return b->text;
}

const char *format_bytes(struct format_buffer *b, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return format_scaled(b, bytes, 1024, units, sizeof units / sizeof *units);
}

const char *format_ns(struct format_buffer *b, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return format_scaled(b, ns, 1000, units, sizeof units / sizeof *units);
}

const char *format_us(struct format_buffer *b, uint64_t us)
{
    static const char *const units[] = {"us", "ms", "s"};
    return format_scaled(b, us, 1000, units, sizeof units / sizeof *units);
}

// snprintf() returns what it would have written: n may pass the buffer's size, and ends the loop
// then.
const char *format_dims(struct format_buffer *b, const uint32_t *dims, uint32_t n_dims)
{
    size_t n = 0;
    snprintf(b->text, sizeof b->text, "scalar");
    for (uint32_t i = 0; i < n_dims && n < sizeof b->text; i++)
        n += (size_t)snprintf(b->text + n, sizeof b->text - n, "%s%u", i ? "x" : "", dims[i]);
    return b->text;
}

// Row-major: `below` is the stride of a dimension in elements. A dimension of 0 gives index 0.
const char *format_index(struct format_buffer *b, uint64_t flat, const uint32_t *dims,
                         uint32_t n_dims)
{
    uint64_t below = 1; // elements in one step of the dim
    for (uint32_t i = 1; i < n_dims; i++)
        below *= dims[i];
    size_t n = (size_t)snprintf(b->text, sizeof b->text, "[");
    for (uint32_t i = 0; i < n_dims && n < sizeof b->text; i++) {
        uint64_t index = below ? flat / below : 0;
        flat = below ? flat % below : 0;
        n += (size_t)snprintf(b->text + n, sizeof b->text - n, "%s%llu", i ? "," : "",
                              (unsigned long long)index);
        below = i + 1 < n_dims && dims[i + 1] ? below / dims[i + 1] : 0;
    }
    if (n < sizeof b->text)
        snprintf(b->text + n, sizeof b->text - n, "]");
    return b->text;
}

// The two largest units only.
const char *format_uptime(struct format_buffer *b, uint64_t ms)
{
    unsigned long long s = ms / 1000;
    if (s >= 86400)
        snprintf(b->text, sizeof b->text, "%llu d %llu h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        snprintf(b->text, sizeof b->text, "%llu h %llu min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(b->text, sizeof b->text, "%llu min %llu s", s / 60, s % 60);
    else
        snprintf(b->text, sizeof b->text, "%.2f s", (double)ms / 1000);
    return b->text;
}
