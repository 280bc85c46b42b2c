// All inputs of a model, ready for rknn_inputs_set().
#pragma once

#include "tools/model.h"
#include "tools/options.h"

struct input_set {
    uint32_t n;
    rknn_input *inputs; // buffers are the set's
    const char **paths; // of the files; NULL where the data is made up
};

/// An empty set, for n inputs. input_set_done() also after a failure of any of these.
int input_set_init(struct input_set *s, uint32_t n, struct failure *f);

/// Reads the files that -i gave; `layout` is that of 4-D arrays (pictures are NHWC anyway).
int input_set_load(struct input_set *s, const struct model *m, const struct text_list *args,
                   rknn_tensor_format layout, struct failure *f);

/// Makes up data of the model's own types that depends on nothing but `seed`: bytes over their
/// whole range, reals in [-1, 1), integers and booleans 0 or 1 (they may be indices).
int input_set_random(struct input_set *s, const struct model *m, uint32_t seed, struct failure *f);

void input_set_done(struct input_set *s);
