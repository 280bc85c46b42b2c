// A table of layers with their times, as text, CSV and JSON. Columns are those of the vendor's SDK
// guide (3.2.3). `order` permutes rows for display only: ids stay those of the execution.
#include "tools/view/layers.h"

#include <string.h>

#include "tools/format/csv.h"
#include "tools/format/order_stats.h"
#include "tools/format/table.h"

#define N_CORES 3 // that the tables show

static const rknnd_layer *layer_at(const struct layer_times *t, uint32_t i)
{
    return rknnd_layer_at(t->layers, i);
}

// A core's share of the layer, in any unit (rknnd_layer.core_work); 0 for cores that are not
// listed.
static uint64_t core_work(const rknnd_layer *l, size_t core)
{
    return core < l->n_core_work ? l->core_work[core] : 0;
}

// Rows of t->us are sorted, so that a percentile is an index.
static uint64_t layer_percentile(const struct layer_times *t, uint32_t layer, unsigned percent)
{
    if (!t->us)
        return layer_at(t, layer)->time_us;
    return stats_percentile(t->us + (size_t)layer * t->n_runs, t->n_runs, percent);
}

uint64_t layers_median_us(const struct layer_times *t, uint32_t layer)
{
    return layer_percentile(t, layer, 50);
}

// The range between the quartiles of a layer's times.
static uint64_t layers_spread_us(const struct layer_times *t, uint32_t layer)
{
    return layer_percentile(t, layer, 75) - layer_percentile(t, layer, 25);
}

uint64_t layers_total_us(const struct layer_times *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->layers->n; i++)
        sum += layers_median_us(t, i);
    return sum;
}

uint64_t layers_estimate_ns(const struct layer_times *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->layers->n; i++)
        sum += layer_at(t, i)->estimate_ns;
    return sum;
}

uint64_t layers_total_bytes(const struct layer_times *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->layers->n; i++)
        sum += layer_at(t, i)->read_bytes + layer_at(t, i)->write_bytes;
    return sum;
}

// ---- cells -------------------------------------------------------------------------------------

// Room for a cell's text; the longest is the work load of three cores.
struct cell {
    char text[64];
};

// MAC utilization in per cent: cycles that the MACs need at the least, of all cycles. The SDK's "\"
// stands where nothing is multiplied.
static const char *mac_usage(const rknnd_layer *l, struct cell *c)
{
    if (l->mac_cycles == 0 || l->total_cycles == 0)
        return "\\";
    snprintf(c->text, sizeof c->text, "%.2f",
             100 * (double)l->mac_cycles / (double)l->total_cycles);
    return c->text;
}

// Per cent of the work of the cores that the tables show.
static double core_share(const rknnd_layer *l, size_t core)
{
    double sum = 0;
    for (size_t i = 0; i < N_CORES; i++)
        sum += (double)core_work(l, i);
    return sum > 0 ? 100 * (double)core_work(l, core) / sum : 0;
}

// Each core's share, "50.0%/50.0%/0.0%", as in the SDK's WorkLoad column.
static const char *work_load(const rknnd_layer *l, struct cell *c)
{
    size_t at = 0;
    for (size_t i = 0; i < N_CORES && at < sizeof c->text; i++)
        at += (size_t)snprintf(c->text + at, sizeof c->text - at, "%s%.1f%%", i ? "/" : "",
                               core_share(l, i));
    return c->text;
}

static const char *layer_number(uint64_t value, struct cell *c)
{
    snprintf(c->text, sizeof c->text, "%llu", (unsigned long long)value);
    return c->text;
}

// "12.3"; "-" where it is not known.
static const char *layer_estimate(const rknnd_layer *l, struct cell *c)
{
    if (!l->estimate_ns)
        return "-";
    snprintf(c->text, sizeof c->text, "%.1f", (double)l->estimate_ns / 1e3);
    return c->text;
}

// Contents of columns; layer_cell() makes the text.
enum what {
    ID,
    OP,
    TYPE,
    TARGET,
    INPUTS,
    OUTPUTS,
    DDR_CYCLES,
    NPU_CYCLES,
    MAX_CYCLES,
    TIME,
    ESTIMATE,
    SPREAD,
    MAC_USAGE,
    WORK_LOAD,
    MOVED,
    NAME
};

// A cell's text: in `c`, or the layer's own. Ids count from 1.
static const char *layer_cell(const struct layer_times *t, uint32_t i, enum what what,
                              struct cell *c)
{
    const rknnd_layer *l = layer_at(t, i);
    switch (what) {
    case ID:
        return layer_number(i + 1, c);
    case OP:
        return l->op;
    case TYPE:
        return l->type;
    case TARGET:
        return l->target;
    case INPUTS:
        return l->input_shapes;
    case OUTPUTS:
        return l->output_shapes;
    case DDR_CYCLES:
        return layer_number(l->ddr_cycles, c);
    case NPU_CYCLES:
        return layer_number(l->npu_cycles, c);
    case MAX_CYCLES:
        return layer_number(l->total_cycles, c);
    case TIME:
        return layer_number(layers_median_us(t, i), c);
    case ESTIMATE:
        return layer_estimate(l, c);
    case SPREAD:
        return layer_number(layers_spread_us(t, i), c);
    case MAC_USAGE:
        return mac_usage(l, c);
    case WORK_LOAD:
        return work_load(l, c);
    case MOVED:
        return layer_number((l->read_bytes + l->write_bytes) / 1024, c);
    default:
        return l->name;
    }
}

// Which devices have a column: NPUs, software NPUs, or both.
enum whose { OF_NPU = 1, OF_SOFTWARE = 2, OF_BOTH = 3 };

static const struct column {
    enum whose whose;
    enum what what;
    struct table_column look;
} all_columns[] = {
    {OF_BOTH, ID, {"ID", TABLE_RIGHT, TABLE_FIXED, 0}},
    {OF_BOTH, OP, {"OpType", TABLE_LEFT, TABLE_CUT_END, 0}},
    {OF_BOTH, TYPE, {"DataType", TABLE_LEFT, TABLE_FIXED, 3}},
    {OF_BOTH, TARGET, {"Target", TABLE_LEFT, TABLE_FIXED, 1}},
    {OF_BOTH, INPUTS, {"InputShape", TABLE_LEFT, TABLE_CUT_END, 9}},
    {OF_BOTH, OUTPUTS, {"OutputShape", TABLE_LEFT, TABLE_CUT_END, 8}},
    {OF_BOTH, DDR_CYCLES, {"DDRCycles", TABLE_RIGHT, TABLE_FIXED, 6}},
    {OF_BOTH, NPU_CYCLES, {"NPUCycles", TABLE_RIGHT, TABLE_FIXED, 7}},
    {OF_BOTH, MAX_CYCLES, {"MaxCycles", TABLE_RIGHT, TABLE_FIXED, 5}},
    {OF_NPU, TIME, {"Time(us)", TABLE_RIGHT, TABLE_FIXED, 0}},
    {OF_NPU, SPREAD, {"Spread(us)", TABLE_RIGHT, TABLE_FIXED, 2}},
    {OF_SOFTWARE, ESTIMATE, {"Estimate(us)", TABLE_RIGHT, TABLE_FIXED, 0}},
    {OF_SOFTWARE, TIME, {"Machine(us)", TABLE_RIGHT, TABLE_FIXED, 0}},
    {OF_SOFTWARE, SPREAD, {"MachineSpread(us)", TABLE_RIGHT, TABLE_FIXED, 4}},
    {OF_BOTH, MAC_USAGE, {"MacUsage(%)", TABLE_RIGHT, TABLE_FIXED, 1}},
    {OF_BOTH, WORK_LOAD, {"WorkLoad(0/1/2)", TABLE_LEFT, TABLE_FIXED, 4}},
    {OF_BOTH, MOVED, {"RW(KB)", TABLE_RIGHT, TABLE_FIXED, 2}},
    {OF_BOTH, NAME, {"FullName", TABLE_LEFT, TABLE_CUT_START, 0}},
};

#define MAX_COLUMNS (sizeof all_columns / sizeof *all_columns)

// The columns that this device has. A software NPU's measured time is called "Machine".
static size_t choose_columns(const struct layer_times *t, const struct column *ret[MAX_COLUMNS])
{
    enum whose whose = t->timing.software ? OF_SOFTWARE : OF_NPU;
    size_t n = 0;
    for (size_t i = 0; i < MAX_COLUMNS; i++)
        if (all_columns[i].whose & whose)
            ret[n++] = &all_columns[i];
    return n;
}

// The layer in the n-th row.
static uint32_t is_shown(const struct layer_times *t, uint32_t place)
{
    return t->order ? t->order[place] : place;
}

// Columns of this device, rows in the order of --sort; table.h fits it to the width.
int layers_print(const struct layer_times *t, FILE *out, const char *indent, size_t width)
{
    const struct column *columns[MAX_COLUMNS];
    struct table_column looks[MAX_COLUMNS];
    struct table table;
    struct cell c;
    size_t n = choose_columns(t, columns);
    for (size_t i = 0; i < n; i++)
        looks[i] = columns[i]->look;
    table_init(&table, looks, n);
    for (uint32_t i = 0; i < t->layers->n; i++)
        for (size_t k = 0; k < n; k++)
            table_cell(&table, "%s", layer_cell(t, is_shown(t, i), columns[k]->what, &c));
    int r = table_print(&table, out, indent, width);
    table_done(&table);
    return r;
}

// All columns of this device: a spreadsheet has no width.
void layers_csv(const struct layer_times *t, FILE *out)
{
    const struct column *columns[MAX_COLUMNS];
    struct cell c;
    size_t n = choose_columns(t, columns);
    for (size_t k = 0; k < n; k++)
        csv_cell(out, columns[k]->look.title, k == 0, k + 1 == n);
    for (uint32_t i = 0; i < t->layers->n; i++)
        for (size_t k = 0; k < n; k++)
            csv_cell(out, layer_cell(t, is_shown(t, i), columns[k]->what, &c), k == 0, k + 1 == n);
}

// Names of times depend on the device (timing.h), the rest does not.
static json_t *layer_json(const struct layer_times *t, uint32_t i)
{
    const rknnd_layer *l = layer_at(t, i);
    char room[64];
    json_t *o = json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[I, I, I]}",
        "id", (json_int_t)i + 1, "name", l->name, "op", l->op, "type", l->type, "target", l->target,
        "input_shapes", l->input_shapes, "output_shapes", l->output_shapes, "ddr_cycles",
        (json_int_t)l->ddr_cycles, "npu_cycles", (json_int_t)l->npu_cycles, "total_cycles",
        (json_int_t)l->total_cycles, "macs", (json_int_t)l->macs, "read_bytes",
        (json_int_t)l->read_bytes, "write_bytes", (json_int_t)l->write_bytes, "core_mask",
        (json_int_t)l->core_mask, "mac_cycles", (json_int_t)l->mac_cycles, "core_work",
        (json_int_t)core_work(l, 0), (json_int_t)core_work(l, 1), (json_int_t)core_work(l, 2));
    const struct {
        const char *name;
        uint64_t us;
    } measured[] = {{"spread_us", layers_spread_us(t, i)},
                    {"min_us", layer_percentile(t, i, 0)},
                    {"max_us", layer_percentile(t, i, 100)}};
    timing_put(&t->timing, o, "time_us", json_integer((json_int_t)layers_median_us(t, i)),
               timing_estimate(l->estimate_ns));
    for (size_t k = 0; k < sizeof measured / sizeof *measured; k++)
        json_object_set_new(o, timing_name(&t->timing, measured[k].name, room),
                            json_integer((json_int_t)measured[k].us));
    return o;
}

json_t *layers_json(const struct layer_times *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->layers->n; i++)
        json_array_append_new(list, layer_json(t, is_shown(t, i)));
    return list;
}
