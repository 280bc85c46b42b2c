// Activations as bounds (clamp.h). Nothing is rounded. Tests: test_sim_cases_activations,
// test_sim_fp16.
#include "npu/sim/simd/clamp.h"

#include <math.h>

bool clamp_bounds(const struct graph_post *posts, uint32_t n_posts, struct clamp_bounds *ret)
{
    *ret = (struct clamp_bounds){-INFINITY, INFINITY};
    if (n_posts == 1 && posts->kind == POST_RELU)
        ret->low = 0;
    else if (n_posts == 1 && posts->kind == POST_CLIP && posts->alpha <= posts->beta)
        *ret = (struct clamp_bounds){posts->alpha, posts->beta};
    else
        return n_posts == 0;
    return true;
}
