// Each line is copied together, and nothing is formatted twice.
#include "server/metrics/metrics_series.h"

#include <inttypes.h>
#include <string.h>

#include "server/metrics/metrics_lines.h"

static const char *const priorities[] = {"high", "medium", "low"};

// What stands between the braces of each line of one. Every character may take two.
struct labels {
    char text[2 * (METRICS_MODEL_SIZE + WHO_SIZE) + 100];
};

static char *add_label(char *at, const char *name, const char *value)
{
    at = stpcpy(stpcpy(at, name), "=\"");
    for (; *value; value++) {
        if (metrics_is_escaped(*value))
            *at++ = '\\';
        *at++ = *value;
    }
    return stpcpy(at, "\"");
}

// In the order in which they stand in each line, so that lines of one series sort together.
static struct labels labels_of(const struct metrics_series *s)
{
    struct labels l;
    char *at = add_label(l.text, "model", s->model);
    at = add_label(stpcpy(at, ","), "sha256", s->sha256);
    at = add_label(stpcpy(at, ","), "user", s->user);
    add_label(stpcpy(at, ","), "priority", s->priority < 3 ? priorities[s->priority] : "other");
    return l;
}

// Without stdio's lock for each piece: the FILE is the writer's alone.
static void put_text(FILE *out, const char *text)
{
    fputs_unlocked(text, out);
}

// Digits from the last to the first: printf() would look at its format 20,000 times.
static void put_line_end(FILE *out, uint64_t n)
{
    char text[22], *at = text + sizeof text;
    *--at = 0;
    *--at = '\n';
    do
        *--at = (char)('0' + n % 10);
    while (n /= 10);
    put_text(out, at);
}

static struct metrics_bound_labels bounds_make(void)
{
    struct metrics_bound_labels b;
    for (unsigned i = 0; i < METRICS_N_BUCKETS; i++)
        snprintf(b.text[i], sizeof b.text[i], ",le=\"%g\"} ", (double)metrics_bounds[i] / 1e6);
    snprintf(b.text[METRICS_N_BUCKETS], sizeof b.text[0], ",le=\"+Inf\"} ");
    return b;
}

// rknnd_NAME and PART, in front of a line's value.
static void put_front(FILE *out, const char *name, const char *part, const struct labels *l)
{
    put_text(out, "rknnd_");
    put_text(out, name);
    put_text(out, part);
    put_text(out, l->text);
}

static void put_histogram(FILE *out, const char *name, const struct labels *l,
                          const struct metrics_bound_labels *bounds,
                          const struct metrics_histogram *h)
{
    uint64_t n = 0;
    for (unsigned i = 0; i <= METRICS_N_BUCKETS; i++) {
        n = i < METRICS_N_BUCKETS ? n + h->in[i] : h->n;
        put_front(out, name, "_bucket{", l);
        put_text(out, bounds->text[i]);
        put_line_end(out, n);
    }
    put_front(out, name, "_sum{", l);
    put_text(out, "} ");
    metrics_put_seconds(out, h->sum_us);
    put_front(out, name, "_count{", l);
    put_text(out, "} ");
    put_line_end(out, h->n);
}

static void put_transfers(FILE *out, const struct metrics *m,
                          const struct metrics_bound_labels *bounds)
{
    static const struct labels directions[METRICS_DIRECTIONS] = {
        [METRICS_IN] = {"direction=\"in\""}, [METRICS_OUT] = {"direction=\"out\""}};
    metrics_put_head(
        out, "inference_transfer_seconds", "histogram",
        "How long inputs took from a run's request on, and outputs until they were sent.");
    for (unsigned i = 0; i < METRICS_DIRECTIONS; i++)
        put_histogram(out, "inference_transfer_seconds", &directions[i], bounds, &m->transfer[i]);
}

// ---- parts --------------------------------------------------------------------------------------

// How runs of the series ended, a line for each way.
static void put_outcomes(struct metrics_slices *w, const struct metrics_series *s)
{
    static const char *const outcomes[METRICS_OUTCOMES] = {
        [METRICS_DONE] = ",outcome=\"done\"} ",
        [METRICS_FAILED] = ",outcome=\"failed\"} ",
        [METRICS_STOPPED] = ",outcome=\"stopped\"} "};
    const struct labels l = labels_of(s);
    for (unsigned k = 0; k < METRICS_OUTCOMES; k++) {
        put_front(w->out, "inferences_total", "{", &l);
        put_text(w->out, outcomes[k]);
        put_line_end(w->out, s->outcomes[k]);
    }
}

static void put_queue(struct metrics_slices *w, const struct metrics_series *s)
{
    const struct labels l = labels_of(s);
    put_histogram(w->out, "inference_queue_seconds", &l, &w->bounds, &s->queue);
}

static void put_run(struct metrics_slices *w, const struct metrics_series *s)
{
    const struct labels l = labels_of(s);
    put_histogram(w->out, "inference_run_seconds", &l, &w->bounds, &s->run);
}

// One metric of each series.
static const struct part {
    const char *name, *type, *help;
    unsigned n_lines; // of a series
    void (*put)(struct metrics_slices *w, const struct metrics_series *s);
} parts[] = {
    {"inferences_total", "counter", "Runs of models that have ended.", METRICS_OUTCOMES,
     put_outcomes},
    {"inference_queue_seconds", "histogram", "How long runs waited for cores.",
     METRICS_N_BUCKETS + 3, put_queue},
    {"inference_run_seconds", "histogram", "How long runs took on the device.",
     METRICS_N_BUCKETS + 3, put_run},
};

#define N_PARTS (sizeof parts / sizeof *parts)

void metrics_series_begin(struct metrics_slices *w, const struct metrics *m, FILE *out)
{
    *w = (struct metrics_slices){
        .metrics = m, .out = out, .n_series = m->n_series, .bounds = bounds_make()};
    put_transfers(out, m, &w->bounds);
}

// The head of a part comes in the slice that begins it, also where there is no series. A slice ends
// behind the series that has filled it.
bool metrics_series_more(struct metrics_slices *w)
{
    for (unsigned lines = 0; w->part < N_PARTS && lines < METRICS_SLICE_LINES;) {
        const struct part *part = &parts[w->part];
        if (w->at == 0)
            metrics_put_head(w->out, part->name, part->type, part->help);
        if (w->at < w->n_series) {
            part->put(w, w->metrics->series[w->at++]);
            lines += part->n_lines;
        } else {
            w->part++;
            w->at = 0;
        }
    }
    return w->part < N_PARTS;
}
