// Rewritings of float models that do not change what they compute.
#pragma once

#include "quant/model/quant_index.h"

/// Constants that nodes make (Constant and ConstantOfShape; Reshape, Unsqueeze, Transpose, Cast,
/// Identity and arithmetic of constants) become constants of the graph; Sum of two becomes Add;
/// factors of Gemm go into its weight and bias, and a bias that is one number is spread.
int quant_simplify(struct quant_model *m, struct error *e);

/// 1: `n` is arithmetic of constants (numpy's broadcasting), and its output is a constant of the
/// model now. 0: it is not, or gives what is not finite. *left: elements that may be made yet.
int quant_simplify_arithmetic(struct quant_model *m, const struct quant_index *x,
                              const Quant__Node *n, size_t *left, struct error *e);

/// Of a Gemm with a constant weight: alpha goes into that, beta into the bias, which is dropped
/// where it counts for nothing, and spread where it is one number. Where one of them is computed,
/// or is not of the usual form, and of other nodes, nothing is done.
int quant_simplify_gemm(struct quant_model *m, const struct quant_index *x, Quant__Node *n,
                        struct error *e);

/// Batch normalizations behind products (Conv, ConvTranspose, Gemm) with constant weights go into
/// these, also several in a row. *ret_n: how many.
int quant_fold_batch_norms(struct quant_model *m, uint32_t *ret_n, struct error *e);

/// (x - mean[c]) / deviation[c] of the input `name`, which then takes pixels. One number for each
/// channel (the second dimension; the last one where that alone is as long), or one for all. x: of
/// the model as it is, and not of what comes of it. Models with subgraphs are refused.
int quant_normalize_input(struct quant_model *m, const struct quant_index *x, const char *name,
                          const float *mean, const float *deviation, size_t n, struct error *e);
