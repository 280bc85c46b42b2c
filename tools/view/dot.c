// A model's graph for Graphviz: a box for each node, coloured by device, an ellipse for each input
// and output, an edge for each tensor from its producer to each reader. Ids: n = node, i = input, o
// = output, with its index.
#include "tools/view/dot.h"

#include <stdbool.h>
#include <string.h>

#define COLOR_CPU "#f4c7a1"
#define COLOR_NPU "#c5dcf0"

struct dot {
    FILE *out;
    json_t *producers; // tensor name: the node that writes it, as "n3" or "i0"
    json_t *readers;   // tensor name: true
};

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

// Text inside quotes: quote and backslash escaped, control characters replaced.
static void write_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fputc('\\', out);
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
}

// "1x3x224x224 INT8"; an open dimension is "?".
static void write_form(FILE *out, json_t *tensor)
{
    size_t i;
    json_t *dim;
    json_array_foreach(json_object_get(tensor, "shape"), i, dim)
    {
        fputs(i ? "x" : "", out);
        if (json_is_null(dim))
            fputc('?', out);
        else
            fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(dim));
    }
    fputc(' ', out);
    write_text(out, text_of(tensor, "type"));
}

// Optional outputs have no name and no edges.
static int note_producer(struct dot *d, json_t *tensor, char kind, size_t i)
{
    char id[32];
    if (!*text_of(tensor, "name"))
        return 0;
    snprintf(id, sizeof id, "%c%zu", kind, i);
    return json_object_set_new(d->producers, text_of(tensor, "name"), json_string(id));
}

// First pass: who writes each tensor, and which are read at all.
static int note_node(struct dot *d, json_t *node, size_t i)
{
    size_t k;
    json_t *tensor;
    json_array_foreach(json_object_get(node, "outputs"), k, tensor)
    {
        if (note_producer(d, tensor, 'n', i) < 0)
            return -1;
    }
    json_array_foreach(json_object_get(node, "inputs"), k, tensor)
    {
        if (json_object_set_new(d->readers, text_of(tensor, "name"), json_true()) < 0)
            return -1;
    }
    return 0;
}

// An ellipse for an input or output of the model.
static void write_port(struct dot *d, json_t *tensor, char kind, size_t i)
{
    fprintf(d->out, "  %c%zu [shape=ellipse, label=\"", kind, i);
    write_text(d->out, text_of(tensor, "name"));
    fputs("\\n", d->out);
    write_form(d->out, tensor);
    fputs("\"];\n", d->out);
}

// Inputs of the model that no node writes.
static int write_inputs(struct dot *d, json_t *inputs)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(inputs, i, tensor)
    {
        if (json_object_get(d->producers, text_of(tensor, "name")))
            continue;
        write_port(d, tensor, 'i', i);
        if (note_producer(d, tensor, 'i', i) < 0)
            return -1;
    }
    return 0;
}

// A tensor without a producer is a constant: it has no edge.
static void write_edge(struct dot *d, json_t *tensor, char kind, size_t i)
{
    const char *from = text_of(d->producers, text_of(tensor, "name"));
    if (!*from)
        return;
    fprintf(d->out, "  %s -> %c%zu [label=\"", from, kind, i);
    write_form(d->out, tensor);
    fputs("\"];\n", d->out);
}

// Outputs of the model that no node reads.
static void write_outputs(struct dot *d, json_t *outputs)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(outputs, i, tensor)
    {
        if (json_object_get(d->readers, text_of(tensor, "name")))
            continue;
        write_port(d, tensor, 'o', i);
        write_edge(d, tensor, 'o', i);
    }
}

// "NPU, 12.5 us" in a line of its own; nothing where neither is known.
static void write_device(struct dot *d, const char *device, double us)
{
    if (*device || us > 0)
        fputs("\\n", d->out);
    write_text(d->out, device);
    if (us > 0)
        fprintf(d->out, "%s%.3g us", *device ? ", " : "", us);
}

static void write_node(struct dot *d, json_t *node, size_t i, json_t *estimate)
{
    bool cpu = strcmp(text_of(node, "device"), "CPU") == 0;
    fprintf(d->out, "  n%zu [fillcolor=\"%s\", label=\"", i, cpu ? COLOR_CPU : COLOR_NPU);
    write_text(d->out, text_of(node, "op"));
    fputs("\\n", d->out);
    write_text(d->out, text_of(node, "name"));
    write_device(d, text_of(node, "device"), json_number_value(json_object_get(estimate, "us")));
    fputs("\"];\n", d->out);
}

// Estimates are in the order of the nodes, but not every node has one.
static void write_nodes(struct dot *d, json_t *nodes, json_t *estimates)
{
    size_t i, next = 0;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        json_t *estimate = json_array_get(estimates, next);
        bool its = estimate && strcmp(text_of(estimate, "node"), text_of(node, "name")) == 0;
        write_node(d, node, i, its ? estimate : NULL);
        next += its;
    }
}

static void write_edges(struct dot *d, json_t *nodes)
{
    size_t i, k;
    json_t *node, *tensor;
    json_array_foreach(nodes, i, node) json_array_foreach(json_object_get(node, "inputs"), k,
                                                          tensor) write_edge(d, tensor, 'n', i);
}

// Inputs that a node writes (an RKNN file's InputOperator) are that node, not one more ellipse; the
// same for outputs that a node reads.
static int write_graph(struct dot *d, json_t *model)
{
    size_t i;
    json_t *node, *nodes = json_object_get(model, "nodes");
    fputs(
        "digraph model {\n"
        "  rankdir=TB;\n"
        "  node [shape=box, style=\"filled,rounded\", fillcolor=white, fontname=\"sans-serif\"];\n"
        "  edge [fontname=\"sans-serif\", fontsize=10];\n",
        d->out);
    json_array_foreach(nodes, i, node)
    {
        if (note_node(d, node, i) < 0)
            return -1;
    }
    if (write_inputs(d, json_object_get(model, "inputs")) < 0)
        return -1;
    write_nodes(d, nodes, json_object_get(model, "layer_estimates"));
    write_edges(d, nodes);
    write_outputs(d, json_object_get(model, "outputs"));
    fputs("}\n", d->out);
    return 0;
}

int dot_write(json_t *model, FILE *out)
{
    struct dot d = {out, json_object(), json_object()};
    int r = d.producers && d.readers ? write_graph(&d, model) : -1;
    json_decref(d.producers);
    json_decref(d.readers);
    return r;
}
