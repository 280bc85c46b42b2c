// Every tensor once: its errors where it was compared, how it is stored where it is quantized.
#include <math.h>
#include <string.h>

#include "quant/report/quant_chart.h"
#include "quant/report/quant_html.h"
#include "quant/report/quant_page.h"

#define FAR 0.99 // a cosine below stands out

// Names are compared one after another: a net has hundreds of tensors, and the page is written
// once.
const rknnd_quant_tensor *quant_page_tensor(const struct quant_page *p, const char *name)
{
    for (uint32_t i = 0; i < p->q->tensors->n; i++) {
        const rknnd_quant_tensor *t = rknnd_quant_tensor_at(p->q->tensors, i);
        if (strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

// NULL also where nothing was compared at all.
const rknnd_quant_layer *quant_page_layer(const struct quant_page *p, const char *name)
{
    for (uint32_t i = 0; p->q->layers && i < p->q->layers->n; i++) {
        const rknnd_quant_layer *l = rknnd_quant_layer_at(p->q->layers, i);
        if (strcmp(l->tensor, name) == 0)
            return l;
    }
    return NULL;
}

// Layers and tensors of both widths are in one model, so each row says its own.
static const char *layers_bits(uint32_t bits)
{
    return bits == 8 ? "8 bits" : bits == 16 ? "16 bits" : "float";
}

void quant_page_row(FILE *out, const char *what, const char *name, const char *op, uint32_t bits)
{
    fprintf(out, "<tr data-%s=\"", what);
    html_text(out, name);
    fputs("\"><td>", out);
    html_text(out, name);
    fputs("</td><td>", out);
    html_text(out, op);
    fprintf(out, "</td><td>%s</td>", layers_bits(bits));
}

// Signal to noise of storing alone, in dB.
static double layers_decibels(const rknnd_quant_tensor *t)
{
    return t->error > 0 ? 10 * log10(t->power / t->error) : INFINITY;
}

// ---- compared ----

// Cosines that are far from 1 are marked.
static void layers_cosine(FILE *out, double cosine)
{
    fprintf(out, "<td class=\"number%s\" data-value=\"%.9g\">%.6f</td>", cosine < FAR ? " low" : "",
            cosine, cosine);
}

// What is not known is a dash, so that columns stay where they are.
static void layers_row(const struct quant_page *p, const rknnd_quant_layer *l)
{
    FILE *out = p->out;
    quant_page_row(out, "tensor", l->tensor, l->op, l->bits);
    layers_cosine(out, l->cosine);
    html_number(out, l->sqnr, "%.1f dB");
    if (l->n_single)
        layers_cosine(out, l->single_cosine);
    else
        html_number(out, INFINITY, "");
    html_number(out, l->n_single ? l->single_sqnr : INFINITY, "%.1f dB");
    fputs("</tr>\n", out);
}

// The table of what was measured. Its least cosines and sums are over the same samples for all
// rows.
static void layers_compared(const struct quant_page *p)
{
    const rknnd_list *layers = p->q->layers;
    fputs("<section class=\"view\" id=\"layers\"><h2>Errors of layers</h2>\n", p->out);
    if (!layers) {
        fputs("<p>The model was not run: nothing was compared.</p></section>\n", p->out);
        return;
    }
    uint32_t n = layers->n ? rknnd_quant_layer_at(layers, 0)->n_samples : 0;
    fprintf(p->out,
            "<p class=\"dim\">Of %u samples: the least cosine to the float model's tensor, and the "
            "ratio of its "
            "squares to the difference's (SQNR); with the errors of all layers before, and of the "
            "layer alone, "
            "computing with the float model's values. –: they are equal, or it is not known.</p>\n",
            n);
    if (*p->q->single_words) {
        fputs("<p>Of layers alone nothing is known: ", p->out);
        html_text(p->out, p->q->single_words);
        fputs("</p>\n", p->out);
    }
    fputs("<div class=\"table\"><table><thead><tr><th>Tensor</th><th>Operator</th><th>Stored "
          "in</th><th>Cosine</th>"
          "<th>SQNR</th><th>Own cosine</th><th>Own SQNR</th></tr></thead><tbody>\n",
          p->out);
    for (uint32_t i = 0; i < layers->n; i++)
        layers_row(p, rknnd_quant_layer_at(layers, i));
    fputs("</tbody></table></div></section>\n", p->out);
}

// ---- stored ----

// What is outside of the range against what is lost by rounding inside.
static void layers_clipping(FILE *out, const rknnd_quant_tensor *t)
{
    if (t->clipped > 0)
        fprintf(out,
                "%.3g %% of the values are clipped, which is %.3g %% of the error; the steps are "
                "%.3g times as fine "
                "as with all values.",
                100 * t->clipped, t->error > 0 ? 100 * fmin(1, t->clip_error / t->error) : 0,
                (fmax((double)t->max, 0) - fmin((double)t->min, 0)) /
                    ((double)t->high - (double)t->low));
    else
        fputs("Nothing is clipped.", out);
}

// Folded, so that the page of a large net can be looked through; all numbers are attributes, too.
static void layers_tensor(const struct quant_page *p, const rknnd_quant_tensor *t)
{
    FILE *out = p->out;
    fputs("<details data-tensor=\"", out);
    html_text(out, t->name);
    fprintf(out,
            "\" data-scale=\"%.9g\" data-zp=\"%d\" data-error=\"%.9g\" data-power=\"%.9g\" "
            "data-clipped=\"%.9g\" "
            "data-clip-error=\"%.9g\"><summary>",
            (double)t->scale, t->zp, t->error, t->power, t->clipped, t->clip_error);
    html_text(out, t->name);
    fprintf(out, " <span class=\"dim\">%.4g to %.4g", (double)t->low, (double)t->high);
    if (t->n_bins && t->error > 0)
        fprintf(out, ", %.1f dB", layers_decibels(t));
    fputs("</span></summary>\n<figure>", out);
    if (t->n_bins)
        quant_chart_histogram(out, t);
    fprintf(out, "<figcaption>Scale %.6g, zero point %d. ", (double)t->scale, t->zp);
    if (!t->n_bins) {
        fputs("Others that have this scale were looked at.", out);
    } else {
        fprintf(out, "Seen: %.6g to %.6g. ", (double)t->min, (double)t->max);
        layers_clipping(out, t);
    }
    fputs("</figcaption></figure></details>\n", out);
}

// Both tables have all tensors; a page of a few hundred kilobytes is what that takes.
int quant_page_layers(const struct quant_page *p)
{
    layers_compared(p);
    fputs("<section class=\"view\" id=\"tensors\"><h2>Ranges of tensors</h2>\n"
          "<p class=\"dim\">How often values were seen (logarithms), and the range that is stored; "
          "red: "
          "what is clipped. SQNR is that of storing the tensor alone.</p>\n",
          p->out);
    for (uint32_t i = 0; i < p->q->tensors->n; i++)
        layers_tensor(p, rknnd_quant_tensor_at(p->q->tensors, i));
    fputs("</section>\n", p->out);
    return 0;
}
