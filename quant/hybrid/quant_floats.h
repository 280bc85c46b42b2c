// One calibration, several choices of what stays float or has 16 bits: plans and layouts of them.
#pragma once

#include "quant/quant.h"

/// Plans without other choices than the options have. Before a calibration, too.
int quant_floats_begin(struct rknnd_quant *q, struct error *e);

/// The base layout, of what was seen, and the present one. On as many threads as q->n_clients.
int quant_floats_choose(struct rknnd_quant *q, struct error *e);

/// Plans and lays out with more choices, and `edits` (NULL: those that there are; else taken when
/// it succeeds). Nothing has changed if it fails.
int quant_floats_set(struct rknnd_quant *q, uint32_t n, const struct quant_choice *choices,
                     struct quant_edit *edits, struct error *e);

/// A copy that other layers can be chosen in, on another thread, while `q` stays as it is: it has
/// what was calibrated in common with it. quant_floats_join() frees what is its own.
struct rknnd_quant quant_floats_fork(const struct rknnd_quant *q);
void quant_floats_join(struct rknnd_quant *fork);

/// Puts a range into edits, for all tensors that have one scale with edge `i`. Refuses a range
/// without 0 in it, or another one than is there.
int quant_floats_edit(const struct rknnd_quant *q, struct quant_edit *edits, uint32_t i,
                      struct quant_range range, struct error *e);

/// Ranges of groups of tensors that come from a Clip end within its bounds as they are stored, too.
/// ONNX Runtime (1.30) loads no model in which a Clip changes no stored number, but has a bound
/// between the last one and the end.
void quant_floats_fit_clips(const struct rknnd_quant *q, const struct quant_plan *p,
                            struct quant_range *ranges);

/// Forgets what a calibration has chosen.
void quant_floats_forget(struct rknnd_quant *q);
