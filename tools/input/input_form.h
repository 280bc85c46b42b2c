// How the data of inputs is to be read: --layout, --type, --fit, --pad, --pass-through.
#pragma once

#include "rknn_api.h"
#include "tools/image/image_fit.h"
#include "tools/ui/text_list.h"

// As given on the command line: [INPUT=]VALUE each. INPUT is a name or number; without it the value
// holds for all inputs that are not named. Later values replace earlier ones.
struct input_options {
    struct text_list layouts, types, fits, pads;
    bool pass_through; // all inputs, as --layout native
};

void input_options_done(struct input_options *o);

struct input_form {
    rknn_tensor_format layout; // of 4-D arrays
    bool native;               // the model's own type and layout: passed through untouched
    bool raw;                  // elements of `type` and nothing else
    rknn_tensor_type type;
    enum image_fit fit;
    bool fit_named; // for this very input
    uint8_t colour[3];
    unsigned n_colour; // numbers that were given for it; 1: gray
};

// Calls of options (base/options/option_table.h) whose target is one of input_options' lists: each
// checks the value as far as it can without the model, and appends it.
int input_layout_option(void *list, const char *text, struct error *e);
int input_type_option(void *list, const char *text, struct error *e);
int input_fit_option(void *list, const char *text, struct error *e);
int input_pad_option(void *list, const char *text, struct error *e);

/// Fills ret[n] for the inputs `attrs`. STATUS_PARAM_INVALID for names that the model does not
/// have.
int input_forms_make(const struct input_options *o, const rknn_tensor_attr *attrs, uint32_t n,
                     struct input_form *ret, struct error *e);
