// The samples of a data set for the quantizing library, which runs them and does the rest.
#include "tools/quantize/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file/output_file.h"
#include "tools/input/input_list.h"
#include "tools/run/load_option_args.h"
#include "tools/ui/interrupt.h"

#define MOST_VALUES 4096 // of one --mean
#define USUAL_GOAL  0.999
#define COMPARED    8 // samples that the page's errors are of

struct samples {
    const struct quantize_plan *plan;
    struct stages *stages;
    struct input_list list;
    char *key; // the list's text
    struct model model;
    struct progress progress;
    size_t n_counted; // samples that the present step runs
    uint32_t tries;
    atomic_flag failed;
    struct error error; // the first one
};

// ---- what the library asks for ----

static int quantize_begin(void *user, rknn_context context)
{
    struct samples *s = user;
    model_forget(&s->model);
    return model_borrow(&s->model, s->plan->task.model, context, &s->error);
}

static void quantize_swap(const rknn_input *in)
{
    uint8_t *pixels = in->buf;
    for (uint32_t i = 0; i + 2 < in->size; i += 3) {
        uint8_t red = pixels[i];
        pixels[i] = pixels[i + 2];
        pixels[i + 2] = red;
    }
}

// The library counts samples from 0, and does not know where they come from.
static void quantize_describe(void *user, uint32_t sample, char *text, uint32_t size)
{
    const struct samples *s = user;
    snprintf(text, size, "sample %u (line %u)", sample + 1, s->list.lines[sample]);
}

// The sample's files, whose buffers become the library's until quantize_release().
static int quantize_read(void *user, uint32_t sample, uint32_t n, rknn_input *inputs)
{
    struct samples *s = user;
    struct input_set set = {0};
    struct error e = {0};
    int r = input_set_load(&set, &s->model, &s->list.sets[sample], &s->plan->task.forms, &e);
    for (uint32_t i = 0; i < n && i < set.n && r == 0; i++) {
        inputs[i] = set.inputs[i];
        set.inputs[i].buf = NULL;
        bool colours = set.files[i].is_picture && inputs[i].fmt == RKNN_TENSOR_NHWC &&
                       inputs[i].type == RKNN_TENSOR_UINT8 && inputs[i].size % 3 == 0 &&
                       s->model.inputs[i].n_dims == 4 && s->model.inputs[i].dims[3] == 3;
        if (colours && s->plan->swaps_red_blue)
            quantize_swap(&inputs[i]);
    }
    input_set_done(&set);
    if (r && !atomic_flag_test_and_set(&s->failed)) {
        char name[64];
        s->error = e;
        quantize_describe(s, sample, name, sizeof name);
        error_prefix(&s->error, "%s", name);
    }
    return r;
}

static void quantize_release(void *user, uint32_t n, rknn_input *inputs)
{
    (void)user;
    for (uint32_t i = 0; i < n; i++)
        free(inputs[i].buf);
}

static int quantize_progress(void *user, uint32_t done)
{
    struct samples *s = user;
    progress_count(&s->progress, done, s->n_counted);
    return interrupt_seen();
}

static void quantize_stage(void *user, const char *words)
{
    const struct samples *s = user;
    stages_begin(s->stages, words);
}

// How many tries it will take is not known before, so only their number is shown.
static int quantize_tried(void *user, uint32_t n_floats, double cosine)
{
    struct samples *s = user;
    (void)n_floats;
    (void)cosine;
    progress_count(&s->progress, ++s->tries, 0);
    return interrupt_seen();
}

// ---- mean and deviation ----

// [INPUT=]NUMBER,…: the input (NULL: not named) and the numbers.
struct channel_values {
    char *input;
    float values[MOST_VALUES];
    uint32_t n;
};

static int quantize_parse_values(const char *option, const char *text, struct channel_values *v,
                                 struct error *e)
{
    const char *equals = strrchr(text, '='), *at = equals ? equals + 1 : text;
    v->n = 0;
    v->input = equals ? strndup(text, (size_t)(equals - text)) : NULL;
    if (equals && !v->input)
        return error_no_memory(e, "an option", 0);
    for (char *end; v->n < MOST_VALUES; at = end + 1) {
        v->values[v->n] = strtof(at, &end);
        if (end == at || !isfinite(v->values[v->n]) || (*end && *end != ','))
            break;
        v->n++;
        if (!*end)
            return 0;
    }
    return error_set(e, STATUS_PARAM_INVALID, "%s %s: give numbers like 123.7,116.3,103.5", option,
                     text);
}

struct normalizations {
    rknnd_quant_normalization *items;
    struct channel_values *means, *deviations;
    rknnd_list list;
};

static bool quantize_same_input(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

// The --std that belongs to a --mean; NULL: none.
static struct channel_values *quantize_deviation(const struct normalizations *n,
                                                 size_t n_deviations, const char *input)
{
    for (size_t i = 0; i < n_deviations; i++)
        if (quantize_same_input(n->deviations[i].input, input))
            return &n->deviations[i];
    return NULL;
}

static int quantize_join(struct normalizations *n, const struct quantize_plan *p, struct error *e)
{
    for (size_t i = 0; i < p->means.n; i++) {
        struct channel_values *mean = &n->means[i];
        struct channel_values *width = quantize_deviation(n, p->deviations.n, mean->input);
        if (width && width->n != mean->n)
            return error_set(e, STATUS_PARAM_INVALID, "--mean has %u numbers, --std %u", mean->n,
                             width->n);
        n->items[n->list.n++] =
            (rknnd_quant_normalization){.struct_size = sizeof *n->items,
                                        .n_values = mean->n,
                                        .input = mean->input,
                                        .mean = mean->values,
                                        .deviation = width ? width->values : NULL};
    }
    for (size_t i = 0; i < p->deviations.n; i++) {
        struct channel_values *width = &n->deviations[i];
        bool used = false;
        for (size_t k = 0; k < p->means.n; k++)
            used |= quantize_same_input(n->means[k].input, width->input);
        if (!used)
            n->items[n->list.n++] = (rknnd_quant_normalization){.struct_size = sizeof *n->items,
                                                                .n_values = width->n,
                                                                .input = width->input,
                                                                .deviation = width->values};
    }
    return 0;
}

static int quantize_normalizations(struct normalizations *n, const struct quantize_plan *p,
                                   struct error *e)
{
    n->items = calloc(p->means.n + p->deviations.n + 1, sizeof *n->items);
    n->means = calloc(p->means.n + 1, sizeof *n->means);
    n->deviations = calloc(p->deviations.n + 1, sizeof *n->deviations);
    if (!n->items || !n->means || !n->deviations)
        return error_no_memory(e, "options", 0);
    n->list =
        (rknnd_list){.struct_size = sizeof n->list, .stride = sizeof *n->items, .items = n->items};
    int r = 0;
    for (size_t i = 0; i < p->means.n && r == 0; i++)
        r = quantize_parse_values("--mean", p->means.items[i], &n->means[i], e);
    for (size_t i = 0; i < p->deviations.n && r == 0; i++)
        r = quantize_parse_values("--std", p->deviations.items[i], &n->deviations[i], e);
    return r ? r : quantize_join(n, p, e);
}

static void quantize_normalizations_done(struct normalizations *n, const struct quantize_plan *p)
{
    for (size_t i = 0; n->means && i < p->means.n; i++)
        free(n->means[i].input);
    for (size_t i = 0; n->deviations && i < p->deviations.n; i++)
        free(n->deviations[i].input);
    free(n->items);
    free(n->means);
    free(n->deviations);
}

// ---- the whole ----

// The library keeps its last words for each thread; they become ours.
static int quantize_words(int r, struct error *e)
{
    return error_set(e, r, "%s", rknnd_quant_last_error());
}

static int quantize_open(const struct quantize_plan *p, rknnd_quant **ret, struct error *e)
{
    struct normalizations n = {0};
    rknnd_quant_options options = p->options;
    int r = quantize_normalizations(&n, p, e);
    options.struct_size = sizeof options;
    options.normalizations = &n.list;
    options.floats = p->floats.items;
    options.n_floats = (uint32_t)p->floats.n;
    options.int16s = p->int16s.items;
    options.n_int16s = (uint32_t)p->int16s.n;
    if (r == 0 && (r = rknnd_quant_open(p->task.model, &options, ret)) < 0)
        quantize_words(r, e);
    quantize_normalizations_done(&n, p);
    return r;
}

// All of the list's files and how they are read, as one text: a calibration is gone on with only
// for the same.
static int quantize_key(struct samples *s, struct error *e)
{
    const struct task *t = &s->plan->task;
    const struct text_list *const forms[] = {&t->forms.layouts, &t->forms.types, &t->forms.fits,
                                             &t->forms.pads, &t->shapes};
    size_t size;
    FILE *text = open_memstream(&s->key, &size);
    if (!text)
        return error_no_memory(e, "a list of inputs", 0);
    fprintf(text, "%d %d\n", s->plan->swaps_red_blue, t->forms.pass_through);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++, fputc('\n', text))
        for (size_t k = 0; k < forms[i]->n; k++)
            fprintf(text, "%s ", forms[i]->items[k]);
    for (size_t i = 0; i < s->list.n_paths; i++)
        fprintf(text, "%s\n", s->list.paths[i]);
    return fclose(text) == 0 && s->key ? 0 : error_no_memory(e, "a list of inputs", size);
}

// A failure of the library, or what the samples' files or Ctrl-C were the reason of.
// Files come first: the library only knows that a sample could not be read. `state`: what the same
// command would go on from; before the first samples are added up there is none.
static int quantize_reason(const struct samples *s, int r, const char *state, struct error *e)
{
    if (r < 0 && s->error.code)
        return error_set(e, s->error.code, "%s", s->error.text);
    if (r < 0 && interrupt_seen()) {
        bool kept = access(state, F_OK) == 0;
        return error_set(e, r, "interrupted%s%s", kept ? "; the same command goes on from " : "",
                         kept ? state : "");
    }
    return r < 0 ? quantize_words(r, e) : 0;
}

static int quantize_calibrate(const struct quantize_plan *p, struct samples *s,
                              const rknnd_quant_samples *samples, rknnd_quant *quant,
                              struct error *e)
{
    int r = load_options_set(&p->task.shapes, e);
    if (r < 0)
        return r;
    s->n_counted = s->list.n;
    progress_start_counting(&s->progress, "samples", s->n_counted);
    interrupt_defer();
    r = rknnd_quant_calibrate(quant, samples);
    progress_end(&s->progress);
    return quantize_reason(s, r, samples->state, e);
}

// The samples are the calibration's; the library takes some of them.
static int quantize_propose(const struct quantize_plan *p, struct samples *s,
                            const rknnd_quant_samples *samples, struct quantize_result *result,
                            struct error *e)
{
    result->goal = p->goal > 0 ? p->goal : USUAL_GOAL;
    const rknnd_quant_goal goal = {.struct_size = sizeof goal,
                                   .cosine = result->goal,
                                   .tried = quantize_tried,
                                   .type = p->hybrid_type};
    result->proposal.struct_size = sizeof result->proposal;
    progress_start_counting(&s->progress, "tries", 0);
    int r = rknnd_quant_propose(result->quant, samples, &goal, &result->proposal);
    progress_end(&s->progress);
    result->proposed = r == 0;
    return quantize_reason(s, r, samples->state, e);
}

// Runs both models on some of the samples, since errors of layers are what the page is about.
// The library draws it; here is what only the program knows: names, and when it was.
static int quantize_page(const struct quantize_plan *p, struct samples *s,
                         const rknnd_quant_samples *samples, struct quantize_result *result,
                         struct error *e)
{
    cleanup(free_p) char *maker = NULL;
    const rknnd_list *layers;
    char date[64];
    time_t now = time(NULL);
    struct tm parts;
    if (asprintf(&maker, "rknnctl %s", rknnd_version()) < 0) {
        maker = NULL;
        return error_no_memory(e, "the page", 0);
    }
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime_r(&now, &parts));
    const rknnd_quant_about about = {.struct_size = sizeof about,
                                     .n_samples = (uint32_t)s->list.n,
                                     .model = p->task.model,
                                     .dataset = p->dataset,
                                     .maker = maker,
                                     .date = date};
    s->n_counted = s->list.n < COMPARED ? s->list.n : COMPARED;
    progress_start_counting(&s->progress, "compared", s->n_counted);
    int r = rknnd_quant_compare(result->quant, samples, COMPARED, &layers);
    progress_end(&s->progress);
    stages_begin(s->stages, "page");
    if (r == 0)
        r = rknnd_quant_write_page(result->quant, &about, p->page);
    return quantize_reason(s, r, "", e);
}

// What is only said about the model comes behind it, so that a page that cannot be written costs no
// calibration. Its failure is told beside what there is by then.
static int quantize_say(const struct quantize_plan *p, struct samples *s,
                        const rknnd_quant_samples *samples, struct quantize_result *result,
                        struct error *e)
{
    int r = 0;
    stages_begin(s->stages, "");
    if (p->float_out && (r = rknnd_quant_write_float(result->quant, p->float_out)) < 0)
        quantize_words(r, e);
    if (r == 0 && p->page)
        r = quantize_page(p, s, samples, result, e);
    return r < 0 ? error_prefix(e, "%s is written, but not all that was asked for beside it",
                                p->table_out ? p->table_out : p->output)
                 : 0;
}

// What stays float, and what is written.
static int quantize_finish(const struct quantize_plan *p, struct samples *s,
                           const rknnd_quant_samples *samples, struct quantize_result *result,
                           struct error *e)
{
    int r = p->proposes || p->table_out ? quantize_propose(p, s, samples, result, e) : 0;
    if (r == 0 && p->table_in && (r = rknnd_quant_read_table(result->quant, p->table_in)) < 0)
        quantize_words(r, e);
    if (r == 0 && (r = rknnd_quant_get_summary(result->quant, &result->summary)) < 0)
        quantize_words(r, e);
    if (r < 0)
        return r;
    stages_begin(s->stages, "writing");
    r = p->table_out ? rknnd_quant_write_table(result->quant, p->table_out)
                     : rknnd_quant_write_batch(result->quant, p->output, p->batch);
    return r < 0 ? quantize_words(r, e) : quantize_say(p, s, samples, result, e);
}

// Calibrates and goes on. What is kept in between lies beside the table or the model.
static int quantize_run(const struct quantize_plan *p, struct samples *s,
                        struct quantize_result *result, struct error *e)
{
    cleanup(free_p) char *state = NULL;
    const char *table = p->table_out ? p->table_out : p->table_in;
    if (asprintf(&state, "%s.calibration", table ? table : p->output) < 0) {
        state = NULL;
        return error_no_memory(e, "a path", 0);
    }
    const rknnd_quant_samples samples = {.struct_size = sizeof samples,
                                         .n = (uint32_t)s->list.n,
                                         .n_clients = p->clients,
                                         .keeps_state = table || p->proposes,
                                         .begin = quantize_begin,
                                         .read = quantize_read,
                                         .release = quantize_release,
                                         .progress = quantize_progress,
                                         .user = s,
                                         .describe = quantize_describe,
                                         .stage = quantize_stage,
                                         .state = p->state ? p->state : state,
                                         .key = s->key,
                                         .by_dumps = p->by_dumps,
                                         .all_values = p->all_values};
    uint64_t begun = clock_ns();
    int r = quantize_calibrate(p, s, &samples, result->quant, e);
    result->calibrate_ns = clock_ns() - begun;
    if (r)
        return r;
    r = quantize_finish(p, s, &samples, result, e);
    // Tries take long, and may be interrupted, too.
    if (p->proposes && !(r < 0 && interrupt_seen()))
        unlink(samples.state);
    return r;
}

// What is written must not take the place of what it is made of.
static int quantize_check_output(const struct quantize_plan *p, const char *path, struct error *e)
{
    int r = rknnd_quant_check_output(p->task.model, path);
    return r < 0 ? quantize_words(r, e) : output_file_check(path, e);
}

int quantize_execute(const struct quantize_plan *p, struct quantize_result *result, struct error *e)
{
    struct samples s = {.plan = p, .stages = &result->stages, .failed = ATOMIC_FLAG_INIT};
    uint64_t start = clock_ns();
    *result = (struct quantize_result){.summary = {.struct_size = sizeof result->summary}};
    const char *outputs[] = {p->table_out ? p->table_out : p->output, p->page, p->float_out};
    int r = 0;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && r == 0; i++)
        r = outputs[i] ? quantize_check_output(p, outputs[i], e) : 0;
    stages_begin(&result->stages, "list");
    if (r == 0)
        r = input_list_load(&s.list, p->dataset, NULL, e);
    if (r == 0)
        r = quantize_key(&s, e);
    stages_begin(&result->stages, "opening");
    if (r == 0)
        r = quantize_open(p, &result->quant, e);
    stages_begin(&result->stages, "");
    result->n_samples = s.list.n;
    if (r == 0)
        r = quantize_run(p, &s, result, e);
    result->total_ns = clock_ns() - start;
    stages_begin(&result->stages, "");
    model_forget(&s.model);
    input_list_done(&s.list);
    free(s.key);
    return r;
}

void quantize_done(struct quantize_result *result)
{
    rknnd_quant_free(result->quant);
    stages_done(&result->stages);
    *result = (struct quantize_result){0};
}
