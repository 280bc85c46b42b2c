// As the SDK's benchmark: runs in a loop, with and without RKNN_FLAG_COLLECT_PERF_MASK, and what
// the queries say of them.
#include "../conformance.h"

#define NAME   "residual"
#define N_RUNS 20

// The columns of the table, in their order (SDK guide, table 3-2).
static const char *const columns[] = {"ID",         "OpType",      "DataType",    "Target",
                                      "InputShape", "OutputShape", "DDRCycles",   "NPUCycles",
                                      "MaxCycles",  "Time(us)",    "MacUsage(%)", "WorkLoad(0/1/2)",
                                      "TaskNumber", "RW(KB)",      "FullName"};

static const char *const totals[] = {"Total Operator Elapsed Per Frame Time(us): ",
                                     "Total Memory Read/Write Per Frame Size(KB): "};

static const char *const ranking[] = {"OpType",      "CallNumber",    "CPUTime(us)", "GPUTime(us)",
                                      "NPUTime(us)", "TotalTime(us)", "TimeRatio(%)"};

static const char *find_all(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n && text; i++) {
        text = strstr(text, words[i]);
        conformance_check(text != NULL, __FILE__, __LINE__, "\"%s\" is missing", words[i]);
    }
    return text;
}

#define FIND(text, words) find_all(text, words, sizeof(words) / sizeof *(words))

// Lines of layers begin with their number, and each column of it lies under its title.
static void expect_layers(const char *table)
{
    unsigned n = 0, id;
    const char *titles = strstr(table, "ID ");
    NEED(titles);
    for (const char *line = titles; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (sscanf(line, "%u ", &id) == 1)
            EXPECT_CMP(id, ==, ++n);
    EXPECT_CMP(n, >=, 3);
}

static void expect_detail(rknn_context c, bool layers)
{
    rknn_perf_detail detail = {0};
    rknn_perf_run run = {0};
    NEED_OK(rknn_query(c, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail));
    EXPECT_CMP(detail.data_len, >, 0);
    EXPECT_CMP(detail.data_len, <=, strlen(detail.perf_data) + 1);
    EXPECT_OK(rknn_query(c, RKNN_QUERY_PERF_RUN, &run, sizeof run)); // the text is still there
    EXPECT_CMP(run.run_duration, >=, 0);
    const char *rest = detail.perf_data;
    if (layers)
        rest = FIND(rest, columns);
    if (layers)
        expect_layers(detail.perf_data);
    rest = FIND(rest, totals);
    if (layers)
        FIND(rest, ranking);
}

static void measure(uint32_t flags)
{
    rknn_context c = conformance_open(NAME ".rknn", flags);
    conformance_set_inputs(c, NAME);
    for (int i = 0; i < N_RUNS; i++)
        EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, NAME);
    expect_detail(c, flags & RKNN_FLAG_COLLECT_PERF_MASK);
    expect_detail(c, flags & RKNN_FLAG_COLLECT_PERF_MASK);
    EXPECT_OK(rknn_destroy(c));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    measure(0);
    measure(RKNN_FLAG_COLLECT_PERF_MASK);
    return conformance_finish();
}
