// rknnctl quantize: an int8 model of a float one. quantize_execute() has the samples read, and
// librknndquant does the rest; this file is the command line.
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/quantize.h"
#include "tools/rknnctl.h"

// One of some words, as its place among them.
static int choose_word(const char *const *words, const char *text, const char *expected,
                       uint32_t *ret, struct error *e)
{
    for (uint32_t i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return 0;
        }
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not %s", text, expected);
}

static int set_algorithm(void *target, const char *text, struct error *e)
{
    static const char *const words[] = {"normal", "kl_divergence", "mmse", NULL};
    uint32_t chosen;
    int r = choose_word(words, text, "normal, kl_divergence or mmse", &chosen, e);
    if (r == 0)
        *(rknnd_quant_algorithm *)target = (rknnd_quant_algorithm)chosen;
    return r;
}

static int set_method(void *target, const char *text, struct error *e)
{
    static const char *const words[] = {"channel", "layer", NULL};
    return choose_word(words, text, "channel or layer", target, e);
}

static int set_without(void *target, const char *text, struct error *e)
{
    static const char *const words[] = {"batchnorm",       "activations", "equalization",
                                        "bias-correction", "comparison",  NULL};
    uint32_t chosen, *without = target;
    int r = choose_word(words, text,
                        "batchnorm, activations, equalization, bias-correction or comparison (one "
                        "for each --without)",
                        &chosen, e);
    if (r == 0)
        *without |= 1u << chosen;
    return r;
}

// What a level leaves out is added to what --without does.
static int set_level(void *target, const char *text, struct error *e)
{
    uint32_t left_out, level = text[0] >= '0' && !text[1] ? (uint32_t)(text[0] - '0') : UINT32_MAX;
    if (rknnd_quant_find_level(level, &left_out) < 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not 0, 1, 2 or 3", text);
    *(uint32_t *)target |= left_out;
    return 0;
}

static int set_dtype(void *target, const char *text, struct error *e)
{
    int r = rknnd_quant_find_dtype(text, target);
    return r < 0 ? error_set(e, r, "%s", rknnd_quant_last_error()) : 0;
}

static int set_hybrid_type(void *target, const char *text, struct error *e)
{
    static const char *const words[] = {"float16", "int16", NULL};
    uint32_t chosen;
    int r = choose_word(words, text, "float16 or int16", &chosen, e);
    if (r == 0)
        *(rknnd_quant_type *)target = chosen ? RKNND_QUANT_INT16 : RKNND_QUANT_FLOAT16;
    return r;
}

// The measure is named, so that others can be added without another option.
static int set_goal(void *target, const char *text, struct error *e)
{
    char *end;
    double value = strncmp(text, "cos=", 4) == 0 && text[4] ? strtod(text + 4, &end) : 0;
    if (!(value > 0 && value <= 1) || *end)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is not cos= and a number above 0 and up to 1, as cos=0.999", text);
    *(double *)target = value;
    return 0;
}

// What would be ignored is refused.
static int quantize_check_hybrid(const struct quantize_plan *p, struct error *e)
{
    if (p->proposes + (p->table_out != NULL) + (p->table_in != NULL) > 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--auto-hybrid, --hybrid-step1 and --hybrid-step2 exclude each other");
    if (p->goal > 0 && !p->proposes && !p->table_out)
        return error_set(e, STATUS_PARAM_INVALID, "--goal is for --auto-hybrid or --hybrid-step1");
    if (p->hybrid_type != RKNND_QUANT_FLOAT16 && !p->proposes && !p->table_out)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--hybrid-type is for --auto-hybrid or --hybrid-step1");
    if (p->table_out && p->output)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--hybrid-step1 writes no model: give -o with --hybrid-step2");
    return 0;
}

static int quantize_check(const struct quantize_plan *p, struct error *e)
{
    int r = quantize_check_hybrid(p, e);
    if (r < 0)
        return r;
    if (!p->dataset)
        return error_set(e, STATUS_PARAM_INVALID,
                         "no samples: give a list of inputs with --dataset FILE");
    if (p->batch > 1 && (p->table_out || p->task.shapes.n))
        return error_set(e, STATUS_PARAM_INVALID,
                         "--batch-size is for a model that is written, whose shapes the file says "
                         "(not with --hybrid-step1, nor with --shape)");
    return p->output || p->table_out
               ? 0
               : error_set(e, STATUS_PARAM_INVALID, "no output: give a file with -o FILE");
}

static int quantize_parse(int argc, char **argv, struct quantize_plan *p, bool *json,
                          struct error *e)
{
    const struct option_row rows[] = {
        {0, "dataset", OPTION_TEXT, &p->dataset, "FILE", "samples: a line of files for each", 0, 0,
         NULL},
        OPTIONS_OUTPUT(&p->output, "FILE", "write the int8 model there"),
        {0, "algorithm", OPTION_CALL, &p->options.algorithm, "NAME",
         "normal (default), kl_divergence or mmse", 0, 0, set_algorithm},
        {0, "method", OPTION_CALL, &p->options.per_layer, "NAME",
         "channel (default) or layer: scales of weights", 0, 0, set_method},
        {0, "dtype", OPTION_CALL, &p->options.dtype, "NAME",
         "w8a8 (default), w16a16i or w16a16i_dfp", 0, 0, set_dtype},
        {0, "target", OPTION_TEXT, &p->options.target, "CHIP",
         "refuse what this chip cannot compute", 0, 0, NULL},
        {0, "batch-size", OPTION_NUMBER, &p->batch, "N", "samples that the model takes at once", 1,
         4096, NULL},
        {0, "symmetric", OPTION_FLAG, &p->symmetric, NULL, "zero points of tensors are 0", 0, 0,
         NULL},
        {0, "mean", OPTION_CALL, &p->means, "NUMBERS", "[INPUT=]R,G,B that the model subtracts", 0,
         0, text_list_option},
        {0, "std", OPTION_CALL, &p->deviations, "NUMBERS", "[INPUT=]R,G,B that it then divides by",
         0, 0, text_list_option},
        {0, "rgb2bgr", OPTION_FLAG, &p->swaps_red_blue, NULL, "pictures go in as BGR", 0, 0, NULL},
        {0, "keep-float", OPTION_CALL, &p->floats, "NODE", "a node or output that stays float", 0,
         0, text_list_option},
        {0, "int16", OPTION_CALL, &p->int16s, "NODE", "a node or output that is int16", 0, 0,
         text_list_option},
        {0, "optimization-level", OPTION_CALL, &p->options.without, "N",
         "0 to 3 (default), as in the manuals", 0, 0, set_level},
        {0, "without", OPTION_CALL, &p->options.without, "PASS",
         "leave out: batchnorm, equalization, comparison, …", 0, 0, set_without},
        {0, "auto-hybrid", OPTION_FLAG, &p->proposes, NULL,
         "keep the fewest layers in float that reach the goal", 0, 0, NULL},
        {0, "goal", OPTION_CALL, &p->goal, "GOAL", "cosine of the outputs to reach (cos=0.999)", 0,
         0, set_goal},
        {0, "hybrid-type", OPTION_CALL, &p->hybrid_type, "NAME",
         "what these layers become: float16 (default) or int16", 0, 0, set_hybrid_type},
        {0, "hybrid-step1", OPTION_TEXT, &p->table_out, "FILE",
         "write what would stay float, to be edited", 0, 0, NULL},
        {0, "hybrid-step2", OPTION_TEXT, &p->table_in, "FILE",
         "make the model by an edited file of step 1", 0, 0, NULL},
        {0, "report", OPTION_TEXT, &p->page, "FILE", "write a page for a browser", 0, 0, NULL},
        {0, "write-float", OPTION_TEXT, &p->float_out, "FILE",
         "write the float model that layers can be compared with", 0, 0, NULL},
        {0, "external-data", OPTION_FLAG, &p->parts, NULL,
         "weights go to OUTPUT.data, as they do above 2 GB", 0, 0, NULL},
        {0, "dumps", OPTION_FLAG, &p->by_dumps, NULL, "look at tensors here, not on the server", 0,
         0, NULL},
        {0, "all-values", OPTION_FLAG, &p->all_values, NULL,
         "histograms have all values of large tensors, too", 0, 0, NULL},
        OPTIONS_CLIENTS(&p->clients, QUANTIZE_CLIENTS),
        {0, "state", OPTION_TEXT, &p->state, "FILE", "kept while unfinished (OUTPUT.calibration)",
         0, 0, NULL},
        TASK_FORMS(&p->task),
        TASK_SHAPE(&p->task),
        OPTIONS_JSON(json),
    };
    const struct cmd_options options = {
        .usage = "quantize MODEL.onnx --dataset FILE -o FILE",
        .summary =
            "Makes an int8 model of a float one: ONNX with QuantizeLinear/DequantizeLinear.\n"
            "Runs the float model on samples and chooses scales by what its tensors hold.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&p->task, &options, argc, argv, e);
    p->options.symmetric = p->symmetric;
    p->options.external_data = p->parts;
    return r ? r : quantize_check(p, e);
}

int cmd_quantize(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct quantize_plan plan = {.task = TASK_INIT};
    struct quantize_result result = {0};
    bool json = false;
    int r = quantize_parse(argc, argv, &plan, &json, e);
    if (r == 0)
        r = quantize_execute(&plan, &result, e);
    if (r == 0)
        r = quantize_show(&plan, &result, json, e);
    quantize_done(&result);
    text_list_done(&plan.means);
    text_list_done(&plan.deviations);
    text_list_done(&plan.floats);
    text_list_done(&plan.int16s);
    task_done(&plan.task);
    return r;
}
