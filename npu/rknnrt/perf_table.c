// The runtime's table of layer times (RKNN_QUERY_PERF_DETAIL), which is text for people:
//
//      ID   OpType      DataType  Target  InputShape         ...  Time(us)  MacUsage(%)  FullName
//      1    InputOp     UINT8     CPU     \                   ...  12                     in
//      2    ConvRelu    INT8      NPU     (1,3,224,224),...  ...  345       12.5/0.0     conv1
//
// Columns, titles and units differ by version; the titles' positions say where cells begin. Parsed
// in two steps, cells by position (or by words, where a long cell has pushed the others), then
// values. The text is copied and cut in place: struct npu_layer points into it until perf_done().
#include "npu/rknnrt/perf_table.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MAX_COLUMNS 32
#define MAX_NUMBER  (UINT64_C(1) << 52)

// What a column holds.
enum kind {
    SKIPPED,
    OP,
    TYPE,
    TARGET,
    INPUTS,
    OUTPUTS,
    DDR,
    NPU,
    TOTAL,
    CYCLES, // the three in one
    TIME,
    USAGE,
    WORK,
    TASKS,
    TRAFFIC,
    NAME,
    N_KINDS
};

// Titles of several versions; a title may be the beginning of the word in the table.
static const struct {
    const char *title;
    enum kind kind;
} titles[] = {
    {"OpType", OP},           {"DataType", TYPE},       {"Target", TARGET},
    {"InputShape", INPUTS},   {"OutputShape", OUTPUTS}, {"DDRCycles", DDR},
    {"DDR Cycles", DDR},      {"NPUCycles", NPU},       {"NPU Cycles", NPU},
    {"MaxCycles", TOTAL},     {"Total Cycles", TOTAL},  {"Cycles(DDR/NPU/Total)", CYCLES},
    {"Time(us)", TIME},       {"MacUsage(%)", USAGE},   {"WorkLoad(", WORK},
    {"TaskNumber", TASKS},    {"Task Number", TASKS},   {"Lut Number", SKIPPED},
    {"Regcmd Size", SKIPPED}, {"RW(KB)", TRAFFIC},      {"RW(kb)", TRAFFIC},
    {"FullName", NAME},
};

struct column {
    enum kind kind;
    size_t start; // in the line
};

struct table {
    struct column columns[MAX_COLUMNS];
    size_t n;
    unsigned line; // that is read, from 1 on
};

// The cells of a line by their kind; NULL: there is no such column.
struct row {
    char *cells[N_KINDS];
};

// ---- lines and cells ---------------------------------------------------------------------------

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

// Ends the line with a zero byte; NULL: there is no more.
static char *next_line(struct table *t, char **rest)
{
    char *line = strsep(rest, "\n");
    t->line++;
    return line;
}

// A line of dashes, above and below the titles.
static bool is_rule(const char *line)
{
    return *line == '-' && line[strspn(line, "- \t\r")] == 0;
}

// Without white space at both ends; cuts in place.
static char *trim(char *text)
{
    size_t n;
    while (is_space(*text))
        text++;
    for (n = strlen(text); n > 0 && is_space(text[n - 1]); n--)
        text[n - 1] = 0;
    return text;
}

// A title: its kind, and how far it reaches.
static enum kind read_title(const char *text, size_t *ret_length)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        size_t n = strlen(titles[i].title);
        if (strncmp(text, titles[i].title, n) == 0) {
            *ret_length = n + strcspn(text + n, " \t\r");
            return titles[i].kind;
        }
    }
    *ret_length = strcspn(text, " \t\r");
    return SKIPPED;
}

// Whether the line has the titles of a table, which are noted then.
static bool read_titles(struct table *t, const char *line)
{
    unsigned seen = 0;
    t->n = 0;
    for (size_t at = 0, length; line[at]; at += length) {
        length = 1;
        if (is_space(line[at]))
            continue;
        enum kind kind = read_title(line + at, &length);
        if (t->n == MAX_COLUMNS || (kind != SKIPPED && seen & 1u << kind))
            return false;
        seen |= 1u << kind;
        t->columns[t->n++] = (struct column){kind, at};
    }
    return seen & 1u << OP && seen & 1u << TIME;
}

// Whether a cell ends before each title's position: then cells can be cut by position.
static bool is_under_titles(const struct table *t, const char *line)
{
    size_t length = strlen(line);
    for (size_t i = 1; i < t->n; i++)
        if (t->columns[i].start < length && !is_space(line[t->columns[i].start - 1]))
            return false;
    return true;
}

// Cells begin under their titles and end before the next one.
static void cut_by_titles(const struct table *t, char *line, struct row *ret)
{
    size_t length = strlen(line);
    for (size_t i = 0; i < t->n; i++) {
        size_t start = t->columns[i].start;
        if (i + 1 < t->n && t->columns[i + 1].start <= length)
            line[t->columns[i + 1].start - 1] = 0;
        ret->cells[t->columns[i].kind] = trim(line + (start < length ? start : length));
    }
}

// A long cell has moved those behind it: then each is one word, and none is empty.
static int cut_by_words(const struct table *t, char *line, struct row *ret, struct error *e)
{
    size_t n = 0;
    char *word, *rest = line;
    while ((word = strtok_r(rest, " \t\r", &rest)))
        if (n++ < t->n)
            ret->cells[t->columns[n - 1].kind] = word;
    return n == t->n ? 0
                     : error_set(e, STATUS_FAIL,
                                 "line %u: a cell reaches into the next one, and there are %zu "
                                 "words for %zu titles",
                                 t->line, n, t->n);
}

static int read_row(const struct table *t, char *line, struct row *ret, struct error *e)
{
    *ret = (struct row){0};
    if (!is_under_titles(t, line))
        return cut_by_words(t, line, ret, e);
    cut_by_titles(t, line, ret);
    return 0;
}

// ---- values ------------------------------------------------------------------------------------

// Nothing, and the backslash that stands for it.
static bool is_empty(const char *cell)
{
    return !cell || !*cell || strcmp(cell, "\\") == 0;
}

// Decimal digits; advances *text. False: none, or above 2^52, which is far beyond any count and
// keeps products exact in doubles.
static bool take_number(const char **text, uint64_t *ret)
{
    uint64_t n = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9' && n < MAX_NUMBER; p++)
        n = n * 10 + (uint64_t)(*p - '0');
    if (p == *text || n >= MAX_NUMBER)
        return false;
    *text = p;
    *ret = n;
    return true;
}

// A whole cell; an empty one leaves *ret as it is.
static bool read_number(const char *cell, uint64_t *ret)
{
    return is_empty(cell) || (take_number(&cell, ret) && !*cell);
}

// "12.5" in thousandths.
static bool take_share(const char **text, uint64_t *ret)
{
    uint64_t n;
    if (!take_number(text, &n) || n > 1000000)
        return false;
    n *= 1000;
    if (**text == '.') {
        const char *p = *text + 1;
        for (unsigned unit = 100; *p >= '0' && *p <= '9'; p++, unit /= 10)
            n += (unsigned)(*p - '0') * unit;
        *text = p;
    }
    *ret = n;
    return true;
}

// DDR, NPU and total cycles in one cell: "129458/1229312/1229312".
static bool read_cycles(const char *cell, struct npu_layer *l)
{
    if (is_empty(cell))
        return true;
    return take_number(&cell, &l->ddr_cycles) && *cell++ == '/' &&
           take_number(&cell, &l->npu_cycles) && *cell++ == '/' &&
           take_number(&cell, &l->total_cycles) && !*cell;
}

// Share of the multiply-accumulate units in percent: "9.06", or one for each core, "9.06/0.00", of
// which the largest counts. Stored as cycles: total * share.
static bool read_usage(const char *cell, struct npu_layer *l)
{
    uint64_t share, max = 0;
    if (is_empty(cell))
        return true;
    do {
        if (!take_share(&cell, &share))
            return false;
        max = share > max ? share : max;
    } while (*cell++ == '/');
    l->mac_cycles = (uint64_t)((double)l->total_cycles * (double)max / 100000);
    return !cell[-1];
}

// Each core's share of the layer: "50.0%/50.0%/0.0%", in some versions with " - Up:50.0%" behind
// it.
static bool read_work(const char *cell, struct npu_layer *l)
{
    unsigned i = 0;
    if (is_empty(cell))
        return true;
    do {
        if (i == NPU_MAX_CORES || !take_share(&cell, &l->core_work[i]) || *cell++ != '%')
            return false;
        l->core_mask |= l->core_work[i] ? 1u << i : 0;
        i++;
    } while (*cell++ == '/');
    return !cell[-1] || strncmp(cell - 1, " - Up:", 6) == 0;
}

static const char *text_of(const char *cell)
{
    return is_empty(cell) ? "" : cell;
}

// One line as a layer. Columns that this version lacks leave their values 0; a value that cannot be
// read fails the whole table, as its columns are not where they seem.
static int read_layer(const struct table *t, char *line, struct npu_layer *l, struct error *e)
{
    struct row row;
    char **c = row.cells;
    uint64_t traffic = 0, tasks = 0;
    int r = read_row(t, line, &row, e);
    if (r < 0)
        return r;
    *l = (struct npu_layer){.name = text_of(is_empty(c[NAME]) ? c[OP] : c[NAME]),
                            .op = text_of(c[OP]),
                            .type = text_of(c[TYPE]),
                            .target = text_of(c[TARGET]),
                            .input_shapes = text_of(c[INPUTS]),
                            .output_shapes = text_of(c[OUTPUTS])};
    if (!*l->op || !read_number(c[TIME], &l->time_us) || !read_number(c[DDR], &l->ddr_cycles) ||
        !read_number(c[NPU], &l->npu_cycles) || !read_number(c[TOTAL], &l->total_cycles) ||
        !read_cycles(c[CYCLES], l) || !read_usage(c[USAGE], l) || !read_work(c[WORK], l) ||
        !read_number(c[TASKS], &tasks) || tasks > UINT32_MAX || !read_number(c[TRAFFIC], &traffic))
        return error_set(e, STATUS_FAIL, "line %u: layer \"%.40s\" is not understood", t->line,
                         l->op);
    l->n_tasks = (uint32_t)tasks;
    l->read_bytes = traffic * 1024;
    return 0;
}

// ---- the table ---------------------------------------------------------------------------------

static bool ends_table(const char *line)
{
    return !line || is_rule(line) || !line[strspn(line, " \t\r")] || strncmp(line, "Total", 5) == 0;
}

// The lines behind the titles, up to a rule, an empty line or the totals.
static int read_layers(struct table *t, char **rest, struct perf *p, struct error *e)
{
    size_t room = 0;
    char *line = next_line(t, rest);
    if (line && is_rule(line))
        line = next_line(t, rest);
    for (; !ends_table(line); line = next_line(t, rest)) {
        if (p->n == PERF_MAX_LAYERS)
            return error_set(e, STATUS_FAIL, "more than %d layers", PERF_MAX_LAYERS);
        int r = array_reserve(p->layers, room, p->n + 1, "layer times", e);
        if (r == 0)
            r = read_layer(t, line, &p->layers[p->n], e);
        if (r < 0)
            return r;
        p->n++;
    }
    return 0;
}

static int read_table(char *text, struct perf *p, struct error *e)
{
    struct table t = {0};
    char *line, *rest = text;
    while ((line = next_line(&t, &rest)))
        if (read_titles(&t, line))
            return read_layers(&t, &rest, p, e);
    return error_set(e, STATUS_FAIL, "no line has the titles OpType and Time(us)");
}

void perf_done(struct perf *p)
{
    free(p->layers);
    free(p->text);
    *p = (struct perf){0};
}

int perf_parse(struct bytes text, struct perf *ret, struct error *e)
{
    struct perf p = {.text = malloc(text.size + 1)};
    if (!p.text)
        return error_no_memory(e, "layer times", text.size);
    memcpy(p.text, text.data, text.size);
    p.text[text.size] = 0;
    int r = read_table(p.text, &p, e);
    if (r < 0) {
        perf_done(&p);
        return error_prefix(e, "the runtime's table of layers");
    }
    *ret = p;
    return 0;
}
