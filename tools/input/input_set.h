// All inputs of a model, ready for rknn_inputs_set().
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "tools/input/input_file.h"
#include "tools/run/open_model.h"

struct input_set {
    uint32_t n;
    rknn_input *inputs; // buffers are the set's
    const char **paths; // of the files; NULL where the data is random
    struct input_file *files;
};

/// An empty set, for n inputs. input_set_done() also after a failure of any of these.
int input_set_init(struct input_set *s, uint32_t n, struct error *e);

/// Reads the files that -i gave, as the options say.
int input_set_load(struct input_set *s, const struct model *m, const struct text_list *args,
                   const struct input_options *options, struct error *e);

/// A line for each picture that was changed for the model: its size, how it was fitted, rotated,
/// its alpha; and one where a float model gets pixels of 0 to 255.
void input_set_tell(const struct input_set *s, const struct model *m, FILE *out);

/// What was done with an input's file: {"format", "picture"}; null for random data. `picture` is
/// null for other files, else {"width", "height", "fit", "window", "left", "top", "fitted_width",
/// "fitted_height", "pad", "turned", "lost_alpha"}: the window, in the picture's pixels, fills the
/// rectangle of the input at left, top.
json_t *input_set_json(const struct input_set *s, uint32_t index);

/// Random data of the model's own types that depends on `seed` alone: bytes over their whole range,
/// reals in [-1, 1), integers and booleans 0 or 1, since they may be indices.
int input_set_random(struct input_set *s, const struct model *m, uint32_t seed, struct error *e);

/// rknn_inputs_set(), and nothing for a model without inputs, which that refuses. Its code.
int input_set_give(const struct input_set *s, rknn_context context);

void input_set_done(struct input_set *s);
