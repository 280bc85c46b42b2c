// A hash table of names, and for each tensor the list of its readers.
#include "quant/model/quant_index.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define MOST_EDGES ((size_t)1 << 26)

void quant_index_done(struct quant_index *x)
{
    free(x->edges);
    free(x->slots);
    free(x->uses);
    *x = (struct quant_index){0};
}

// Where a name is, or would be put: the next free slot behind its own. Slots are a power of two,
// and never all taken.
static size_t quant_index_slot(const struct quant_index *x, const char *name)
{
    size_t at = quant_name_hash(name) & (x->n_slots - 1);
    while (x->slots[at] && strcmp(x->edges[x->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (x->n_slots - 1);
    return at;
}

struct quant_edge *quant_index_find(const struct quant_index *x, const char *name)
{
    size_t at = quant_index_slot(x, name);
    return *name && x->slots[at] ? &x->edges[x->slots[at] - 1] : NULL;
}

bool quant_index_is_named(const char *own, const char *name)
{
    size_t n = strlen(name);
    return strncmp(own, name, n) == 0 && (!own[n] || strcmp(own + n, QUANT_EQUALIZED) == 0);
}

struct quant_edge *quant_index_find_named(const struct quant_index *x, const char *name)
{
    struct quant_edge *exact = quant_index_find(x, name);
    cleanup(free_p) char *equalized = NULL;
    if (exact || !*name || asprintf(&equalized, "%s" QUANT_EQUALIZED, name) < 0) {
        equalized = NULL;
        return exact;
    }
    return quant_index_find(x, equalized);
}

// Seldom asked for: names are printable nearly always, and then found as they are.
struct quant_edge *quant_index_find_shown(const struct quant_index *x, const char *shown,
                                          size_t most)
{
    struct quant_edge *exact = quant_index_find(x, shown), *found = NULL;
    for (uint32_t i = 0; i < x->n && !exact; i++) {
        cleanup(free_p) char *printable = strdup(x->edges[i].name);
        if (!printable)
            return NULL;
        text_make_printable(printable);
        if (strncmp(printable, shown, most) != 0)
            continue;
        if (found)
            return NULL;
        found = &x->edges[i];
    }
    return exact ? exact : found;
}

char *quant_index_fresh(const struct quant_index *x, struct quant_pool *p, const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    int n = vasprintf(&text, format, list);
    va_end(list);
    char *made = n < 0 ? NULL : quant_pool_text(p, "%s", text);
    free(n < 0 ? NULL : text);
    while (made && (quant_index_find(x, made) || quant_taken_has(x->taken, made)))
        made = quant_pool_text(p, "%s_", made);
    return made;
}

// The tensor of a name, made if it is not there. The arrays have room for all names.
static struct quant_edge *quant_index_add(struct quant_index *x, const char *name)
{
    size_t at = quant_index_slot(x, name);
    if (!x->slots[at]) {
        x->edges[x->n] = (struct quant_edge){.name = name, .producer = -1};
        x->slots[at] = ++x->n;
    }
    return &x->edges[x->slots[at] - 1];
}

static int quant_index_room(struct quant_index *x, const Quant__Graph *g, struct error *e)
{
    size_t names = g->n_input + g->n_output + g->n_initializer, uses = 0;
    for (size_t i = 0; i < g->n_node; i++) {
        names += g->node[i]->n_input + g->node[i]->n_output;
        uses += g->node[i]->n_input;
    }
    if (names > MOST_EDGES)
        return error_set(e, STATUS_MODEL_INVALID, "the graph has more than %zu tensors",
                         MOST_EDGES);
    for (x->n_slots = 64; x->n_slots < names * 2; x->n_slots *= 2)
        ;
    x->edges = calloc(names + 1, sizeof *x->edges);
    x->slots = calloc(x->n_slots, sizeof *x->slots);
    x->uses = calloc(uses + 1, sizeof *x->uses);
    return x->edges && x->slots && x->uses ? 0 : error_no_memory(e, "the graph", names);
}

static int32_t quant_index_value_type(const Quant__ValueInfo *v)
{
    return v->type && v->type->tensor_type ? v->type->tensor_type->elem_type : 0;
}

static void quant_index_ends(struct quant_index *x, const Quant__Graph *g)
{
    for (size_t i = 0; i < g->n_input; i++) {
        struct quant_edge *edge = quant_index_add(x, quant_text(g->input[i]->name));
        edge->is_input = true;
        edge->type = quant_index_value_type(g->input[i]);
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        struct quant_edge *edge = quant_index_add(x, quant_text(g->initializer[i]->name));
        edge->is_input = false; // with a value of its own it is a constant
        edge->constant = g->initializer[i];
        edge->type = g->initializer[i]->data_type;
    }
    for (size_t i = 0; i < g->n_output; i++)
        quant_index_add(x, quant_text(g->output[i]->name))->is_output = true;
}

// ---- types ----

static bool quant_index_is_one_of(const Quant__Node *n, const char *const *list)
{
    for (; *list; list++)
        if (quant_is(n, *list))
            return true;
    return false;
}

static int32_t quant_index_type(const struct quant_index *x, const Quant__Node *n)
{
    static const char *const whole[] = {"Shape", "Size", "ArgMax", "ArgMin", "NonZero", NULL};
    static const char *const truths[] = {"Equal",       "Greater", "Less",  "GreaterOrEqual",
                                         "LessOrEqual", "And",     "Or",    "Not",
                                         "Xor",         "IsNaN",   "IsInf", NULL};
    if (quant_index_is_one_of(n, whole))
        return QUANT_INT64;
    if (quant_index_is_one_of(n, truths))
        return QUANT_BOOL;
    if (quant_is(n, "Cast"))
        return (int32_t)quant_attr_int(n, "to", 0);
    if (quant_is(n, "ConstantOfShape")) {
        const Quant__Attribute *value = quant_attr(n, "value");
        return value && value->t ? value->t->data_type : QUANT_FLOAT;
    }
    if (quant_is(n, "DequantizeLinear"))
        return QUANT_FLOAT;
    if (*quant_text(n->domain) || n->n_input == 0)
        return QUANT_NO_TYPE;
    const struct quant_edge *from = quant_index_find(x, quant_input(n, quant_is(n, "Where")));
    return from ? from->type : QUANT_NO_TYPE;
}

// ---- nodes ----

static int quant_index_outputs(struct quant_index *x, const Quant__Node *n, size_t i,
                               struct error *e)
{
    const Quant__Attribute *value = quant_is(n, "Constant") ? quant_attr(n, "value") : NULL;
    int32_t type = quant_index_type(x, n);
    for (size_t k = 0; k < n->n_output; k++) {
        if (!*quant_output(n, k))
            continue;
        struct quant_edge *edge = quant_index_add(x, quant_output(n, k));
        if (edge->producer >= 0 || edge->is_input || edge->constant)
            return error_set(e, STATUS_MODEL_INVALID, "node %s makes tensor %s, which is there",
                             quant_node_name(n), edge->name);
        edge->producer = (int32_t)i;
        edge->type = k == 0 ? type : QUANT_NO_TYPE;
        if (quant_is(n, "Split") && k > 0)
            edge->type = type;
        if (value && value->t && k == 0) {
            edge->constant = value->t;
            edge->type = value->t->data_type;
        }
    }
    return 0;
}

static int quant_index_inputs(struct quant_index *x, const struct quant_model *m, size_t i,
                              struct error *e)
{
    const Quant__Node *n = m->graph->node[i];
    for (size_t k = 0; k < n->n_input; k++) {
        struct quant_edge *edge = quant_index_find(x, quant_input(n, k));
        if (*quant_input(n, k) &&
            (!edge || (edge->producer < 0 && !edge->is_input && !edge->constant)))
            return error_set(e, STATUS_MODEL_INVALID,
                             "node %s reads tensor %s, which nothing before it makes",
                             quant_node_name(n), quant_input(n, k));
        if (edge)
            edge->n_uses++;
    }
    return 0;
}

// Lists of readers: first the counts are summed, then each use takes its place.
static void quant_index_list_uses(struct quant_index *x, const Quant__Graph *g)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        x->edges[i].first_use = sum;
        sum += x->edges[i].n_uses;
        x->edges[i].n_uses = 0;
    }
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++) {
            struct quant_edge *edge = quant_index_find(x, quant_input(g->node[i], k));
            if (edge)
                x->uses[edge->first_use + edge->n_uses++] =
                    (struct quant_use){(uint32_t)i, (uint32_t)k};
        }
}

int quant_index_make(struct quant_index *x, const struct quant_model *m, struct error *e)
{
    *x = (struct quant_index){.taken = &m->taken};
    int r = quant_index_room(x, m->graph, e);
    if (r == 0)
        quant_index_ends(x, m->graph);
    for (size_t i = 0; i < m->graph->n_node && r == 0; i++) {
        r = quant_index_inputs(x, m, i, e);
        if (r == 0)
            r = quant_index_outputs(x, m->graph->node[i], i, e);
    }
    if (r == 0)
        quant_index_list_uses(x, m->graph);
    return r;
}

int32_t quant_index_only_reader(const struct quant_index *x, const struct quant_edge *edge)
{
    return edge->n_uses == 1 && !edge->is_output ? (int32_t)quant_index_use(x, edge, 0)->node : -1;
}

Quant__Tensor *quant_index_weight(const struct quant_index *x, const Quant__Node *n, size_t i)
{
    const struct quant_edge *edge = quant_index_find(x, quant_input(n, i));
    return edge && edge->constant && edge->type == QUANT_FLOAT ? edge->constant : NULL;
}
