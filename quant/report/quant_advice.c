// Two kinds of rows in one table: layers that stay float already, and those that are rounded, the
// noisiest first.
//
// What stays float and what would be the next to be kept so. The order is that of the noise
// (quant_noise.h); how much there is to gain is only known where it was tried.
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/report/quant_html.h"
#include "quant/report/quant_page.h"

#define MOST  12
#define GOOD  0.999 // of an output's cosine: more is nothing to do about
#define USUAL 20    // a sample list that is shorter says little
#define LOUD  0.01  // noise that is a tenth of what is usual, in its root

// The noisiest first.
static int advice_order(const void *a, const void *b)
{
    const rknnd_quant_node *x = *(const rknnd_quant_node *const *)a;
    const rknnd_quant_node *y = *(const rknnd_quant_node *const *)b;
    return (x->noise < y->noise) - (x->noise > y->noise);
}

// The order matters where parts are equal: what is wrong with weights stays so with all samples.
// The part of the noise that is most of it, in words.
static const char *advice_why(const rknnd_quant_node *n)
{
    if (n->weight_noise >= n->input_noise && n->weight_noise >= n->output_noise)
        return "its weights: a few are far larger than the others of their output, and take the "
               "steps";
    return n->input_noise >= n->output_noise
               ? "its inputs: a few values are far larger than usual, and take the steps"
               : "its output: a few values are far larger than usual, and take the steps";
}

// The tensor that a node stores: behind the activation that is computed with it.
static const char *advice_result(const struct quant_page *p, const rknnd_quant_node *n)
{
    const struct quant_edge *out = quant_index_find(&p->q->index, n->output);
    int32_t reader = out ? quant_index_only_reader(&p->q->index, out) : -1;
    return reader >= 0 && p->q->plan.kinds[reader] == QUANT_NODE_FUSED
               ? quant_output(p->q->model.graph->node[reader], 0)
               : n->output;
}

// The own error of a layer stands beside its noise: the one is measured, the other estimated.
static void advice_row(const struct quant_page *p, const rknnd_quant_node *n)
{
    FILE *out = p->out;
    const rknnd_quant_layer *l = quant_page_layer(p, advice_result(p, n));
    quant_page_row(out, "node", n->output, n->op, (uint32_t)n->type);
    html_number(out, n->noise, "%.3g");
    html_number(out, l && l->n_single ? l->single_sqnr : (double)__builtin_nanf(""), "%.1f dB");
    fputs("<td class=\"why\">", out);
    if (!n->quantized && *n->reason) {
        html_text(out, n->reason);
        fputs(". ", out);
    }
    fprintf(out, "Most of it: %s.</td></tr>\n", advice_why(n));
}

// The least cosine of an output of the model; 2: nothing was compared.
// Outputs are what is used: errors inside that later layers drop do not count here.
static double advice_outputs(const struct quant_page *p)
{
    const Quant__Graph *g = p->q->model.graph;
    double least = 2;
    for (size_t i = 0; i < g->n_output; i++) {
        const rknnd_quant_layer *l = quant_page_layer(p, quant_text(g->output[i]->name));
        least = l && l->cosine < least ? l->cosine : least;
    }
    return least;
}

// What can be said without reading the table; of a proposal its numbers, else what to try.
static void advice_words(const struct quant_page *p, uint32_t loud)
{
    FILE *out = p->out;
    double least = advice_outputs(p);
    fputs("<ul class=\"notices\">", out);
    if (least <= 1)
        fprintf(out,
                "<li>The least cosine of an output to the float model's is <b id=\"outputs\" "
                "data-value=\"%.9g\">%.6f</b>.</li>",
                least, least);
    if (p->q->goal > 0)
        fprintf(out,
                "<li>A goal of %g was asked for: %.6f is reached with %u layers in float, %.6f "
                "without.</li>",
                p->q->goal, p->q->cosine, p->q->n_more, p->q->plain_cosine);
    else if (least >= GOOD && least <= 1)
        fputs("<li>That is near enough to rounding: no layer has to be kept in float.</li>", out);
    else if (loud)
        fputs(
            "<li>The layers below are those to keep in float first. How few reach a goal is found "
            "by trying: "
            "<code>--auto-hybrid --goal cos=0.999</code>, in Python <code>goal=0.999</code>.</li>",
            out);
    if (p->about.n_samples && p->about.n_samples < USUAL)
        fprintf(out, "<li>Few samples (%u): 20 to 200 like those that will come are usual.</li>",
                p->about.n_samples);
    if (p->q->summary.n_constant_inputs)
        fprintf(out,
                "<li>%u inputs were one number in all samples: scales chosen so are of no use for "
                "others.</li>",
                p->q->summary.n_constant_inputs);
    fputs("</ul>\n", out);
}

// What stays float because somebody said so comes first, then the noisiest.
int quant_page_advice(const struct quant_page *p)
{
    const rknnd_list *nodes = p->q->nodes;
    cleanup(free_p) const rknnd_quant_node **order = calloc((size_t)nodes->n + 1, sizeof *order);
    uint32_t n = 0, loud = 0;
    if (!order)
        return error_no_memory(p->e, "the nodes", nodes->n);
    for (uint32_t i = 0; i < nodes->n; i++) {
        const rknnd_quant_node *one = rknnd_quant_node_at(nodes, i);
        if (one->noise > 0)
            order[n++] = one;
        loud += one->noise > LOUD;
    }
    qsort(order, n, sizeof *order, advice_order);
    fputs("<section class=\"view\" id=\"advice\"><h2>Layers to keep in float</h2>\n", p->out);
    advice_words(p, loud);
    fputs("<p class=\"dim\">Noise: mean squares of what rounding does to a layer's inputs, output "
          "and "
          "weights, in units of "
          "what is usual there, squared.</p>"
          "<div class=\"table\"><table><thead><tr><th>Layer (its "
          "output)</th><th>Operator</th><th>Computes in</th>"
          "<th>Noise</th><th>Own SQNR</th><th>Why</th></tr></thead><tbody>\n",
          p->out);
    for (uint32_t i = 0; i < n; i++)
        if (i < MOST || !order[i]->quantized)
            advice_row(p, order[i]);
    fputs("</tbody></table></div></section>\n", p->out);
    return 0;
}
