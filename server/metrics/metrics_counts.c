// Both daemons are of the same machine and mostly of the same build, so what travels is the structs
// themselves, and their sizes say whether they are the same. What is sent is always the difference
// to what has arrived: where a packet did not go, the next one has it.
#include "server/metrics/metrics_counts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "server/clients/session.h"
#include "server/handle/services.h"
#include "server/metrics/metrics.h"
#include "server/metrics/metrics_text.h"

#define LAYOUT 1 // of struct counted, where its size does not tell

struct counted {
    uint32_t layout, series_size;
    uint64_t n_series;
    uint64_t sessions; // that there are: no counter
    uint64_t totals[METRICS_TOTALS];
    uint64_t errors[METRICS_CODES];
    struct metrics_histogram transfer[METRICS_DIRECTIONS];
    struct metrics_series series[];
};

// `n_series`: at most METRICS_MAX_ALL.
static size_t counted_size(uint64_t n_series)
{
    return sizeof(struct counted) + (size_t)n_series * sizeof(struct metrics_series);
}

// ---- numbers ------------------------------------------------------------------------------------

static void add_histogram(struct metrics_histogram *to, const struct metrics_histogram *h, int sign)
{
    for (unsigned i = 0; i < METRICS_N_BUCKETS; i++)
        to->in[i] += (uint64_t)sign * h->in[i];
    to->n += (uint64_t)sign * h->n;
    to->sum_us += (uint64_t)sign * h->sum_us;
}

static void add_series(struct metrics_series *to, const struct metrics_series *s, int sign)
{
    for (unsigned i = 0; i < METRICS_OUTCOMES; i++)
        to->outcomes[i] += (uint64_t)sign * s->outcomes[i];
    add_histogram(&to->queue, &s->queue, sign);
    add_histogram(&to->run, &s->run, sign);
}

// Series stay where they are, so those told before come first.
static void subtract(struct counted *from, const struct counted *c)
{
    for (unsigned i = 0; i < METRICS_TOTALS; i++)
        from->totals[i] -= c->totals[i];
    for (unsigned i = 0; i < METRICS_CODES; i++)
        from->errors[i] -= c->errors[i];
    for (unsigned i = 0; i < METRICS_DIRECTIONS; i++)
        add_histogram(&from->transfer[i], &c->transfer[i], -1);
    for (uint64_t i = 0; i < c->n_series; i++)
        add_series(&from->series[i], &c->series[i], -1);
}

// ---- telling ------------------------------------------------------------------------------------

static struct counted *count_all(const struct services *s)
{
    const struct metrics *m = s->metrics;
    struct counted *c = calloc(1, counted_size(m->n_series));
    if (!c)
        return NULL;
    c->layout = LAYOUT;
    c->series_size = sizeof(struct metrics_series);
    c->n_series = m->n_series;
    c->sessions = s->sessions->n + m->sessions_before;
    for (unsigned i = 0; i < METRICS_TOTALS; i++)
        c->totals[i] = metrics_total(s, i);
    memcpy(c->errors, m->errors, sizeof c->errors);
    memcpy(c->transfer, m->transfer, sizeof c->transfer);
    for (unsigned i = 0; i < m->n_series; i++)
        c->series[i] = *m->series[i];
    return c;
}

static bool counts_alike(const struct counted *a, const struct counted *b)
{
    return a->n_series == b->n_series && memcmp(a, b, counted_size(a->n_series)) == 0;
}

// The whole is kept until it is known that it has arrived, then it is what differences are taken
// to.
int counts_tell(struct metrics_counts *c, int *ret, struct error *e)
{
    void *map;
    *ret = -1;
    free(c->next);
    c->next = count_all(c->services);
    if (!c->next)
        return error_no_memory(e, "counters", counted_size(c->services->metrics->n_series));
    if (c->told && counts_alike(c->next, c->told))
        return 0;
    size_t size = counted_size(c->next->n_series);
    int fd = fd_memory_sealed("counters", size, 0, &map, e);
    if (fd < 0)
        return fd;
    memcpy(map, c->next, size);
    if (c->told)
        subtract(map, c->told);
    munmap(map, size);
    *ret = fd;
    return 0;
}

void counts_told(struct metrics_counts *c)
{
    free(c->told);
    c->told = c->next;
    c->next = NULL;
}

void counts_forget(struct metrics_counts *c)
{
    free(c->told);
    free(c->next);
    c->told = c->next = NULL;
}

// ---- hearing ------------------------------------------------------------------------------------

// Texts have to end where their room does: they become labels.
static bool counted_is_whole(const struct counted *c, uint64_t size)
{
    if (size < sizeof *c || c->layout != LAYOUT || c->series_size != sizeof *c->series ||
        c->n_series > METRICS_MAX_ALL || size != counted_size(c->n_series))
        return false;
    for (uint64_t i = 0; i < c->n_series; i++) {
        const struct metrics_series *s = &c->series[i];
        if (!memchr(s->model, 0, sizeof s->model) || !memchr(s->user, 0, sizeof s->user) ||
            !memchr(s->sha256, 0, sizeof s->sha256))
            return false;
    }
    return true;
}

static void take_counted(struct metrics *m, const struct counted *c)
{
    m->sessions_before = c->sessions;
    for (unsigned i = 0; i < METRICS_TOTALS; i++)
        m->before[i] += c->totals[i];
    for (unsigned i = 0; i < METRICS_CODES; i++)
        m->errors[i] += c->errors[i];
    for (unsigned i = 0; i < METRICS_DIRECTIONS; i++)
        add_histogram(&m->transfer[i], &c->transfer[i], 1);
    for (uint64_t i = 0; i < c->n_series; i++) {
        struct metrics_series *s = metrics_find_like(m, &c->series[i], (unsigned)i);
        if (s)
            add_series(s, &c->series[i], 1);
    }
}

int counts_add(struct metrics *m, int fd, struct error *e)
{
    cleanup(fd_close_p) int memory = fd;
    uint64_t size;
    int r = fd_size(memory, &size, e);
    if (r == 0)
        r = fd_check_stays(memory, e);
    void *map = r == 0 && size > 0 ? fd_map(memory, size, e) : NULL;
    if (r < 0)
        return r;
    if (size > 0 && !map)
        return e->code;
    bool whole = counted_is_whole(map, size);
    if (whole)
        take_counted(m, map);
    if (map)
        munmap(map, (size_t)size);
    return whole ? 0
                 : error_set(e, STATUS_DEVICE_UNMATCH,
                             "the rknnd before counts in another way: metrics begin anew");
}
