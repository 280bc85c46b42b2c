// An ONNX file in memory, to be changed and written again. What is not understood stays in it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "quant/model/quant_elements.h"
#include "quant/model/quant_pool.h"
#include "quant/model/quant_taken.h"
#include "quant_onnx.pb-c.h"

// Kinds of attributes (AttributeProto.AttributeType).
enum quant_attr_type {
    QUANT_ATTR_FLOAT = 1,
    QUANT_ATTR_INT = 2,
    QUANT_ATTR_STRING = 3,
    QUANT_ATTR_INTS = 7
};

// A name of the file that the model has no more: its node is joined with another one.
struct quant_joined {
    const char *was, *now;
};

struct quant_model {
    struct quant_pool pool; // of all that the messages point to
    Quant__Model *proto;
    Quant__Graph *graph;                    // its graph
    struct quant_mapping *mappings;         // of other files that weights lie in
    size_t room_initializers, room_outputs; // 0: as read
    bool has_subgraphs;                     // which may read any tensor by its name
    struct quant_taken taken;               // names of the file
    struct quant_joined *joined;            // in the order in which it was done
    size_t n_joined, room_joined;
};

/// Reads a file. quant_model_done() also after a failure.
int quant_model_load(struct quant_model *m, const char *path, struct error *e);

/// The same of bytes in memory, which are copied. `folder`: where weights in other files are, which
/// are copied to a file without a name.
int quant_model_parse(struct quant_model *m, const void *data, size_t size, const char *folder,
                      struct error *e);
void quant_model_done(struct quant_model *m);

/// A model to be changed apart from `m`, which must outlive it. quant_model_done() also after a
/// failure.
int quant_model_copy(struct quant_model *copy, const struct quant_model *m, struct error *e);

/// Writes it, whole or not at all. With `parts`, and above 2 GB, its weights go to PATH.data beside
/// it.
int quant_model_save(const struct quant_model *m, const char *path, bool parts, struct error *e);

/// Writes it with all weights into a file without a name, in $TMPDIR, /var/tmp or /tmp or else in
/// memory: the descriptor is the caller's. Fails above 4 GB.
int quant_model_save_nameless(const struct quant_model *m, int *ret, struct error *e);

// Behind the name of a tensor that has a factor for each channel, which the float model's has not.
#define QUANT_EQUALIZED "_equalized"

#define QUANT_MICROSOFT "com.microsoft" // a domain of operators of ONNX Runtime's

/// Its version of the standard operators; 0: it has none.
int64_t quant_model_opset(const struct quant_model *m);

// ---- changing it; NULL, or false: out of memory ----

Quant__Node *quant_model_node(struct quant_model *m, const char *op, const char *name,
                              size_t n_inputs, const char *const *inputs, const char *output);
bool quant_model_set_int(struct quant_model *m, Quant__Node *n, const char *name, int64_t value);
bool quant_model_set_text(struct quant_model *m, Quant__Node *n, const char *name,
                          const char *value);

/// Adds a constant of the graph, whose elements are copied; n_dims 0: a scalar.
Quant__Tensor *quant_model_constant(struct quant_model *m, const char *name, enum quant_type type,
                                    size_t n_dims, const int64_t *dims, const void *data,
                                    size_t size);

/// The same of elements that lie in the model's memory already, and are not copied.
Quant__Tensor *quant_model_take_constant(struct quant_model *m, const char *name,
                                         enum quant_type type, size_t n_dims, const int64_t *dims,
                                         void *data, size_t size);

/// Replaces the graph's nodes by a list of the pool.
struct quant_node_list {
    Quant__Node **items;
    size_t n, room;
};
bool quant_model_append(struct quant_model *m, struct quant_node_list *l, Quant__Node *n);
void quant_model_take_nodes(struct quant_model *m, const struct quant_node_list *l);

/// Adds a domain of operators, if it is not there.
bool quant_model_import(struct quant_model *m, const char *domain, int64_t version);

/// Adds an output by its name alone.
bool quant_model_add_output(struct quant_model *m, const char *name);

/// From now on what is called `was` ("": nothing) means the tensor `now`. Both belong to the model.
bool quant_model_join(struct quant_model *m, const char *was, const char *now);

/// What a name that a person gives is called by now; itself, where nothing became of it.
const char *quant_model_present_name(const struct quant_model *m, const char *name);

// ---- reading it ----

static inline bool quant_is(const Quant__Node *n, const char *op)
{
    const char *domain = quant_text(n->domain), *is = quant_text(n->op_type);
    for (; *op && *op == *is; op++, is++)
        ;
    return !*op && !*is && (!*domain || __builtin_strcmp(domain, "ai.onnx") == 0);
}

/// NULL: the node has none of this name.
const Quant__Attribute *quant_attr(const Quant__Node *n, const char *name);
int64_t quant_attr_int(const Quant__Node *n, const char *name, int64_t otherwise);
float quant_attr_float(const Quant__Node *n, const char *name, float otherwise);
void quant_attr_remove(Quant__Node *n, const char *name);

/// The node's input i; "": left out.
static inline const char *quant_input(const Quant__Node *n, size_t i)
{
    return i < n->n_input ? quant_text(n->input[i]) : "";
}

static inline const char *quant_output(const Quant__Node *n, size_t i)
{
    return i < n->n_output ? quant_text(n->output[i]) : "";
}

static inline const char *quant_node_name(const Quant__Node *n)
{
    return n->name && *n->name ? n->name : quant_output(n, 0);
}
