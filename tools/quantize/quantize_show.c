// What `rknnctl quantize` prints: a line, warnings, and the products that stay float.
#include <stdio.h>
#include <string.h>

#include "tools/quantize/quantize.h"
#include "tools/ui/print.h"

#define USUAL_SAMPLES 20 // the least that the manuals take (RKNN-Toolkit2 guide, accuracy)

static const char *const algorithms[] = {"normal", "kl_divergence", "mmse"};

static const char *quantize_written(const struct quantize_plan *p)
{
    return p->table_out ? p->table_out : p->output;
}

static double quantize_rate(const struct quantize_result *r)
{
    double done = (double)(r->n_samples - r->summary.n_resumed);
    return r->calibrate_ns ? done * 1e9 / (double)r->calibrate_ns : 0;
}

static json_t *quantize_json_nodes(const rknnd_list *nodes)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < nodes->n; i++) {
        const rknnd_quant_node *n = rknnd_quant_node_at(nodes, i);
        if (!n->quantized)
            json_array_append_new(
                list, json_pack("{s:o, s:o, s:o, s:o}", "name", print_json_text(n->name), "op",
                                print_json_text(n->op), "output", print_json_text(n->output),
                                "reason", *n->reason ? print_json_text(n->reason) : json_null()));
    }
    return list;
}

static json_t *quantize_json_tensors(const rknnd_list *tensors)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < tensors->n; i++) {
        const rknnd_quant_tensor *t = rknnd_quant_tensor_at(tensors, i);
        json_t *seen = t->n_bins ? json_pack("[o, o]", print_json_number((double)t->min),
                                             print_json_number((double)t->max))
                                 : json_null();
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:i, s:i, s:o, s:i, s:[o,o], s:o, s:o}", "name",
                            print_json_text(t->name), "node", print_json_text(t->node), "group",
                            (int)t->group, "bits", (int)t->bits, "scale",
                            print_json_number((double)t->scale), "zero_point", t->zp, "range",
                            print_json_number((double)t->low), print_json_number((double)t->high),
                            "seen", seen, "mean_square_error",
                            t->n_bins ? print_json_number(t->error) : json_null()));
    }
    return list;
}

// What was proposed and why: noise of all layers that can be int8, not only of those taken.
static json_t *quantize_json_hybrid(const struct quantize_result *r, const rknnd_list *nodes)
{
    if (!r->proposed)
        return json_null();
    json_t *floats = json_array(), *noise = json_array();
    for (uint32_t i = 0; i < r->proposal.n_floats; i++)
        json_array_append_new(floats, print_json_text(r->proposal.floats[i]));
    for (uint32_t i = 0; i < nodes->n; i++) {
        const rknnd_quant_node *n = rknnd_quant_node_at(nodes, i);
        if (n->noise > 0)
            json_array_append_new(
                noise, json_pack("{s:o, s:o, s:o, s:o}", "name", print_json_text(n->name), "op",
                                 print_json_text(n->op), "output", print_json_text(n->output),
                                 "noise", print_json_number(n->noise)));
    }
    return json_pack("{s:o, s:o, s:o, s:I, s:o, s:o}", "goal", print_json_number(r->goal), "cosine",
                     print_json_number(r->proposal.cosine), "cosine_without",
                     print_json_number(r->proposal.plain_cosine), "tries",
                     (json_int_t)r->proposal.n_tries, "floats", floats, "nodes", noise);
}

static int quantize_show_json(const struct quantize_plan *p, const struct quantize_result *r,
                              const rknnd_list *tensors, const rknnd_list *nodes, struct error *e)
{
    const rknnd_quant_summary *s = &r->summary;
    return print_json(
        json_pack(
            "{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o, "
            "s:o, s:o, s:o}",
            "output", print_json_text(quantize_written(p)), "algorithm",
            algorithms[p->options.algorithm], "method", p->options.per_layer ? "layer" : "channel",
            "samples", (json_int_t)r->n_samples, "resumed", (json_int_t)s->n_resumed, "nodes",
            (json_int_t)s->n_nodes, "quantized", (json_int_t)s->n_quantized, "folded",
            (json_int_t)s->n_folded, "equalized", (json_int_t)s->n_equalized, "compared",
            (json_int_t)s->n_compared, "normal_tensors", (json_int_t)s->n_normal_tensors,
            "normal_weights", (json_int_t)s->n_normal_weights, "seconds",
            print_json_number((double)r->total_ns / 1e9), "samples_per_second",
            print_json_number(quantize_rate(r)), "constant_inputs",
            (json_int_t)s->n_constant_inputs, "float", quantize_json_nodes(nodes), "tensors",
            quantize_json_tensors(tensors), "hybrid", quantize_json_hybrid(r, nodes), "stages",
            stages_json(&r->stages)),
        e);
}

static void quantize_show_line(const char *name, const char *op, const char *reason)
{
    char line[512];
    snprintf(line, sizeof line, "  %s (%s) stays float: %s\n", name, op, reason);
    print_text_shown(stdout, line);
}

// Products that are left out are worth a line each; of the others their number is enough.
static void quantize_show_floats(const rknnd_list *nodes)
{
    static const char *const products[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    uint32_t others = 0;
    for (uint32_t i = 0; i < nodes->n; i++) {
        const rknnd_quant_node *n = rknnd_quant_node_at(nodes, i);
        bool product = false;
        for (size_t k = 0; k < sizeof products / sizeof *products; k++)
            product |= strcmp(n->op, products[k]) == 0;
        if (!n->quantized && product)
            quantize_show_line(n->name, n->op, n->reason);
        others += !n->quantized && !product;
    }
    if (others)
        printf("  %u other nodes compute with real numbers (--json lists them)\n", others);
}

// Layers that NPUs with int16 compute in integers are real numbers everywhere else.
static uint32_t quantize_count_int16(const rknnd_list *nodes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < nodes->n; i++) {
        const rknnd_quant_node *node = rknnd_quant_node_at(nodes, i);
        n += node->quantized && node->type == RKNND_QUANT_INT16;
    }
    return n;
}

// Bounds of few samples are only too narrow; a search also cuts what lies outside of most of them.
static void quantize_warn(const struct quantize_plan *p, const struct quantize_result *r)
{
    const char *algorithm = algorithms[p->options.algorithm];
    if (r->summary.n_constant_inputs)
        fputs("warning: an input was one and the same number in all samples: its range says "
              "nothing about others; give samples like those that will come\n",
              stderr);
    if (p->options.algorithm != RKNND_QUANT_NORMAL && r->n_samples < USUAL_SAMPLES)
        fprintf(stderr,
                "warning: %zu samples are few for %s, which cuts off what is seldom in them: give "
                "at least %d like those that will come\n",
                r->n_samples, algorithm, USUAL_SAMPLES);
}

int quantize_show(const struct quantize_plan *p, const struct quantize_result *r, bool json,
                  struct error *e)
{
    const rknnd_list *tensors = NULL, *nodes = NULL;
    const rknnd_quant_summary *s = &r->summary;
    if (rknnd_quant_get_tensors(r->quant, &tensors) < 0 ||
        rknnd_quant_get_nodes(r->quant, &nodes) < 0)
        return error_set(e, STATUS_FAIL, "%s", rknnd_quant_last_error());
    quantize_warn(p, r);
    if (json)
        return quantize_show_json(p, r, tensors, nodes, e);
    uint32_t n_int16 = quantize_count_int16(nodes);
    printf("%s: %u of %u nodes in 8 bits; %zu samples (%u of them from an earlier call), "
           "%.1f/s\n",
           quantize_written(p), s->n_quantized - n_int16, s->n_nodes, r->n_samples, s->n_resumed,
           quantize_rate(r));
    if (n_int16)
        printf("  %u nodes in 16 bits: integers on NPUs that have int16; rknnd's software NPU and "
               "ONNX Runtime compute them with real numbers, no faster than floats\n",
               n_int16);
    if (s->n_folded || s->n_equalized)
        printf("  %u batch normalizations folded, %u pairs of layers equalized\n", s->n_folded,
               s->n_equalized);
    if (s->n_normal_tensors || s->n_normal_weights)
        printf("  mmse: %u of %u tensors and the weights of %u nodes are as normal has them, with "
               "which the outputs are nearer\n",
               s->n_normal_tensors, s->n_tensors, s->n_normal_weights);
    if (r->proposed)
        printf(
            "  goal %g: reached with %u nodes in floats: the outputs' cosine is %.6f, without them "
            "%.6f (%u tries)\n",
            r->goal, r->proposal.n_floats, r->proposal.cosine, r->proposal.plain_cosine,
            r->proposal.n_tries);
    quantize_show_floats(nodes);
    return 0;
}
