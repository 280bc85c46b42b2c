// What a model is, on one screen: a function for each line, from the description's JSON. Each line
// is collected in memory first: an empty one is left out, a long one is wrapped.
#include "tools/view/summary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/format/format.h"
#include "tools/ui/terminal.h"

#define NAME_COLUMN 12
#define MAX_TENSORS 4 // shown of a model's inputs, and of its outputs

struct page {
    json_t *model;
    FILE *out;
    size_t width;
    bool failed;
};

// ---- lines -------------------------------------------------------------------------------------

// A line under construction, in an open_memstream().
struct line {
    char *text;
    size_t size;
    FILE *out;
};

// NULL without memory, which is noted; the caller then skips the line.
static FILE *line_begin(struct page *p, struct line *l)
{
    *l = (struct line){0};
    l->out = open_memstream(&l->text, &l->size);
    p->failed = p->failed || !l->out;
    return l->out;
}

// Prints the line if there is anything in it, with control characters replaced, and frees it.
static void line_end(struct page *p, struct line *l, const char *name)
{
    bool there = l->out && fclose(l->out) == 0 && l->text && *l->text;
    for (char *c = l->text; there && *c; c++) // names are the file's, and may be anything
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    if (there) {
        fprintf(p->out, "  %-*s ", NAME_COLUMN - 3, name);
        terminal_wrap(p->out, l->text, NAME_COLUMN, p->width);
    }
    free(l->text);
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static uint64_t number_of(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    return n > 0 ? (uint64_t)n : 0;
}

static bool is_onnx(const struct page *p)
{
    return strcmp(text_of(p->model, "container"), "onnx") == 0;
}

// Three significant digits with a decimal unit: "3.47 M".
static const char *count_text(char buffer[32], uint64_t n)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    double v = (double)n;
    size_t unit = 0;
    for (; v >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        v /= 1000;
    snprintf(buffer, 32,
             unit == 0 ? "%.0f %s"
             : v < 10  ? "%.2f %s"
             : v < 100 ? "%.1f %s"
                       : "%.0f %s",
             v, units[unit]);
    return buffer;
}

// ---- the file ----------------------------------------------------------------------------------

// "rknn 6", "encrypted", … as words.
static void write_kind(FILE *out, json_t *model)
{
    const char *kind = text_of(model, "container");
    if (strcmp(kind, "onnx") == 0)
        fprintf(out, "ONNX, operator set %llu",
                (unsigned long long)number_of(model, "operator_set"));
    else if (strncmp(kind, "rknn ", 5) == 0)
        fprintf(out, "RKNN, container %s", kind + 5);
    else
        fprintf(out, "%s%s", strcmp(kind, "rknn") == 0 ? "RKNN" : kind,
                strcmp(kind, "unknown") == 0 ? " kind" : "");
}

// The toolkit's version alone: "2.3.1" of "2.3.1-source_code(compiler version: …".
static void print_file(struct page *p)
{
    struct line l;
    struct format_buffer size;
    const char *toolkit = text_of(p->model, "toolkit"), *framework = text_of(p->model, "framework");
    const char *chip = text_of(p->model, "chip");
    FILE *out = line_begin(p, &l);
    if (!out)
        return;
    write_kind(out, p->model);
    if (*chip)
        fprintf(out, " for %s", chip);
    if (*framework)
        fprintf(out, ", from %s", framework);
    if (*toolkit)
        fprintf(out, ", by Toolkit %.*s", (int)strcspn(toolkit, "-( "), toolkit);
    fprintf(out, "; %s", format_bytes(&size, number_of(p->model, "file_size")));
    line_end(p, &l, "file");
}

// ---- inputs and outputs ------------------------------------------------------------------------

// As programs see it: rknn_query() reports 4-D inputs as NHWC, all other tensors as the file has
// them (NCHW).
static void write_shape(FILE *out, json_t *tensor, bool input)
{
    static const size_t nhwc[] = {0, 2, 3, 1};
    json_t *shape = json_object_get(tensor, "shape");
    size_t n = json_array_size(shape);
    bool there = strcmp(text_of(tensor, "layout"), "NHWC") == 0; // the vendor's runtime says it so
    bool turned = input && n == 4 && !there;
    for (size_t i = 0; i < n; i++) {
        json_t *dim = json_array_get(shape, turned ? nhwc[i] : i);
        fputs(i ? "x" : "", out);
        if (json_is_integer(dim))
            fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(dim));
        else
            fputc('?', out);
    }
    fputs(n == 0 ? "scalar" : turned || there ? " NHWC" : n == 4 ? " NCHW" : "", out);
}

// One number if all are the same.
static void write_list(FILE *out, const char *what, json_t *list)
{
    size_t i;
    json_t *item;
    bool same = json_array_size(list) > 1;
    json_array_foreach(list, i, item) same = same && json_equal(item, json_array_get(list, 0));
    fprintf(out, " %s", what);
    json_array_foreach(list, i, item) if (i == 0 || !same)
        fprintf(out, "%s%.6g", i ? "," : " ", json_number_value(item));
}

// The preprocessing in the model: x -> (x - mean) / std for each channel, and swapped channels.
static void write_preparation(FILE *out, json_t *tensor)
{
    json_t *mean = json_object_get(tensor, "mean"), *std = json_object_get(tensor, "std");
    json_t *order = json_object_get(tensor, "channel_order"), *item;
    size_t i;
    bool changes = false, swaps = false;
    json_array_foreach(mean, i, item) changes =
        changes || json_number_value(item) != 0 || json_number_value(json_array_get(std, i)) != 1;
    json_array_foreach(order, i, item) swaps = swaps || (size_t)json_integer_value(item) != i;
    if (changes) {
        write_list(out, "mean", mean);
        write_list(out, "std", std);
    }
    if (swaps)
        fputs(" BGR", out);
}

// A line each; beyond MAX_TENSORS only how many more there are.
static void print_tensors(struct page *p, const char *key, const char *name)
{
    size_t i, n = json_array_size(json_object_get(p->model, key));
    json_t *tensor;
    json_array_foreach(json_object_get(p->model, key), i, tensor)
    {
        struct line l;
        FILE *out = i < MAX_TENSORS ? line_begin(p, &l) : NULL;
        if (!out)
            break;
        fprintf(out, "%s %s ", text_of(tensor, "name"), text_of(tensor, "type"));
        write_shape(out, tensor, *key == 'i');
        if (json_object_get(tensor, "scale"))
            fprintf(out, " scale %.6g zp %" JSON_INTEGER_FORMAT,
                    json_number_value(json_object_get(tensor, "scale")),
                    json_integer_value(json_object_get(tensor, "zero_point")));
        write_preparation(out, tensor);
        if (i + 1 == MAX_TENSORS && n > MAX_TENSORS)
            fprintf(out, " (and %zu more)", n - MAX_TENSORS);
        line_end(p, &l, i == 0 ? name : "");
    }
}

// Several shape sets, or open dimensions of an ONNX file.
static void print_shapes(struct page *p)
{
    struct line l;
    json_t *dynamic = json_object_get(p->model, "dynamic_shapes"), *input, *dim;
    size_t i, k, open = 0;
    json_array_foreach(json_object_get(p->model, "inputs"), i, input)
        json_array_foreach(json_object_get(input, "shape"), k, dim) open += json_is_null(dim);
    FILE *out = line_begin(p, &l);
    if (!out)
        return;
    if (json_object_size(dynamic) || json_array_size(dynamic) || number_of(p->model, "shapes") > 1)
        fputs("dynamic: several shape sets to choose from (--shape-set; --all lists them)", out);
    else if (open)
        fprintf(out, "%zu open dimension%s (?): --shape gives them, an open first one is 1", open,
                open == 1 ? "" : "s");
    line_end(p, &l, "shapes");
}

// ---- work --------------------------------------------------------------------------------------

// MACs and parameters; a description without MACs has neither.
static void print_work(struct page *p)
{
    char macs[32], parameters[32];
    struct line l;
    struct format_buffer weights;
    FILE *out = json_object_get(p->model, "macs") ? line_begin(p, &l) : NULL;
    if (!out)
        return;
    fprintf(out, "%sMAC a run; %s parameters", count_text(macs, number_of(p->model, "macs")),
            count_text(parameters, number_of(p->model, "parameters")));
    if (number_of(p->model, "weight_size"))
        fprintf(out, ", %s of weights", format_bytes(&weights, number_of(p->model, "weight_size")));
    line_end(p, &l, "size");
}

// Memory between layers is "internal_size" or "arena_size", by what the backend describes.
static void print_memory(struct page *p)
{
    struct line l;
    struct format_buffer a, b, c;
    json_t *e = json_object_get(p->model, "estimate");
    uint64_t internal = number_of(p->model, "internal_size");
    internal = internal ? internal : number_of(p->model, "arena_size");
    FILE *out = line_begin(p, &l);
    if (!out)
        return;
    if (internal)
        fprintf(out, "%s between layers", format_bytes(&a, internal));
    if (e)
        fprintf(out, "%sa run reads %s and writes %s", internal ? "; " : "",
                format_bytes(&b, number_of(e, "read_bytes")),
                format_bytes(&c, number_of(e, "write_bytes")));
    line_end(p, &l, "memory");
}

static double real_of(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

// Per cent of the estimated time spent in layers that are memory-bound: their DDR cycles exceed
// their NPU cycles.
static double memory_bound(json_t *model)
{
    size_t i;
    json_t *layer;
    double memory = 0, all = 0;
    json_array_foreach(json_object_get(model, "layer_estimates"), i, layer)
    {
        double us = real_of(layer, "us");
        all += us;
        memory += real_of(layer, "ddr_cycles") > real_of(layer, "npu_cycles") ? us : 0;
    }
    return all > 0 ? 100 * memory / all : 0;
}

// The estimate is for one core. FPS gets a decimal when a run takes longer than 0.1 s.
static void print_time(struct page *p)
{
    struct line l;
    struct format_buffer time;
    json_t *e = json_object_get(p->model, "estimate");
    double us = real_of(e, "us");
    bool cpu = json_object_size(json_object_get(p->model, "operators_on_cpu")) > 0;
    FILE *out = line_begin(p, &l);
    if (!out)
        return;
    if (us > 0)
        fprintf(out, "about %s a run on one core of a %s, %.*f FPS (estimate%s)",
                format_ns(&time, (uint64_t)(us * 1000)), text_of(e, "chip"), us > 1e5 ? 1 : 0,
                1e6 / us, cpu ? " of what the NPU does" : "");
    else if (is_onnx(p))
        fputs("no estimate: a .rknn file is for a chip, and has one", out);
    line_end(p, &l, "time");
    out = us > 0 ? line_begin(p, &l) : NULL;
    if (!out)
        return;
    double bound = memory_bound(p->model);
    fprintf(out, "%s for %.0f %% of that time; %.0f %% of the multipliers are at work",
            bound >= 50 ? "memory" : "computing", bound >= 50 ? bound : 100 - bound,
            real_of(e, "mac_usage"));
    line_end(p, &l, "limit");
}

// Nodes that the server's software NPU computes by their own register programs, which takes long.
static void print_programs(struct page *p)
{
    struct line l;
    json_t *list = json_object_get(p->model, "by_program");
    FILE *out = json_array_size(list) ? line_begin(p, &l) : NULL;
    if (!out)
        return;
    fprintf(out,
            "%zu of its nodes by their own register programs on an emulator, which is slow; the "
            "first: %s",
            json_array_size(list), json_string_value(json_array_get(list, 0)));
    line_end(p, &l, "emulated");
}

// ---- nodes -------------------------------------------------------------------------------------

// Nodes of RKNN files that stand for the model's inputs and outputs compute nothing.
static bool is_port(json_t *node)
{
    const char *op = text_of(node, "op");
    return strcmp(op, "InputOperator") == 0 || strcmp(op, "OutputOperator") == 0;
}

// "INT8 60, FLOAT16 3"; a count of 1 is not written.
static void write_counts(FILE *out, json_t *counts)
{
    const char *key, *gap = "";
    json_t *n;
    json_object_foreach(counts, key, n)
    {
        fprintf(out, "%s%s", gap, key);
        if (json_integer_value(n) > 1)
            fprintf(out, " %" JSON_INTEGER_FORMAT, json_integer_value(n));
        gap = ", ";
    }
}

// json_object_set_new() replaces the number; "" cannot be shown and counts as "unknown".
static void count_one(json_t *counts, const char *key)
{
    json_int_t before = json_integer_value(json_object_get(counts, key));
    json_object_set_new(counts, *key ? key : "unknown", json_integer(before + 1));
}

// Two lines: types of what nodes write, and how many nodes run where. An ONNX file has no devices;
// its nodes are merged into layers, which are counted instead.
static void print_nodes(struct page *p)
{
    struct line l;
    json_t *types = json_object(), *cpu = json_object(), *node;
    json_t *layers = json_object_get(p->model, "layers");
    json_t *nodes = layers ? layers : json_object_get(p->model, "nodes");
    size_t i, n = 0, n_cpu = 0;
    bool devices = !is_onnx(p); // which only the software NPU runs
    json_array_foreach(nodes, i, node)
    {
        json_t *output = json_array_get(json_object_get(node, "outputs"), 0);
        if (is_port(node))
            continue;
        bool on_cpu = strcmp(text_of(node, "device"), "CPU") == 0;
        n++;
        n_cpu += on_cpu;
        count_one(types, text_of(output, "type"));
        if (on_cpu)
            count_one(cpu, text_of(node, "op"));
    }
    FILE *out = n ? line_begin(p, &l) : NULL;
    if (out) {
        write_counts(out, types);
        line_end(p, &l, "types");
    }
    out = n ? line_begin(p, &l) : NULL;
    if (out) {
        if (layers)
            fprintf(out, "%zu nodes become ", json_array_size(json_object_get(p->model, "nodes")));
        fprintf(out, "%zu %s%s", n, layers ? "layer" : "node", n == 1 ? "" : "s");
        if (devices)
            fprintf(out, ": %zu on the NPU, %zu on the CPU", n - n_cpu, n_cpu);
        if (n_cpu) {
            fputs(" (", out);
            write_counts(out, cpu);
            fputc(')', out);
        }
        line_end(p, &l, "nodes");
    }
    json_decref(types);
    json_decref(cpu);
}

// Operators that the file does not define.
static void print_custom(struct page *p)
{
    struct line l;
    const char *names = text_of(p->model, "custom_operators");
    FILE *out = *names ? line_begin(p, &l) : NULL;
    if (!out)
        return;
    fprintf(out, "%s: the program must register it, or rknnd have a plugin of it", names);
    line_end(p, &l, "custom");
}

// Nodes that are the NPU's in the file, and that this server's driver cannot run: one line for each
// reason.
static void print_left_to_cpu(struct page *p)
{
    const json_t *list = json_object_get(p->model, "left_to_cpu");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *why = text_of(json_array_get(list, i), "why");
        size_t n = 0, first = i;
        struct line l;
        for (size_t k = 0; k < json_array_size(list); k++)
            if (strcmp(text_of(json_array_get(list, k), "why"), why) == 0) {
                n++;
                first = k < first ? k : first;
            }
        FILE *out = first == i ? line_begin(p, &l) : NULL;
        if (!out)
            continue;
        fprintf(out, "%s (%s)", text_of(json_array_get(list, i), "node"),
                text_of(json_array_get(list, i), "op"));
        if (n > 1)
            fprintf(out, " and %zu more node%s", n - 1, n > 2 ? "s" : "");
        fprintf(out, " left to the CPU: %s", why);
        line_end(p, &l, "driver");
    }
}

// Inputs and outputs that the NPU has where programs have them in dma-bufs, and in which forms; on
// servers whose NPU does so at all.
static void print_in_place(struct page *p)
{
    const json_t *list = json_object_get(p->model, "in_place");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *port = json_array_get(list, i);
        const json_t *forms = json_object_get(port, "forms");
        struct line l;
        FILE *out = line_begin(p, &l);
        if (!out)
            continue;
        fprintf(out, "%s %s: ", json_is_true(json_object_get(port, "input")) ? "input" : "output",
                text_of(port, "tensor"));
        for (size_t k = 0; k < json_array_size(forms); k++)
            fprintf(out, "%s%s", k ? ", " : "in place as ",
                    json_string_value(json_array_get(forms, k)));
        if (!forms)
            fprintf(out, "copied: %s", text_of(port, "why"));
        line_end(p, &l, "dma-buf");
    }
}

// The last word: whether this server runs it, and if not why.
static void print_server(struct page *p, const rknnd_server_info *s)
{
    struct line l;
    const char *refused = text_of(p->model, "refused");
    FILE *out = line_begin(p, &l);
    if (!out)
        return;
    fprintf(out, "%s (%s, %s, %u core%s) ", s->uri, s->chip, s->backend, s->n_cores,
            s->n_cores == 1 ? "" : "s");
    if (*refused)
        fprintf(out, "refuses it: %s", refused);
    else
        fputs("runs it", out);
    line_end(p, &l, "server");
}

// Each line decides for itself whether it has something to say.
int summary_print(json_t *model, const rknnd_server_info *server, FILE *out, size_t width)
{
    struct page p = {.model = model, .out = out, .width = width};
    print_file(&p);
    print_tensors(&p, "inputs", "inputs");
    print_tensors(&p, "outputs", "outputs");
    print_shapes(&p);
    print_nodes(&p);
    print_custom(&p);
    print_work(&p);
    print_memory(&p);
    print_time(&p);
    print_programs(&p);
    print_left_to_cpu(&p);
    print_in_place(&p);
    print_server(&p, server);
    if (json_array_size(json_object_get(model, "nodes")))
        fputs("  more      --all: nodes, attributes, costs of layers; --json; --dot: graph\n", out);
    return p.failed ? -1 : 0;
}
