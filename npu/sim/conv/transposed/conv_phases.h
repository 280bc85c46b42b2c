// Transposed convolutions as convolutions without zeros between the pixels (conv_phases.c).
#pragma once

#include "npu/sim/conv/conv.h"

/// Whether `c`, a transposed one as op_conv.c describes it, can be computed so.
bool conv_phases_fit(const struct step *s, const struct conv *c);

/// Sets c->phases; `w` is [oc][ic of a group][kh][kw], int8_t or float, whose bias is set.
int conv_phases_prepare(struct step *s, struct conv *c, const void *w, struct error *e);
int conv_phases_run(const struct step *s, const struct conv *c, struct run *r, struct error *e);
