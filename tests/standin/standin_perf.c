// The table of layers, as the figures of the manuals show it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/standin/standin.h"

static void usage(const struct npu_layer *l, char *text, size_t size)
{
    if (l->mac_cycles && l->total_cycles)
        snprintf(text, size, "%.2f", 100.0 * (double)l->mac_cycles / (double)l->total_cycles);
    else
        snprintf(text, size, "\\");
}

static void work(const struct npu_layer *l, char *text, size_t size)
{
    double sum = 0, part[NPU_MAX_CORES];
    for (unsigned i = 0; i < NPU_MAX_CORES; i++)
        sum += (double)l->core_work[i];
    for (unsigned i = 0; i < NPU_MAX_CORES; i++)
        part[i] = sum > 0 ? 100 * (double)l->core_work[i] / sum : 0;
    snprintf(text, size, "%.1f%%/%.1f%%/%.1f%%", part[0], part[1], part[2]);
}

#ifdef STANDIN_OLD
static void write_titles(FILE *f)
{
    fprintf(f, "%-4s%-16s%-9s%-7s%-40s%-24s%-11s%-11s%-13s%-9s%-12s%-32s%-12s%-11s%-8s%s\n", "ID",
            "OpType", "DataType", "Target", "InputShape", "OutputShape", "DDR Cycles", "NPU Cycles",
            "Total Cycles", "Time(us)", "MacUsage(%)", "WorkLoad(0/1/2)-ImproveTherical",
            "Task Number", "Lut Number", "RW(KB)", "FullName");
}

static void write_layer(FILE *f, size_t id, const struct npu_layer *l)
{
    char mac[32], cores[64];
    usage(l, mac, sizeof mac);
    work(l, cores, sizeof cores - 12);
    strcat(cores, " - Up:0.0%");
    fprintf(f,
            "%-4zu%-16s%-9s%-7s%-39.39s %-23.23s %-11" PRIu64 "%-11" PRIu64 "%-13" PRIu64
            "%-9" PRIu64 "%-12s%-32s%-12u%-11u%-8" PRIu64 "%s\n",
            id, l->op, l->type, l->target, *l->input_shapes ? l->input_shapes : "\\",
            *l->output_shapes ? l->output_shapes : "\\", l->ddr_cycles, l->npu_cycles,
            l->total_cycles, l->time_us, mac, cores, l->n_tasks, 0u,
            (l->read_bytes + l->write_bytes) / 1024, l->name);
}
#else
#define FORMAT "%-4s %-17s %-8s %-6s %-40s %-22s %-24s %-12s %-20s %-20s %-10s %-12s %s\n"

static void write_titles(FILE *f)
{
    fprintf(f, FORMAT, "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape",
            "Cycles(DDR/NPU/Total)", "Time(us)", "MacUsage(%)", "WorkLoad(0/1/2)", "TaskNumber",
            "RW(KB)", "FullName");
}

static void write_layer(FILE *f, size_t id, const struct npu_layer *l)
{
    char number[24], tasks[24], cycles[80], time[24], mac[32], cores[64], traffic[24];
    snprintf(number, sizeof number, "%zu", id);
    snprintf(cycles, sizeof cycles, "%" PRIu64 "/%" PRIu64 "/%" PRIu64, l->ddr_cycles,
             l->npu_cycles, l->total_cycles);
    snprintf(time, sizeof time, "%" PRIu64, l->time_us);
    usage(l, mac, sizeof mac);
    work(l, cores, sizeof cores);
    snprintf(tasks, sizeof tasks, "%u", l->n_tasks);
    snprintf(traffic, sizeof traffic, "%" PRIu64, (l->read_bytes + l->write_bytes) / 1024);
    fprintf(f, FORMAT, number, l->op, l->type, l->target, *l->input_shapes ? l->input_shapes : "\\",
            *l->output_shapes ? l->output_shapes : "\\", cycles, time, mac, cores, tasks, traffic,
            l->name);
}
#endif

static void write_rule(FILE *f, const char *title)
{
    for (int i = 0; i < 160; i++)
        fputc('-', f);
    fprintf(f, *title ? "\n%80s\n" : "\n", title);
}

int standin_perf(struct standin *s, rknn_perf_detail *ret)
{
    size_t n, size;
    uint64_t sum = 0;
    const struct npu_layer *layers = npu_backend.context_layers(s->context, &n);
    free(s->perf);
    FILE *f = open_memstream(&s->perf, &size);
    write_rule(f, "Network Layer Information Table");
    write_titles(f);
    write_rule(f, "");
    for (size_t i = 0; i < n; i++) {
        write_layer(f, i + 1, &layers[i]);
        sum += layers[i].time_us;
    }
    write_rule(f, "");
    fprintf(f, "Total Operator Elapsed Per Frame Time(us): %" PRIu64 "\n", sum);
    write_rule(f, "Operator Time Consuming Ranking Table");
    fprintf(f, "OpType  CallNumber  CPUTime(us)  GPUTime(us)  NPUTime(us)  TotalTime(us)\n");
    fclose(f);
    *ret = (rknn_perf_detail){s->perf, size};
    return RKNN_SUCC;
}
