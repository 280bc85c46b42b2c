// The tables of RKNN_QUERY_PERF_DETAIL: one row per layer, then operators ranked by time in the
// form of the vendor's runtime (SDK guide, table 3-2).
//
// Times are the device's where it measures them. The software NPU's are estimates of the chip's
// (estimate_ns) where the chip is known; the last line says which they are.
#include "client/debug/perf_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text/computer.h"
#include "client/debug/profile.h"

#define MAX_KINDS 128 // operators in the ranking; the rest is summed up as "others"

// The sums of all layers of one operator.
struct kind {
    char op[64];
    unsigned n;
    uint64_t cpu_us, gpu_us, npu_us;
};

struct sums {
    struct kind kinds[MAX_KINDS + 1];
    size_t n_kinds;
    uint64_t time_us, bytes;
    // Whether times are the chip's estimated ones (as cycles and MAC usage are), and their sum so
    // far.
    bool estimated;
    uint64_t estimate_ns;
};

// A layer's time in us. Estimates are summed in ns and rounded as a sum, so that rounding errors do
// not add up over hundreds of layers.
static uint64_t next_time(struct sums *s, const rknnd_Layer *l)
{
    if (!s->estimated)
        return l->time_us;
    uint64_t before = (s->estimate_ns + 500) / 1000;
    s->estimate_ns += l->estimate_ns;
    return (s->estimate_ns + 500) / 1000 - before;
}

static uint64_t kind_time(const struct kind *k)
{
    return k->cpu_us + k->gpu_us + k->npu_us;
}

// The operator's sums, made with its first layer. From MAX_KINDS on all go to "others".
static struct kind *find_kind(struct sums *s, const char *op)
{
    size_t i = 0;
    while (i < s->n_kinds && i < MAX_KINDS && strcmp(s->kinds[i].op, op) != 0)
        i++;
    if (i == s->n_kinds) {
        s->n_kinds++;
        snprintf(s->kinds[i].op, sizeof s->kinds[i].op, "%.63s", i < MAX_KINDS ? op : "others");
    }
    return &s->kinds[i];
}

// What is neither CPU nor GPU counts as NPU.
static void add_up(struct sums *s, const rknnd_Layer *l, uint64_t time_us)
{
    struct kind *k = find_kind(s, l->op);
    k->n++;
    if (strcmp(l->target, "CPU") == 0)
        k->cpu_us += time_us;
    else if (strcmp(l->target, "GPU") == 0)
        k->gpu_us += time_us;
    else
        k->npu_us += time_us;
    s->time_us += time_us;
    s->bytes += l->read_bytes + l->write_bytes;
}

// ---- layers ------------------------------------------------------------------------------------

static void perf_rule(FILE *f, const char *title)
{
    static const char dashes[] = "--------------------------------------------------------------"
                                 "--------------------------------------------------------------"
                                 "--------------------------------------------";
    if (*title)
        fprintf(f, "%s\n%*s%s\n", dashes, (int)(sizeof dashes - strlen(title)) / 2, "", title);
    fprintf(f, "%s\n", dashes);
}

// mac_cycles / total_cycles in percent, "9.06"; "\\" for layers without multiplications, as the
// vendor's table has it.
static const char *mac_usage(const rknnd_Layer *l, char *text, size_t size)
{
    if (l->mac_cycles == 0 || l->total_cycles == 0)
        return "\\";
    snprintf(text, size, "%.2f", 100.0 * (double)l->mac_cycles / (double)l->total_cycles);
    return text;
}

// How the work is spread over the cores, "50.0%/50.0%/0.0%".
static const char *work_load(const rknnd_Layer *l, unsigned n_cores, char *text, size_t size)
{
    double sum = 0;
    size_t at = 0;
    text[0] = 0;
    for (unsigned i = 0; i < l->core_work_count; i++)
        sum += (double)l->core_work[i];
    for (unsigned i = 0; i < n_cores && i < l->core_work_count && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%.1f%%", i ? "/" : "",
                               sum > 0 ? 100 * (double)l->core_work[i] / sum : 0);
    return text;
}

// SDK guide, table 3-2.
enum column {
    ID,
    OP_TYPE,
    DATA_TYPE,
    TARGET,
    INPUT_SHAPE,
    OUTPUT_SHAPE,
    DDR_CYCLES,
    NPU_CYCLES,
    MAX_CYCLES,
    TIME,
    MAC_USAGE,
    WORK_LOAD, // of chips with several cores
    TASK_NUMBER,
    RW,
    FULL_NAME,
    N_COLUMNS
};

static const int widths[N_COLUMNS] = {4, 20, 8, 6, 28, 20, 10, 10, 12, 8, 11, 21, 10, 9, 0};

// Column widths are minima; a longer text moves the rest of its row.
static void write_row(FILE *f, unsigned n_cores, const char *const cells[N_COLUMNS])
{
    for (int i = 0; i < FULL_NAME; i++)
        if (i != WORK_LOAD || n_cores > 1)
            fprintf(f, "%-*s ", widths[i], cells[i]);
    fprintf(f, "%s\n", cells[FULL_NAME]);
}

static void write_titles(FILE *f, unsigned n_cores)
{
    static const char *const of_three[] = {
        "ID",          "OpType",          "DataType",   "Target",    "InputShape",
        "OutputShape", "DDRCycles",       "NPUCycles",  "MaxCycles", "Time(us)",
        "MacUsage(%)", "WorkLoad(0/1/2)", "TaskNumber", "RW(KB)",    "FullName"};
    const char *titles[N_COLUMNS];
    memcpy(titles, of_three, sizeof titles);
    if (n_cores == 2)
        titles[WORK_LOAD] = "WorkLoad(0/1)";
    write_row(f, n_cores, titles);
}

static void write_layer(FILE *f, unsigned id, const rknnd_Layer *l, uint64_t time_us,
                        unsigned n_cores)
{
    char usage[32], load[32], numbers[N_COLUMNS][24];
    const char *cells[N_COLUMNS] = {[OP_TYPE] = l->op,
                                    [DATA_TYPE] = l->type,
                                    [TARGET] = l->target,
                                    [INPUT_SHAPE] = l->input_shapes,
                                    [OUTPUT_SHAPE] = l->output_shapes,
                                    [MAC_USAGE] = mac_usage(l, usage, sizeof usage),
                                    [WORK_LOAD] = work_load(l, n_cores, load, sizeof load),
                                    [FULL_NAME] = l->name};
    const uint64_t values[N_COLUMNS] = {[ID] = id,
                                        [DDR_CYCLES] = l->ddr_cycles,
                                        [NPU_CYCLES] = l->npu_cycles,
                                        [MAX_CYCLES] = l->total_cycles,
                                        [TIME] = time_us,
                                        [TASK_NUMBER] = l->n_tasks,
                                        [RW] = (l->read_bytes + l->write_bytes) / 1024};
    for (int i = 0; i < N_COLUMNS; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%" PRIu64, values[i]);
        cells[i] = cells[i] ? cells[i] : numbers[i];
    }
    write_row(f, n_cores, cells);
}

static int write_layers(FILE *f, const struct profile *p, unsigned n_cores, struct sums *s,
                        struct error *e)
{
    struct bytes rest = profile_list(p);
    perf_rule(f, "Network Layer Information Table");
    write_titles(f, n_cores);
    perf_rule(f, "");
    for (unsigned i = 0; i < p->reply.n_layers; i++) {
        rknnd_Layer l;
        int r = profile_take(&rest, &l, e);
        if (r < 0)
            return r;
        uint64_t time_us = next_time(s, &l);
        write_layer(f, i + 1, &l, time_us, n_cores);
        add_up(s, &l, time_us);
    }
    perf_rule(f, "");
    return 0;
}

// ---- operators ---------------------------------------------------------------------------------

static int by_time(const void *a, const void *b)
{
    uint64_t x = kind_time(a), y = kind_time(b);
    return (x < y) - (x > y);
}

static void write_ranking(FILE *f, struct sums *s)
{
    qsort(s->kinds, s->n_kinds, sizeof *s->kinds, by_time);
    perf_rule(f, "Operator Time Consuming Ranking Table");
    fprintf(f, "%-20s %-12s %-12s %-12s %-12s %-14s %s\n", "OpType", "CallNumber", "CPUTime(us)",
            "GPUTime(us)", "NPUTime(us)", "TotalTime(us)", "TimeRatio(%)");
    perf_rule(f, "");
    for (size_t i = 0; i < s->n_kinds; i++) {
        const struct kind *k = &s->kinds[i];
        double ratio = s->time_us ? 100.0 * (double)kind_time(k) / (double)s->time_us : 0;
        fprintf(f,
                "%-20s %-12u %-12" PRIu64 " %-12" PRIu64 " %-12" PRIu64 " %-14" PRIu64 " %.2f%%\n",
                k->op, k->n, k->cpu_us, k->gpu_us, k->npu_us, kind_time(k), ratio);
    }
    perf_rule(f, "");
}

// A line that the vendor's table does not have: whose times these are.
static void write_whose(FILE *f, const struct context *c, bool estimated)
{
    if (c->connection->peer.device.timing == RKNND_TIMING_DEVICE)
        return;
    if (!estimated) {
        fprintf(f, "Times are of the %s on its machine\n",
                computer_name(c->connection->peer.device.backend));
        return;
    }
    fprintf(f, "Times are estimated for %s%s", c->info.estimate_chip,
            c->info.estimate_assumed ? " (no chip is chosen)" : "");
    if (c->info.n_unestimated)
        fprintf(f, ", without %u layer%s on its CPU", c->info.n_unestimated,
                c->info.n_unestimated == 1 ? "" : "s");
    fprintf(f, "; the %s took %" PRIu64 " us on its machine\n",
            computer_name(c->connection->peer.device.backend), c->times.run_us);
}

// Without collected layers only the totals are known.
static int write_all(FILE *f, struct context *c, const struct profile *p, struct error *e)
{
    cleanup(free_p) struct sums *s = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(e, "a profile", sizeof *s);
    s->estimated = c->times.estimate_ns != 0;
    if (p->reply.n_layers > 0) {
        uint32_t n_cores = c->connection->peer.device.n_cores, limit = c->info.core_limit;
        int r = write_layers(f, p, n_cores < limit ? n_cores : limit, s, e);
        if (r < 0)
            return r;
    }
    fprintf(f, "Total Operator Elapsed Per Frame Time(us): %" PRIu64 "\n",
            p->reply.n_layers ? s->time_us
            : s->estimated    ? (c->times.estimate_ns + 500) / 1000
                              : c->times.run_us);
    fprintf(f, "Total Memory Read/Write Per Frame Size(KB): %" PRIu64 "\n", s->bytes / 1024);
    if (p->reply.n_layers > 0)
        write_ranking(f, s);
    write_whose(f, c, s->estimated);
    return 0;
}

// Written to a memory stream: the size is not known before. The caller frees *ret.
int perf_text_make(struct context *c, char **ret, size_t *ret_size, struct error *e)
{
    char *text = NULL;
    size_t size = 0;
    struct profile p;
    FILE *f = NULL;
    int r = profile_get(c, &p, e);
    if (r == 0 && !(f = open_memstream(&text, &size)))
        r = error_no_memory(e, "a profile", 0);
    if (r == 0)
        r = write_all(f, c, &p, e);
    if (f && (fclose(f) != 0 || !text) && r == 0) // glibc's fclose() may be content without a text
        r = error_no_memory(e, "a profile", size);
    profile_done(&p);
    if (r < 0) {
        free(text);
        return r;
    }
    *ret = text;
    *ret_size = size;
    return 0;
}

void perf_text_log(struct context *c)
{
    struct error e;
    size_t size;
    cleanup(free_p) char *text = NULL;
    char *rest = NULL;
    if (perf_text_make(c, &text, &size, &e) < 0) {
        log_debug("no layer times: %s", e.text);
        return;
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        log_debug("%s", line);
}
