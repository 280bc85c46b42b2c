// Columns of as many bins as fit; heights are logarithms of counts, since a few large values are
// what a range is chosen by. What is clipped has another colour.
#include "quant/report/quant_chart.h"

#include <math.h>
#include <stdbool.h>

#define WIDTH   640
#define HEIGHT  110
#define TOP     16
#define COLUMNS 160

struct chart {
    const rknnd_quant_tensor *t;
    double from, width; // real numbers: the left border, and of the whole picture
    double counts[COLUMNS], most;
};

// The picture shows what was seen and what is stored, with a little room.
// The outermost columns take what rounding puts outside.
static void chart_begin(struct chart *c, const rknnd_quant_tensor *t)
{
    double low = fmin((double)t->min, (double)t->low), high = fmax((double)t->max, (double)t->high);
    double room = (high - low) * 0.02;
    *c = (struct chart){.t = t, .from = low - room, .width = high - low + 2 * room};
    if (!(c->width > 0))
        c->width = 1;
    for (uint32_t i = 0; i < t->n_bins; i++) {
        double middle = ((double)i - t->n_bins / 2.0 + 0.5) * (double)t->bin_width;
        double at = floor((middle - c->from) / c->width * COLUMNS);
        int column = (int)fmin(fmax(at, 0), COLUMNS - 1);
        c->counts[column] += (double)t->bins[i];
    }
    for (int i = 0; i < COLUMNS; i++)
        c->most = fmax(c->most, c->counts[i]);
}

// Where a value is, from the left.
static double chart_x(const struct chart *c, double value)
{
    return (value - c->from) / c->width * WIDTH;
}

// All columns of one colour are one path: a page has hundreds of histograms.
static void chart_columns(FILE *out, const struct chart *c)
{
    double step = (double)WIDTH / COLUMNS;
    for (int clipped = 0; clipped < 2; clipped++) {
        fprintf(out, "<path class=\"%s\" d=\"", clipped ? "clipped" : "seen");
        for (int i = 0; i < COLUMNS; i++) {
            double middle = c->from + (i + 0.5) / COLUMNS * c->width;
            bool outside = middle < (double)c->t->low || middle > (double)c->t->high;
            if (c->counts[i] <= 0 || outside != clipped)
                continue;
            double height = (HEIGHT - TOP) * log1p(c->counts[i]) / log1p(c->most);
            fprintf(out, "M%.1f %dV%.1fh%.1fV%dz", i * step, HEIGHT, HEIGHT - height, step, HEIGHT);
        }
        fputs("\"/>", out);
    }
}

// The numbers are rounded for people; the page has all digits beside.
// One end of the range, with its number beside it, on the side where there is room.
static void chart_end(FILE *out, const struct chart *c, double value)
{
    double x = chart_x(c, value);
    bool right = x > WIDTH * 0.8;
    fprintf(out,
            "<line class=\"end\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>"
            "<text x=\"%.1f\" y=\"11\" text-anchor=\"%s\">%.4g</text>",
            x, x, HEIGHT, right ? x - 3 : x + 3, right ? "end" : "start", value);
}

void quant_chart_histogram(FILE *out, const rknnd_quant_tensor *t)
{
    struct chart c;
    chart_begin(&c, t);
    double left = chart_x(&c, (double)t->low), right = chart_x(&c, (double)t->high);
    fprintf(
        out,
        "<svg class=\"histogram\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Values from %.6g to "
        "%.6g; stored: %.6g to %.6g</title>"
        "<rect class=\"range\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%d\" data-low=\"%.9g\" "
        "data-high=\"%.9g\"/>",
        WIDTH, HEIGHT, (double)t->min, (double)t->max, (double)t->low, (double)t->high, left,
        right - left, HEIGHT, (double)t->low, (double)t->high);
    chart_columns(out, &c);
    chart_end(out, &c, (double)t->low);
    chart_end(out, &c, (double)t->high);
    fputs("</svg>", out);
}
