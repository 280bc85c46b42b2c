// Compares a model's tensors with a reference's ("golden"): another file's, server's or backend's,
// usually the float model's.
#pragma once

#include <jansson.h>
#include <math.h>

#include "tools/compare/comparison_times.h"

struct comparison_plan {
    struct task task; // what is looked at
    const char *server;
    const char *golden, *golden_server; // NULL server: the default
    uint32_t golden_core_mask;          // RKNN_NPU_CORE_UNDEFINED: not asked for
    const char *list;                   // --list; NULL: task.inputs are one set
    struct text_list map;               // NAME=GOLDEN
    const char *folder;                 // for snapshots; NULL: none
    double fail_above;                  // error from which on it fails, in %; NAN: never
    double limit;                       // per cent of comparison_error() that a layer may have
    bool entire_only;
    bool float_golden; // the golden model is to be one of floats: says so where it is converted
    uint32_t loop, warmup, seed; // runs whose times are taken (0: none are), as of a profile_plan
    enum comparison_form { COMPARISON_TEXT, COMPARISON_JSON, COMPARISON_CSV } form;
};

// --json and --csv: at most one of them.
int comparison_set_form(struct comparison_plan *plan, bool json, bool csv, struct error *e);

#define COMPARISON_PLAN_INIT                                                                       \
    {                                                                                              \
        .task = TASK_INIT, .golden_core_mask = RKNN_NPU_CORE_UNDEFINED, .limit = 5, .warmup = 3,   \
        .seed = 1, .fail_above = NAN                                                               \
    }

// Rows of a command's options, each for one member.
#define COMPARISON_GOLDEN(p)                                                                       \
    {                                                                                              \
        'g', "golden", OPTION_TEXT, &(p)->golden, "MODEL", "the float model, mostly .onnx", 0, 0,  \
            NULL                                                                                   \
    }
#define COMPARISON_GOLDEN_SERVER(p)                                                                \
    {                                                                                              \
        0, "golden-server", OPTION_TEXT, &(p)->golden_server, "URI",                               \
            "that runs the float model (default sim:)", 0, 0, NULL                                 \
    }
#define COMPARISON_LIST(p)                                                                         \
    {                                                                                              \
        0, "list", OPTION_TEXT, &(p)->list, "FILE", "sets of inputs: a line of files each", 0, 0,  \
            NULL                                                                                   \
    }
#define COMPARISON_MAP(p)                                                                          \
    {                                                                                              \
        0, "map", OPTION_CALL, &(p)->map, "NAME=OTHER", "tensors whose names differ", 0, 0,        \
            text_list_option                                                                       \
    }
#define COMPARISON_ENTIRE(p)                                                                       \
    {                                                                                              \
        0, "entire", OPTION_FLAG, &(p)->entire_only, NULL, "do not look at single layers", 0, 0,   \
            NULL                                                                                   \
    }
#define COMPARISON_LIMIT(p)                                                                        \
    {                                                                                              \
        0, "limit", OPTION_REAL, &(p)->limit, "PERCENT", "a layer's own error (default 5)", 0,     \
            1000, NULL                                                                             \
    }
#define COMPARISON_FAIL_ABOVE(p)                                                                   \
    {                                                                                              \
        0, "fail-above", OPTION_REAL, &(p)->fail_above, "PERCENT",                                 \
            "fail (6) if a layer's error is larger", 0, 1000, NULL                                 \
    }
#define COMPARISON_DUMP(p)                                                                         \
    {                                                                                              \
        0, "dump", OPTION_TEXT, &(p)->folder, "DIR", "write all tensors there", 0, 0, NULL         \
    }

// How far a tensor is from the golden one; golden values below the noise floor (comparison.c) are
// taken to be as large as that, where errors are quotients. Of several sets of inputs each number
// is the worst one.
struct comparison_distance {
    bool there;
    rknnd_distance real, stored; // from golden values; from those as the tensor's type stores them
};

// A tensor.
struct comparison_row {
    char *name, *node, *op;
    rknn_tensor_type type;
    uint32_t n_dims, dims[RKNN_MAX_DIMS];
    struct comparison_distance entire, single; // with the errors of the layers before; without
};

struct comparison {
    rknnd_server_info server, golden_server;
    bool golden_converted;       // a .rknn
    struct comparison_row *rows; // in the order of execution
    size_t n, room, n_sets;
    double limit;
    char why_not_single[256]; // "": it was not wanted, or it is there
    struct comparison_times times;
};

/// Runs both models on every set of inputs. comparison_done() is safe after a failure.
int comparison_make(struct comparison *c, const struct comparison_plan *plan, struct error *e);
void comparison_done(struct comparison *c);

/// Makes a comparison and prints all of it in the plan's form.
int comparison_run(const struct comparison_plan *plan, struct error *e);

/// {"sets", "golden_converted", "limit_percent", "layers", "worst", "worst_index", "worst_by",
/// "first_divergence", "times"}. NULL: out of memory.
json_t *comparison_json(const struct comparison *c);

/// One row a tensor, and one for each layer that has none.
void comparison_csv(const struct comparison *c);
