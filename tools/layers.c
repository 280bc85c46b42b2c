// Layers of a model and their times.
#include "tools/layers.h"

#include <string.h>

#include "tools/csv.h"
#include "tools/stats.h"
#include "tools/table.h"

#define N_CORES (sizeof((rknnd_layer){0}.core_work) / sizeof(uint64_t))

static uint64_t percentile(const struct layer_times *t, uint32_t layer, unsigned percent)
{
    if (!t->us)
        return t->layers[layer].time_us;
    return stats_percentile(t->us + (size_t)layer * t->n_runs, t->n_runs, percent);
}

uint64_t layers_median_us(const struct layer_times *t, uint32_t layer)
{
    return percentile(t, layer, 50);
}

uint64_t layers_spread_us(const struct layer_times *t, uint32_t layer)
{
    return percentile(t, layer, 75) - percentile(t, layer, 25);
}

uint64_t layers_total_us(const struct layer_times *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->n_layers; i++)
        sum += layers_median_us(t, i);
    return sum;
}

uint64_t layers_total_bytes(const struct layer_times *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->n_layers; i++)
        sum += t->layers[i].read_bytes + t->layers[i].write_bytes;
    return sum;
}

// ---- cells -------------------------------------------------------------------------------------

struct cell {
    char text[64];
};

// "9.06", "\" where nothing is multiplied.
static const char *mac_usage(const rknnd_layer *l, struct cell *c)
{
    if (l->mac_cycles == 0 || l->total_cycles == 0)
        return "\\";
    snprintf(c->text, sizeof c->text, "%.2f",
             100 * (double)l->mac_cycles / (double)l->total_cycles);
    return c->text;
}

static double core_share(const rknnd_layer *l, size_t core)
{
    double sum = 0;
    for (size_t i = 0; i < N_CORES; i++)
        sum += (double)l->core_work[i];
    return sum > 0 ? 100 * (double)l->core_work[core] / sum : 0;
}

// "50.0%/50.0%/0.0%".
static const char *work_load(const rknnd_layer *l, struct cell *c)
{
    size_t at = 0;
    for (size_t i = 0; i < N_CORES && at < sizeof c->text; i++)
        at += (size_t)snprintf(c->text + at, sizeof c->text - at, "%s%.1f%%", i ? "/" : "",
                               core_share(l, i));
    return c->text;
}

static const char *number(uint64_t value, struct cell *c)
{
    snprintf(c->text, sizeof c->text, "%llu", (unsigned long long)value);
    return c->text;
}

// What column `c` of `columns` has for a layer.
static const char *layer_cell(const struct layer_times *t, uint32_t i, size_t column,
                              struct cell *c)
{
    const rknnd_layer *l = &t->layers[i];
    switch (column) {
    case 0:
        return number(i + 1, c);
    case 1:
        return l->op;
    case 2:
        return l->type;
    case 3:
        return l->target;
    case 4:
        return l->input_shapes;
    case 5:
        return l->output_shapes;
    case 6:
        return number(l->ddr_cycles, c);
    case 7:
        return number(l->npu_cycles, c);
    case 8:
        return number(l->total_cycles, c);
    case 9:
        return number(layers_median_us(t, i), c);
    case 10:
        return number(layers_spread_us(t, i), c);
    case 11:
        return mac_usage(l, c);
    case 12:
        return work_load(l, c);
    case 13:
        return number((l->read_bytes + l->write_bytes) / 1024, c);
    default:
        return l->name;
    }
}

static const struct table_column columns[] = {
    {"ID", TABLE_RIGHT, TABLE_FIXED, 0},
    {"OpType", TABLE_LEFT, TABLE_CUT_END, 0},
    {"DataType", TABLE_LEFT, TABLE_FIXED, 3},
    {"Target", TABLE_LEFT, TABLE_FIXED, 1},
    {"InputShape", TABLE_LEFT, TABLE_CUT_END, 9},
    {"OutputShape", TABLE_LEFT, TABLE_CUT_END, 8},
    {"DDRCycles", TABLE_RIGHT, TABLE_FIXED, 6},
    {"NPUCycles", TABLE_RIGHT, TABLE_FIXED, 7},
    {"MaxCycles", TABLE_RIGHT, TABLE_FIXED, 5},
    {"Time(us)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"Spread(us)", TABLE_RIGHT, TABLE_FIXED, 2},
    {"MacUsage(%)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"WorkLoad(0/1/2)", TABLE_LEFT, TABLE_FIXED, 4},
    {"RW(KB)", TABLE_RIGHT, TABLE_FIXED, 0},
    {"FullName", TABLE_LEFT, TABLE_CUT_START, 0},
};

#define N_COLUMNS (sizeof columns / sizeof *columns)

int layers_print(const struct layer_times *t, FILE *out, const char *indent, size_t width)
{
    struct table table;
    struct cell c;
    table_init(&table, columns, N_COLUMNS);
    for (uint32_t i = 0; i < t->n_layers; i++)
        for (size_t column = 0; column < N_COLUMNS; column++)
            table_cell(&table, "%s", layer_cell(t, i, column, &c));
    int r = table_print(&table, out, indent, width);
    table_done(&table);
    return r;
}

void layers_csv(const struct layer_times *t, FILE *out)
{
    struct cell c;
    for (size_t column = 0; column < N_COLUMNS; column++)
        csv_cell(out, columns[column].title, column == 0, column + 1 == N_COLUMNS);
    for (uint32_t i = 0; i < t->n_layers; i++)
        for (size_t column = 0; column < N_COLUMNS; column++)
            csv_cell(out, layer_cell(t, i, column, &c), column == 0, column + 1 == N_COLUMNS);
}

static json_t *layer_json(const struct layer_times *t, uint32_t i)
{
    const rknnd_layer *l = &t->layers[i];
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, "
        "s:[I, I, I]}",
        "name", l->name, "op", l->op, "type", l->type, "target", l->target, "input_shapes",
        l->input_shapes, "output_shapes", l->output_shapes, "time_us",
        (json_int_t)layers_median_us(t, i), "spread_us", (json_int_t)layers_spread_us(t, i),
        "min_us", (json_int_t)percentile(t, i, 0), "max_us", (json_int_t)percentile(t, i, 100),
        "ddr_cycles", (json_int_t)l->ddr_cycles, "npu_cycles", (json_int_t)l->npu_cycles,
        "total_cycles", (json_int_t)l->total_cycles, "macs", (json_int_t)l->macs, "read_bytes",
        (json_int_t)l->read_bytes, "write_bytes", (json_int_t)l->write_bytes, "core_mask",
        (json_int_t)l->core_mask, "mac_cycles", (json_int_t)l->mac_cycles, "core_work",
        (json_int_t)l->core_work[0], (json_int_t)l->core_work[1], (json_int_t)l->core_work[2]);
}

json_t *layers_json(const struct layer_times *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->n_layers; i++)
        json_array_append_new(list, layer_json(t, i));
    return list;
}
