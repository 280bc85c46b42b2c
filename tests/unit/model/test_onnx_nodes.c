// ONNX's own tests of operators (Debian: libonnx-testdata). Those of onnx_passes.txt must pass;
// every other one must be refused with words. Of those with nothing but operators of vision and
// speech networks 95 % must pass.
//
//     test_onnx_nodes           compares with the list
//     test_onnx_nodes --list    prints the list as it is now; --why: and why the others do not pass
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "onnx_case.h"

#define ROOT  "/usr/share/libonnx-testdata/data"
#define NAMES 4096

static const char *const groups[] = {"node", "pytorch-converted", "pytorch-operator", "simple"};

// What exported networks for detection, segmentation, faces, text, key words and speech consist of,
// in floats and in 8 bits.
// clang-format off
static const char *const usual[] = {
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize",
    "Upsample", "GridSample", "DepthToSpace", "SpaceToDepth", "Pad",
    "BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
    "Relu", "LeakyRelu", "PRelu", "Elu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus",
    "Mish", "Erf", "Softmax", "LogSoftmax",
    "Gemm", "MatMul", "Einsum", "LSTM", "GRU", "RNN",
    "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Neg", "Abs", "Reciprocal", "Floor", "Ceil",
    "Sin", "Cos", "Min", "Max", "Equal", "Greater", "Less", "And", "Or", "Not", "Where", "Cast",
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ArgMax", "TopK", "CumSum",
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Concat", "Split", "Slice", "Expand",
    "Tile", "Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements", "OneHot",
    "NonMaxSuppression", "Shape", "Constant", "ConstantOfShape", "Range", "Identity", "Dropout",
    "QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger",
    "DynamicQuantizeLinear", NULL,
};
// clang-format on

struct counts {
    size_t n, passed, usual, usual_passed;
};

static char *passes[NAMES];
static size_t n_passes;

static bool must_pass(const char *name)
{
    for (size_t i = 0; i < n_passes; i++)
        if (strcmp(passes[i], name) == 0)
            return true;
    return false;
}

static bool read_passes(void)
{
    char line[256];
    cleanup(fclose_p) FILE *f = fopen(ONNX_PASSES, "r");
    while (f && n_passes < NAMES && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#')
            passes[n_passes++] = strdup(line);
    }
    return f != NULL;
}

static int is_test(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

// Bad: a case of the list that does not pass, or wrong numbers.
static bool run_case(struct npu_device *device, const char *name, const char *mode,
                     struct counts *n)
{
    char folder[512];
    struct error e = {0};
    snprintf(folder, sizeof folder, ROOT "/%s", name);
    enum onnx_result result = onnx_case_run(device, folder, &e);
    bool is_usual = onnx_case_uses_only(folder, usual);
    n->n++;
    n->passed += result == ONNX_PASSED;
    n->usual += is_usual;
    n->usual_passed += is_usual && result == ONNX_PASSED;
    if (mode && result == ONNX_PASSED)
        printf("%s\n", name);
    if (mode && result != ONNX_PASSED && strcmp(mode, "--why") == 0)
        printf("# %s%s %s: %s\n", is_usual ? "usual, " : "",
               result == ONNX_WRONG ? "WRONG" : "refused", name, e.text);
    bool lost = result != ONNX_PASSED && must_pass(name);
    bool bad = result == ONNX_WRONG || lost || (result == ONNX_REFUSED && !e.text[0]);
    if (bad && !mode)
        fprintf(stderr, "%s: %s\n", name, e.text[0] ? e.text : "refused without words");
    return bad;
}

static bool run_group(struct npu_device *device, const char *group, const char *mode,
                      struct counts *n)
{
    struct dirent **list;
    char name[512], folder[512];
    bool bad = false;
    snprintf(folder, sizeof folder, ROOT "/%s", group);
    int count = scandir(folder, &list, is_test, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%s", group, list[i]->d_name);
        bad = run_case(device, name, mode, n) || bad;
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    return bad;
}

int main(int argc, char **argv)
{
    struct npu_device *device;
    struct error e;
    struct counts n = {0};
    bool bad = false;
    const char *mode = argc > 1 ? argv[1] : NULL;
    if (npu_backend.device_open("", &device, &e) < 0 || (!mode && !read_passes()))
        return 1;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        bad = run_group(device, groups[i], mode, &n) || bad;
    npu_backend.device_free(device);
    if (!n.n) {
        printf("skipped: " ROOT " is not there (Debian: libonnx-testdata)\n");
        return 77;
    }
    fprintf(stderr, "%zu of %zu pass, %zu must; of usual operators %zu of %zu\n", n.passed, n.n,
            n_passes, n.usual_passed, n.usual);
    if (n.usual_passed * 100 < n.usual * 95) {
        fprintf(stderr, "of usual operators fewer than 95 %%\n");
        bad = true;
    }
    for (size_t i = 0; i < n_passes; i++)
        free(passes[i]);
    return bad && !mode;
}
