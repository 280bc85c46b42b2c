// The table of ONNX's operators: onnx_operators.h has its rows.
#include "npu/model/onnx/onnx_lower.h"

#define ONNX_MANY ONNX_MAX_EDGES

// Rows of onnx_math.c's table of arithmetic.
enum { AR_ADD, AR_SUB, AR_MUL, AR_DIV, AR_MAX, AR_MIN, AR_POW, AR_PRELU };

#define X(name, fewest, most, outputs, lower, argument)                                            \
    {name, fewest, most, outputs, lower, argument},
static const struct onnx_operator operators[] = {ONNX_OPERATORS(X)};
#undef X

// A linear search: it runs once for each node of a file, at load.
const struct onnx_operator *onnx_operator(const char *name)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(operators[i].name, name) == 0)
            return &operators[i];
    return NULL;
}
