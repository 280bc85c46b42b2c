// One HTML file without scripts and without anything from elsewhere; its policy forbids both, so a
// name that got out of its place could do nothing. Names are of model files and are not trusted.
#include "quant/report/quant_page.h"

#include <math.h>
#include <string.h>

#include "quant/hybrid/quant_noise.h"
#include "quant/model/quant_save.h"
#include "quant/report/quant_chart.h"
#include "quant/report/quant_html.h"

__asm__(".pushsection .rodata\n"
        "quant_style:\n"
        ".incbin \"" QUANT_STYLE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char quant_style[] __attribute__((visibility("hidden")));

static const char *const algorithms[] = {"normal", "kl_divergence", "mmse"};

// The style is the other pages', so the policy has to allow styles in the page.
static void page_head(const struct quant_page *p)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'\">\n"
          "<title>",
          p->out);
    html_text(p->out, p->about.model);
    fputs(": quantization</title>\n<style>\n", p->out);
    fputs(quant_style, p->out);
    fputs("</style>\n</head>\n<body>\n<header id=\"top\"><h1>", p->out);
    html_text(p->out, p->about.model);
    fputs(", quantized</h1><span class=\"dim\">", p->out);
    html_text(p->out, p->about.maker);
    fputs(" ", p->out);
    html_text(p->out, p->about.date);
    fputs("</span></header>\n<div id=\"body\"><main id=\"views\">\n", p->out);
}

// Numbers are attributes as well, for programs that read the page.
static void page_card(const struct quant_page *p, const char *title, const char *id, double value,
                      const char *words)
{
    fprintf(p->out,
            "<div class=\"card\"><dt>%s</dt><dd><b id=\"%s\" data-value=\"%.9g\">%.6g</b> "
            "%s</dd></div>\n",
            title, id, value, value, words);
}

// The numbers of rknnd_quant_summary, and how ranges and scales were chosen.
static void page_summary(const struct quant_page *p)
{
    const rknnd_quant_summary *s = &p->q->summary;
    fputs("<section class=\"view\" id=\"summary\"><h2>Summary</h2>\n<dl class=\"cards\">\n",
          p->out);
    page_card(p, "Quantized nodes", "n-quantized", s->n_quantized, "");
    page_card(p, "of all nodes", "n-nodes", s->n_nodes, "");
    page_card(p, "Quantized tensors", "n-tensors", s->n_tensors, "");
    page_card(p, "Batch normalizations", "n-folded", s->n_folded, "went into weights");
    page_card(p, "Products", "n-equalized", s->n_equalized, "were equalized, in pairs");
    page_card(p, "Samples", "n-samples", p->about.n_samples, "");
    fprintf(p->out,
            "<div class=\"card\"><dt>Ranges</dt><dd><b>%s</b> %s zero points, a scale for each "
            "%s</dd></div>\n",
            algorithms[p->q->algorithm], p->q->store.symmetric ? "no" : "with",
            p->q->per_layer ? "weight" : "output of a weight");
    fputs("</dl></section>\n", p->out);
}

// ---- what the samples were like ----

// Mean and deviation come from the histogram: the values themselves are gone.
static void page_input(const struct quant_page *p, const char *name, const rknnd_quant_tensor *t)
{
    FILE *out = p->out;
    double sum = 0, n = 0;
    for (uint32_t i = 0; i < t->n_bins; i++) {
        sum += (double)t->bins[i] * ((double)i - t->n_bins / 2.0 + 0.5) * (double)t->bin_width;
        n += (double)t->bins[i];
    }
    double mean = n > 0 ? sum / n : 0;
    fputs("<h3>", out);
    html_text(out, name);
    fprintf(out, "</h3><figure>");
    quant_chart_histogram(out, t);
    fprintf(out,
            "<figcaption>%.6g values from %.6g to %.6g, mean %.4g, standard deviation "
            "%.4g.%s</figcaption></figure>\n",
            n, (double)t->min, (double)t->max, mean, sqrt(fmax(0, t->power - mean * mean)),
            t->min == t->max ? " They are all the same number." : "");
}

// Of several inputs each is shown; moves and normalizations before the first layer are looked
// through.
static void page_samples(const struct quant_page *p)
{
    const struct quant_index *x = &p->q->index;
    fputs("<section class=\"view\" id=\"samples\"><h2>Samples</h2>\n<p>", p->out);
    if (*p->about.dataset) {
        fputs("List: <code>", p->out);
        html_text(p->out, p->about.dataset);
        fputs("</code>. ", p->out);
    }
    fputs("What goes into the first layers:</p>\n", p->out);
    for (uint32_t i = 0; i < x->n; i++) {
        const rknnd_quant_tensor *t =
            quant_is_first(p->q, &x->edges[i]) ? quant_page_tensor(p, x->edges[i].name) : NULL;
        if (t && t->n_bins)
            page_input(p, t->name, t);
    }
    fputs("</section>\n", p->out);
}

// ---- the whole ----

// In the order in which people ask: what was done, what to do, why.
static int page_stream(const void *user, FILE *file, struct error *e)
{
    struct quant_page p = *(const struct quant_page *)user;
    p.out = file;
    p.e = e;
    page_head(&p);
    page_summary(&p);
    int r = quant_page_advice(&p);
    page_samples(&p);
    if (r == 0)
        r = quant_page_layers(&p);
    fputs("</main></div>\n</body>\n</html>\n", file);
    return r;
}

// The noise costs no run, so it is measured for the page even where nothing was proposed.
static int page_write(struct rknnd_quant *q, const rknnd_quant_about *given, const char *path,
                      struct error *e)
{
    struct quant_page p = {.q = q};
    int r = quant_take(&p.about, sizeof p.about, given, "rknnd_quant_about", e);
    const char **texts[] = {&p.about.model, &p.about.dataset, &p.about.maker, &p.about.date};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = *texts[i] ? *texts[i] : "";
    if (r == 0 && !q->noise && (r = quant_noise_measure(q, e)) == 0)
        r = quant_lists_make(q, e);
    return r < 0 ? error_prefix(e, "%s", path) : quant_save_file(path, page_stream, &p, e);
}

QUANT_EXPORT int rknnd_quant_write_page(rknnd_quant *quant, const rknnd_quant_about *about,
                                        const char *path)
{
    struct error e = {0};
    int r = quant_check_calibrated(quant, &e);
    if (r == 0)
        r = path ? quant_check_output(quant, path, &e)
                 : error_set(&e, STATUS_PARAM_INVALID, "no path");
    if (r == 0)
        r = page_write(quant, about, path, &e);
    return quant_keep(r, &e);
}
