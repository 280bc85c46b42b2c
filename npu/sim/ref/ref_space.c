// DepthToSpace and SpaceToDepth: channels that become blocks of pixels, and back. ints: size b of a
// block, kind.
//
//   deep [n, c b b, h, w]   <->   flat [n, c, h b, w b]
//
// The channels of the deep image are ordered b b c (DCR, and SpaceToDepth) or c b b (CRD).
// Nothing is rounded. Tests: test_onnx_nodes (ONNX's own cases), test_sim_cases_cpu (.rknn).
#include "npu/sim/ref/ref.h"

// The flat image with its blocks of pixels, and the deep one with a pixel for each block.
struct images {
    const struct ref_tensor *flat, *deep;
    uint64_t block, channels; // of the flat one
    bool channel_first;
};

static void space_see(const struct ref_call *c, struct images *i)
{
    bool to_depth = c->node->ref.ints[1] == REF_SPACE_TO_DEPTH;
    *i = (struct images){.flat = to_depth ? &c->in[0] : &c->out[0],
                         .deep = to_depth ? &c->out[0] : &c->in[0],
                         .block = (uint64_t)c->node->ref.ints[0],
                         .channel_first = c->node->ref.ints[1] == REF_DEPTH_TO_SPACE_CRD};
    i->channels = i->flat->t && i->flat->t->n_dims == 4 ? i->flat->t->dims[1] : 0;
}

static int space_check(const struct ref_call *c, uint64_t *ret_extra, struct error *e)
{
    struct images i;
    (void)ret_extra;
    space_see(c, &i);
    bool fits = c->in[0].t && c->in[0].real == c->out[0].real && i.flat->t->n_dims == 4 &&
                i.deep->t->n_dims == 4 && i.block >= 1 && i.block <= UINT16_MAX;
    if (fits) {
        const uint32_t *flat = i.flat->t->dims, *deep = i.deep->t->dims;
        fits = flat[0] == deep[0] && flat[1] * i.block * i.block == deep[1] &&
               flat[2] == deep[2] * i.block && flat[3] == deep[3] * i.block;
    }
    return fits ? 0 : ref_refuse(c, e, "its input and its output do not fit its blocks");
}

// Offset in the deep image of element k of the flat one.
static uint64_t space_place(const struct images *i, uint64_t k)
{
    const uint32_t *flat = i->flat->t->dims, *deep = i->deep->t->dims;
    uint64_t x = k % flat[3], y = k / flat[3] % flat[2], plane = k / flat[3] / flat[2];
    uint64_t c = plane % i->channels, n = plane / i->channels, b = i->block;
    uint64_t pixel = y % b * b + x % b;
    uint64_t channel = i->channel_first ? c * b * b + pixel : pixel * i->channels + c;
    return ((n * deep[1] + channel) * deep[2] + y / b) * deep[3] + x / b;
}

static int space_run(struct ref_call *c, struct error *e)
{
    struct images i;
    (void)e;
    space_see(c, &i);
    for (uint64_t k = 0; k < i.flat->t->n_elems; k++) {
        union ref_value *flat = i.flat->v + k, *deep = i.deep->v + space_place(&i, k);
        if (i.deep == &c->out[0])
            *deep = *flat;
        else
            *flat = *deep;
    }
    return 0;
}

const struct ref_operator ref_space = {.check = space_check, .run = space_run};
