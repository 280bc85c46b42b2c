// Pairs of quads for the byte multiplication of AVX2: conv_vnni.h has what they are.
//
//   up[quad][lane]     what a lane's two products are at most, by the limit; down: at least
//   pair               up + up <= INT16_MAX and down + down >= INT16_MIN, in all lanes
//
// A quad takes the first one behind it that makes a pair, of the next LOOK ones that are left: so
// time grows with the weights, not with their square. Where half of all would do, nearly all find
// one.
//
// Pairs pay where they save more than what the lower limit and smaller tiles cost: where two thirds
// of the quads find one.
//
// Tests: test_sim_conv_AVX2.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/sim/conv/conv_vnni.h"

#define LOOK       24
#define MOST_LIMIT 132 // few bytes are between it and what would fit, and more quads are pairs
#define LEAST      24  // quads of a segment: of fewer pairs are no faster
#define LANES      (2 * SPLIT_LANES * SPLIT_VECTORS) // of 16 bits: of each channel two

// Of the weights alone.
struct quad_reach {
    int16_t up[LANES], down[LANES];
    bool taken;
};

KERNEL(void, split_find_reach,
       (const int8_t *restrict w, size_t n_lanes, struct quad_reach *restrict ret),
       (w, n_lanes, ret))
{
    memset(ret, 0, sizeof *ret);
    for (size_t i = 0; i < n_lanes; i++) {
        int16_t first = w[2 * i], second = w[2 * i + 1];
        int16_t up = (int16_t)((first > 0 ? first : 0) + (second > 0 ? second : 0));
        ret->up[i] = up;
        ret->down[i] = (int16_t)(first + second - up);
    }
}

KERNEL(bool, split_is_pair,
       (const struct quad_reach *a, const struct quad_reach *b, int16_t most, int16_t least),
       (a, b, most, least))
{
    int16_t up = 0, down = 0;
    for (size_t i = 0; i < LANES; i++) {
        int16_t high = (int16_t)(a->up[i] + b->up[i]), low = (int16_t)(a->down[i] + b->down[i]);
        up = high > up ? high : up;
        down = low < down ? low : down;
    }
    return up <= most && down >= least;
}

// The quad that makes a pair with quad q; n: there is none.
static size_t split_find_other(const struct quad_reach *all, size_t n, size_t q, uint8_t limit)
{
    const int16_t most = (int16_t)(INT16_MAX / limit), least = (int16_t)(INT16_MIN / limit);
    size_t looked = 0;
    for (size_t k = q + 1; k < n && looked < LOOK; k++) {
        if (all[k].taken)
            continue;
        if (split_is_pair(&all[q], &all[k], most, least))
            return k;
        looked++;
    }
    return n;
}

// The order of n quads: those of pairs behind each other, then the others. Returns how many pairs.
static uint32_t split_order_quads(struct quad_reach *all, size_t n, uint8_t limit, uint32_t *order)
{
    uint32_t pairs = 0;
    size_t last = n;
    for (size_t q = 0; q < n; q++) {
        if (all[q].taken)
            continue;
        size_t other = split_find_other(all, n, q, limit);
        if (other == n) {
            order[--last] = (uint32_t)q;
            continue;
        }
        all[other].taken = true;
        order[2 * pairs] = (uint32_t)q;
        order[2 * pairs++ + 1] = (uint32_t)other;
    }
    return pairs;
}

// The order of a block's quads. Returns how many pairs, of all segments.
static size_t split_match_block(const struct conv_vnni *v, struct vnni_block *b, uint8_t limit,
                                struct quad_reach *all)
{
    const size_t quad = b->n_vectors * v->lanes * 4;
    size_t pairs = 0;
    for (size_t i = 0; i < v->n_segments; i++) {
        const uint8_t *weights = b->weights + i * v->quads * quad;
        for (size_t q = 0; q < v->quads; q++)
            split_find_reach((const int8_t *)weights + q * quad, quad / 2, &all[q]);
        b->order.pairs[i] = split_order_quads(all, v->quads, limit, b->order.at + i * v->quads);
        pairs += b->order.pairs[i];
    }
    return pairs;
}

// Puts a block's weights in their order. `copy`: room for a segment's.
static void split_sort_block(const struct conv_vnni *v, struct vnni_block *b, uint8_t *copy)
{
    const size_t quad = b->n_vectors * v->lanes * 4, n = v->quads;
    uint8_t *weights = (uint8_t *)b->weights;
    uint32_t *at = b->order.at, *places = b->order.places;
    for (size_t k = 0; k < v->n_segments; k++, weights += n * quad, at += n, places += n) {
        memcpy(copy, weights, n * quad);
        for (size_t i = 0; i < n; i++) {
            memcpy(weights + i * quad, copy + at[i] * quad, quad);
            places[at[i]] = (uint32_t)i;
            at[i] *= 4;
        }
    }
}

static int split_make_orders(struct step *s, struct conv_vnni *v, struct error *e)
{
    const size_t n = v->n_segments * v->quads;
    for (size_t i = 0; i < v->n_blocks; i++) {
        struct split_order *o = &v->blocks[i].order;
        o->pairs = step_alloc(s, v->n_segments, sizeof *o->pairs);
        o->at = step_alloc(s, n, sizeof *o->at);
        o->places = step_alloc(s, n, sizeof *o->places);
        if (!o->pairs || !o->at || !o->places)
            return error_no_memory(e, "a weight", n * sizeof *o->at);
    }
    return 0;
}

// Of all blocks, with scratch memory for a segment. False: pairs are too few.
static bool split_match_blocks(struct conv_vnni *v, uint8_t limit, struct quad_reach *all,
                               uint8_t *copy)
{
    size_t pairs = 0;
    for (size_t i = 0; i < v->n_blocks; i++)
        pairs += split_match_block(v, &v->blocks[i], limit, all);
    if (3 * pairs < v->n_blocks * v->n_segments * v->quads)
        return false;
    for (size_t i = 0; i < v->n_blocks; i++)
        split_sort_block(v, &v->blocks[i], copy);
    return true;
}

int conv_split_match(struct step *s, struct conv_vnni *v, struct error *e)
{
    const uint8_t limit = v->limit < UINT8_MAX && v->limit > MOST_LIMIT ? MOST_LIMIT : v->limit;
    const size_t most = v->quads * 4 * v->lanes * v->max_vectors; // of a segment's weights
    if (v->quads < LEAST)
        return 0;
    cleanup(free_p) struct quad_reach *all = calloc(v->quads, sizeof *all);
    cleanup(free_p) uint8_t *copy = malloc(most);
    if (!all || !copy)
        return error_no_memory(e, "a weight", most);
    int r = split_make_orders(s, v, e);
    if (r < 0)
        return r;
    v->paired = split_match_blocks(v, limit, all, copy);
    v->limit = v->paired ? limit : v->limit;
    return 0;
}
