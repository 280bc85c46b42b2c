// Each kind of finding has a function that goes through the nodes. What is usual and cannot be
// other is left out: operators at the ends of a model, layers that take little of its time.
#include "tools/view/lint.h"

#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "tensor/chip.h"
#include "tools/format/csv.h"
#include "tools/format/format.h"
#include "tools/format/json_get.h"

#define SLOW_SHARE  0.10 // of the model's time, from which on a layer is worth a word
#define SLOW_USAGE  15.0 // percent of the multipliers at work, up to which
#define SLOW_LAYERS 4    // with products, from which on shares say something
#define SLOW_US     100.0
#define LANES       32 // channels that the NPU multiplies at once, of 8 bits

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool is_on_npu(const json_t *node)
{
    return strcmp(json_get_text(node, "device"), "NPU") == 0;
}

// Nodes by their names.
static json_t *nodes_by_name(const json_t *model)
{
    json_t *names = json_object(), *node;
    size_t i;
    json_array_foreach(json_object_get(model, "nodes"), i, node)
        json_object_set(names, json_get_text(node, "name"), node);
    return names;
}

__attribute__((format(printf, 6, 7))) static void add_finding(json_t *list, const char *kind,
                                                              const json_t *node, double us,
                                                              const char *advice,
                                                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    json_t *what = json_vsprintf(format, args);
    va_end(args);
    json_t *finding =
        json_pack("{s:s, s:s, s:s, s:o, s:s}", "kind", kind, "node", json_get_text(node, "name"),
                  "op", json_get_text(node, "op"), "what", what, "advice", advice);
    if (us > 0)
        json_object_set_new(finding, "us", json_real(us));
    json_array_append_new(list, finding);
}

// ---- what the converter got wrong --------------------------------------------------------------

// The server has seen these in the file's registers; here they only get their advice.
static void find_defects(const json_t *model, const json_t *by_name, json_t *list)
{
    size_t i;
    json_t *defect;
    json_array_foreach(json_object_get(model, "defects"), i, defect)
        add_finding(list, "converter", json_object_get(by_name, json_get_text(defect, "node")), 0,
                    "swap the operands in the model (what is broadcast comes second), or convert "
                    "with another version",
                    "%s: results are wrong on the board", json_get_text(defect, "text"));
}

// ---- the CPU between parts of the NPU ----------------------------------------------------------

// Whether one of the tensors has one of these names.
static bool has_any(const json_t *names, const json_t *tensors)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(
        tensors, i, tensor) if (json_object_get(names, json_get_text(tensor, "name"))) return true;
    return false;
}

static void add_names(json_t *names, const json_t *tensors)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(tensors, i, tensor)
        json_object_set_new(names, json_get_text(tensor, "name"), json_true());
}

// Names of tensors that come from the NPU, directly or not; nodes are in the order of execution.
static json_t *behind_npu(const json_t *nodes)
{
    json_t *names = json_object(), *node;
    size_t i;
    json_array_foreach(nodes, i,
                       node) if (is_on_npu(node) || has_any(names, json_object_get(node, "inputs")))
        add_names(names, json_object_get(node, "outputs"));
    return names;
}

// … that go there.
static json_t *ahead_of_npu(const json_t *nodes)
{
    json_t *names = json_object();
    for (size_t i = json_array_size(nodes); i-- > 0;) {
        const json_t *node = json_array_get(nodes, i);
        if (is_on_npu(node) || has_any(names, json_object_get(node, "outputs")))
            add_names(names, json_object_get(node, "inputs"));
    }
    return names;
}

static double element_bytes(const char *type)
{
    return strstr(type, "64") ? 8 : strstr(type, "32") ? 4 : strstr(type, "16") ? 2 : 1;
}

// Elements, or their bytes, of tensors that nodes compute (`names`; NULL: of all).
static double amount_of(const json_t *tensors, const json_t *names, bool bytes)
{
    double sum = 0;
    size_t i, k;
    json_t *tensor, *dim;
    json_array_foreach(tensors, i, tensor)
    {
        double n = !names || json_object_get(names, json_get_text(tensor, "name")) ? 1 : 0;
        json_array_foreach(json_object_get(tensor, "shape"), k, dim) n *= json_number_value(dim);
        sum += bytes ? n * element_bytes(json_get_text(tensor, "type")) : n;
    }
    return sum;
}

// What only moves elements is needed for where they lie, not for what they are.
static const char *advice_for_cpu(const char *op)
{
    static const char *const moves[] = {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (strcmp(op, moves[i]) == 0)
            return "let the layers around it agree on one order of four dimensions, or move it to "
                   "an end of the model, where the program can do it";
    return "replace it by what the chip's NPU has, or move it to an end of the model";
}

// Only what depends on the NPU's results and leads to more of its work makes the NPU wait.
// Constants (tables of a Gather, shapes) are not counted: they do not move.
static void find_cpu(const json_t *model, json_t *list)
{
    const json_t *nodes = json_object_get(model, "nodes");
    json_t *behind = behind_npu(nodes), *ahead = ahead_of_npu(nodes), *node;
    const struct chip *chip = chip_find_variant(json_get_text(model, "chip"));
    double rate = chip ? chip->ddr_mb_per_s : 0; // bytes in a microsecond
    size_t i;
    json_array_foreach(nodes, i, node)
    {
        const json_t *inputs = json_object_get(node, "inputs");
        const json_t *outputs = json_object_get(node, "outputs");
        const char *op = json_get_text(node, "op");
        if (is_on_npu(node) || !has_any(behind, inputs) || !has_any(ahead, outputs) ||
            strcmp(op, "InputOperator") == 0 || strcmp(op, "OutputOperator") == 0)
            continue;
        double read = amount_of(inputs, behind, false);
        double bytes = amount_of(inputs, behind, true) + amount_of(outputs, NULL, true);
        add_finding(list, "cpu", node, rate > 0 ? bytes / rate : 0, advice_for_cpu(op),
                    "on the CPU between parts of the NPU, which wait for it and start once more: "
                    "%.0f element%s read and %.0f written there, in the model's middle",
                    read, read == 1 ? " is" : "s are", amount_of(outputs, NULL, false));
    }
    json_decref(behind);
    json_decref(ahead);
}

// ---- layers far off what the multipliers could do ----------------------------------------------

static double dim_of(const json_t *node, const char *list, size_t tensor, size_t dim)
{
    const json_t *shape =
        json_object_get(json_array_get(json_object_get(node, list), tensor), "shape");
    return json_number_value(json_array_get(shape, dim));
}

// Each channel has a kernel of its own: files have it as [1, C, h, w], ONNX as [C, 1, h, w].
static bool is_depthwise(const json_t *node)
{
    double channels = dim_of(node, "inputs", 0, 1);
    double kernels = dim_of(node, "inputs", 1, 0), of_kernel = dim_of(node, "inputs", 1, 1);
    return channels > 1 && dim_of(node, "outputs", 0, 1) == channels &&
           (of_kernel == 1 || (kernels == 1 && of_kernel == channels));
}

// What a layer that waits for memory could do without.
static const char *advice_for_memory(const json_t *node, const struct chip *chip)
{
    double pixels = dim_of(node, "outputs", 0, 2) * dim_of(node, "outputs", 0, 3);
    const json_t *input = json_array_get(json_object_get(node, "inputs"), 0);
    bool half = strcmp(json_get_text(input, "type"), "FP16") == 0;
    bool cores = chip && chip->n_cores > 1;
    if (pixels <= 1)
        return "its weights are read for one pixel: fewer of them, or a batch";
    if (half)
        return cores ? "memory is what takes the time: int8 in place of fp16, fewer pixels or "
                       "channels here; more cores do not help"
                     : "memory is what takes the time: int8 in place of fp16, fewer pixels or "
                       "channels here";
    return cores ? "memory is what takes the time: fewer pixels or channels here; more cores do "
                   "not help"
                 : "memory is what takes the time: fewer pixels or channels here";
}

// The first reason that fits: how a node is made says more than what it waits for. An ordinary
// convolution has as many times the products of a depthwise one as there are channels, and moves
// the same pixels: up to the bound of the multipliers it is not slower.
static const char *advice_for(const json_t *node, const json_t *layer, const struct chip *chip)
{
    double channels = dim_of(node, "inputs", 0, 1);
    if (strstr(json_get_text(node, "op"), "ConvTranspose"))
        return "a resize and a convolution do the same with less";
    if (is_depthwise(node) && number_of(layer, "mac_usage") * channels <= 100)
        return "a depthwise convolution leaves multipliers idle: an ordinary one takes hardly "
               "longer here, and can be one with a convolution of 1 x 1 behind it";
    if (number_of(layer, "ddr_cycles") >= number_of(layer, "npu_cycles"))
        return advice_for_memory(node, chip);
    if (channels < 0.5 * LANES)
        return "so few channels leave multipliers idle: a smaller kernel or a larger stride, or "
               "pixels folded into channels in front (space to depth)";
    if (dim_of(node, "outputs", 0, 1) < 0.5 * LANES)
        return "so few channels come out that multipliers are idle: compute several heads in one "
               "convolution";
    return "channels in multiples of 32, kernels of 1 or 3";
}

static size_t count_products(const json_t *layers)
{
    size_t n = 0, i;
    json_t *layer;
    json_array_foreach(layers, i, layer) n += number_of(layer, "macs") > 0;
    return n;
}

// Small models are left out: each of their few layers takes a large share, and all of them no time.
static void find_slow(const json_t *model, const json_t *by_name, json_t *list)
{
    const json_t *layers = json_object_get(model, "layer_estimates");
    const struct chip *chip = chip_find_variant(json_get_text(model, "chip"));
    double all = number_of(json_object_get(model, "estimate"), "us");
    size_t i;
    json_t *layer;
    if (all < SLOW_US || count_products(layers) < SLOW_LAYERS)
        return;
    json_array_foreach(layers, i, layer)
    {
        double us = number_of(layer, "us"), usage = number_of(layer, "mac_usage");
        const json_t *node = json_object_get(by_name, json_get_text(layer, "node"));
        if (!node || number_of(layer, "macs") <= 0 || us < SLOW_SHARE * all || usage >= SLOW_USAGE)
            continue;
        bool memory = number_of(layer, "ddr_cycles") >= number_of(layer, "npu_cycles");
        add_finding(list, "slow", node, us, advice_for(node, layer, chip),
                    "takes %.0f %% of the estimated time with %.1f %% of the multipliers at work%s",
                    100 * us / all, usage, memory ? "; it waits for memory" : "");
    }
}

json_t *lint_find(const json_t *model)
{
    json_t *list = json_array(), *by_name = nodes_by_name(model);
    find_defects(model, by_name, list);
    find_cpu(model, list);
    find_slow(model, by_name, list);
    json_decref(by_name);
    return list;
}

// ---- forms -------------------------------------------------------------------------------------

static bool is_cpu(const json_t *finding)
{
    return strcmp(json_get_text(finding, "kind"), "cpu") == 0;
}

// Only layers that the server estimates have one. What a CPU does takes longer than its bytes.
static void print_time(const json_t *finding, FILE *out)
{
    if (json_object_get(finding, "us"))
        fprintf(out, ", %s%.*f us", is_cpu(finding) ? "at least " : "",
                number_of(finding, "us") < 10, number_of(finding, "us"));
}

void lint_print(const json_t *findings, FILE *out)
{
    size_t i;
    json_t *f;
    json_array_foreach(findings, i, f)
    {
        fprintf(out, "%s: %s (%s)", json_get_text(f, "kind"), json_get_text(f, "node"),
                json_get_text(f, "op"));
        print_time(f, out);
        fprintf(out, "\n    %s\n    %s\n", json_get_text(f, "what"), json_get_text(f, "advice"));
    }
    if (json_array_size(findings) == 0)
        fputs("nothing to say\n", out);
}

// Every finding has all columns; a time that is not known is empty.
void lint_csv(const json_t *findings, FILE *out)
{
    static const char *const columns[] = {"kind", "node", "op", "us", "what", "advice"};
    enum { N = sizeof columns / sizeof *columns };
    size_t i;
    json_t *f;
    for (size_t k = 0; k < N; k++)
        csv_cell(out, columns[k], k == 0, k == N - 1);
    json_array_foreach(findings, i, f) for (size_t k = 0; k < N; k++)
    {
        char us[32] = "";
        if (json_is_number(json_object_get(f, columns[k])))
            snprintf(us, sizeof us, "%.1f", number_of(f, columns[k]));
        csv_cell(out, *us ? us : json_get_text(f, columns[k]), k == 0, k == N - 1);
    }
}
