// What all commands that run a model take from their command line: the model, its inputs, its
// shapes, the cores. The macros are rows for a command's option table.
#pragma once

#include "rknn_api.h"
#include "tools/input/input_set.h"
#include "tools/run/open_model.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/core_mask.h"

struct task {
    const char *model;
    struct text_list shapes, inputs;
    struct input_options forms; // of the inputs' files
    uint32_t core_mask;         // RKNN_NPU_CORE_UNDEFINED: not asked for
    uint32_t shape_set;         // of shapes; TASK_NO_SHAPE_SET: not asked for
};

#define TASK_NO_SHAPE_SET UINT32_MAX

#define TASK_INIT                                                                                  \
    {                                                                                              \
        .core_mask = RKNN_NPU_CORE_UNDEFINED, .shape_set = TASK_NO_SHAPE_SET                       \
    }

// Rows of a command's option table. How the inputs' files are read:
#define TASK_FORMS(t)                                                                              \
    {'l',                                                                                          \
     "layout",                                                                                     \
     OPTION_CALL,                                                                                  \
     &(t)->forms.layouts,                                                                          \
     "LAYOUT",                                                                                     \
     "[INPUT=]nhwc (default), nchw or native",                                                     \
     0,                                                                                            \
     0,                                                                                            \
     input_layout_option},                                                                         \
        {0,                                                                                        \
         "fit",                                                                                    \
         OPTION_CALL,                                                                              \
         &(t)->forms.fits,                                                                         \
         "FIT",                                                                                    \
         "[INPUT=]letterbox, stretch or crop pictures",                                            \
         0,                                                                                        \
         0,                                                                                        \
         input_fit_option},                                                                        \
        {0,                                                                                        \
         "pad",                                                                                    \
         OPTION_CALL,                                                                              \
         &(t)->forms.pads,                                                                         \
         "COLOUR",                                                                                 \
         "[INPUT=]114 or R,G,B around a letterbox",                                                \
         0,                                                                                        \
         0,                                                                                        \
         input_pad_option},                                                                        \
    {                                                                                              \
        0, "type", OPTION_CALL, &(t)->forms.types, "TYPE",                                         \
            "[INPUT=]float32, uint8, ...: files are raw data", 0, 0, input_type_option             \
    }

// The same, and the files themselves.
#define TASK_INPUTS(t)                                                                             \
    {'i',                                                                                          \
     "input",                                                                                      \
     OPTION_CALL,                                                                                  \
     &(t)->inputs,                                                                                 \
     "FILE",                                                                                       \
     "array, picture, - (stdin); also INPUT=FILE",                                                 \
     0,                                                                                            \
     0,                                                                                            \
     text_list_option},                                                                            \
        TASK_FORMS(t),                                                                             \
    {                                                                                              \
        0, "pass-through", OPTION_FLAG, &(t)->forms.pass_through, NULL,                            \
            "inputs go in untouched: --layout native", 0, 0, NULL                                  \
    }

#define TASK_SHAPE(t)                                                                              \
    {                                                                                              \
        'x', "shape", OPTION_CALL, &(t)->shapes, "NAME=SHAPE",                                     \
            "an open input's shape: images=1x3x640x640", 0, 0, text_list_option                    \
    }

// How a model is loaded: TASK_SHAPE, the shape set, the cores.
#define TASK_LOADING(t)                                                                            \
    TASK_SHAPE(t),                                                                                 \
        {0,                                                                                        \
         "shape-set",                                                                              \
         OPTION_NUMBER,                                                                            \
         &(t)->shape_set,                                                                          \
         "N",                                                                                      \
         "which of several shapes, from 0 on",                                                     \
         0,                                                                                        \
         RKNN_MAX_DYNAMIC_SHAPE_NUM - 1,                                                           \
         NULL},                                                                                    \
    {                                                                                              \
        'c', "core-mask", OPTION_CALL, &(t)->core_mask, "CORES",                                   \
            "auto, all, 0, 0,1, … or a mask 0x3", 0, 0, core_mask_option                           \
    }

/// As cmd_options_parse, for a command whose only argument is the model.
int task_parse(struct task *t, const struct cmd_options *o, int argc, char **argv, struct error *e);
void task_done(struct task *t);

/// Opens the model with RKNN_FLAG_* `flags`, for the cores and in the shapes that were asked for.
/// model_close() is safe after a failure.
int task_open(const struct task *t, uint32_t flags, struct model *m, struct error *e);

/// The inputs' files; says on standard error what was done with pictures. input_set_done() is safe
/// after a failure.
int task_load(const struct task *t, const struct model *m, struct input_set *s, struct error *e);
