// Who makes and who reads each tensor of a model. Made anew after the model has changed.
#pragma once

#include "quant/model/quant_model.h"

struct quant_use {
    uint32_t node, input;
};

struct quant_edge {
    const char *name;
    int32_t producer; // node; -1: none
    int32_t type;     // enum quant_type, as far as it is plain without shapes; 0: not known
    uint32_t first_use, n_uses;
    bool is_input, is_output; // of the model
    Quant__Tensor *constant;  // its elements; NULL: it is computed
};

struct quant_index {
    struct quant_edge *edges;
    uint32_t n;
    uint32_t *slots; // hash table of numbers of edges + 1
    size_t n_slots;
    struct quant_use *uses;
    const struct quant_taken *taken; // of the model
};

/// quant_index_done() also after a failure. Refuses models whose nodes are not in order, or in
/// which a tensor is made twice.
int quant_index_make(struct quant_index *x, const struct quant_model *m, struct error *e);
void quant_index_done(struct quant_index *x);

/// NULL: there is no such tensor ("" is none).
struct quant_edge *quant_index_find(const struct quant_index *x, const char *name);

/// By a name that a person gives, of the float model, too: without what equalization has put behind
/// it.
struct quant_edge *quant_index_find_named(const struct quant_index *x, const char *name);

/// Whether a tensor's own name is what a person may have meant by `name`.
bool quant_index_is_named(const char *own, const char *name);

/// By the name that a server shows, in which control characters and the like are "?", and which may
/// be cut after `most` bytes. NULL: there is none, or there are several.
struct quant_edge *quant_index_find_shown(const struct quant_index *x, const char *shown,
                                          size_t most);

/// A name that no tensor of the index and nothing else in the file has: `format`'s text, with "_"
/// behind it as often as that needs, in the pool. NULL: out of memory.
char *quant_index_fresh(const struct quant_index *x, struct quant_pool *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline const struct quant_use *quant_index_use(const struct quant_index *x,
                                                      const struct quant_edge *edge, uint32_t i)
{
    return &x->uses[edge->first_use + i];
}

/// The one node that reads `edge`, which is no output of the model; -1: there is none, or more.
int32_t quant_index_only_reader(const struct quant_index *x, const struct quant_edge *edge);

/// The node's input i where that is a constant of floats; else NULL.
Quant__Tensor *quant_index_weight(const struct quant_index *x, const Quant__Node *n, size_t i);
