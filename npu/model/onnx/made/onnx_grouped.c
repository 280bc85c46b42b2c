// GroupQueryAttention of ONNX Runtime's domain: attention of decoders, whose keys and values lie
// behind those of earlier runs.
//
//      past [batch, heads, room, size], of which each batch has `ends` - length in use
//      new  [batch, heads, length, size], which go behind them
//      present [batch, heads, total or room, size]: both, then zeros
//
// All of that follows from how many tokens each batch has in the end, which a run may decide; where
// the file does, what is computed of it here becomes constants.
#include "npu/model/onnx/onnx_maker.h"

struct grouped {
    int64_t batch, length, heads, shared, size;
    int64_t room, total;                     // of the past; of all keys
    bool prompt;                             // nothing is in front of the new ones
    bool known;                              // every batch has its past full
    const char *ends;                        // [batch, 1]: tokens of each batch, with the new ones
    const char *before;                      // [batch, 1]: those in front of the new ones
    const char *places;                      // [batch, length]: of the new ones
    const char *q, *k, *v, *past_k, *past_v; // heads; past: NULL without
};

static const char *number(struct onnx_maker *m, int64_t v)
{
    return onnx_step_ints(m, &v, 1);
}

// Whether a constant of whole numbers is v everywhere.
static bool is_everywhere(struct onnx_maker *m, const char *name, int64_t v)
{
    const struct graph_tensor *t = onnx_made_tensor(m, name);
    int64_t found[ONNX_MAX_SHAPE];
    uint32_t n = 0;
    if (!t || !t->constant || t->n_elems > ONNX_MAX_SHAPE ||
        graph_tensor_ints(t, found, ONNX_MAX_SHAPE, &n, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (found[i] != v)
            return false;
    return true;
}

// ---- queries, keys and values ----

// One input has all three side by side where the others are left out.
static void split_inputs(struct onnx_maker *m, struct grouped *g)
{
    const char *in[3] = {onnx_made_input(m, 0), onnx_made_input(m, 1), onnx_made_input(m, 2)};
    const struct graph_tensor *t = onnx_made_tensor(m, in[0]);
    g->heads = onnx_made_int(m, "num_heads", 0);
    g->shared = onnx_made_int(m, "kv_num_heads", 0);
    const bool known =
        g->heads >= 1 && g->shared >= 1 && g->heads <= INT32_MAX && g->shared <= INT32_MAX;
    const int64_t rows = known ? g->heads + (in[1] ? 0 : 2 * g->shared) : 0;
    if (!known || !t || t->n_dims != 3 || !in[1] != !in[2] || t->dims[2] % rows || !t->n_elems) {
        onnx_made_refuse(m, "its queries, keys and values do not fit its heads");
        return;
    }
    g->batch = t->dims[0];
    g->length = t->dims[1];
    g->size = t->dims[2] / rows;
    if (!in[1]) {
        const int64_t k = g->heads * g->size, v = k + g->shared * g->size;
        in[1] = onnx_step_sliced(m, in[0], 2, k, v, 1);
        in[2] = onnx_step_sliced(m, in[0], 2, v, INT64_MAX, 1);
        in[0] = onnx_step_sliced(m, in[0], 2, 0, k, 1);
    }
    g->q = onnx_split_heads(m, in[0], g->heads);
    g->k = onnx_split_heads(m, in[1], g->shared);
    g->v = onnx_split_heads(m, in[2], g->shared);
}

// An empty past is none.
static const char *past_of(struct onnx_maker *m, const struct grouped *g, uint32_t i,
                           int64_t *ret_room)
{
    const char *past = onnx_made_input(m, i);
    const struct graph_tensor *t = past ? onnx_made_tensor(m, past) : NULL;
    *ret_room = t && t->n_dims == 4 ? t->dims[2] : 0;
    if (t && (t->n_dims != 4 || t->dims[0] != g->batch || t->dims[1] != g->shared ||
              t->dims[3] != g->size))
        onnx_made_refuse(m, "its cache does not fit its heads");
    return *ret_room ? past : NULL;
}

// ---- how long each batch is ----

// Outputs follow from the length of all keys, which therefore is known; how many of them each batch
// has may be what a run says. With the first tokens ONNX Runtime takes the cache for empty.
static void take_lengths(struct onnx_maker *m, struct grouped *g)
{
    const char *ends = onnx_made_input(m, 5), *all = onnx_made_input(m, 6);
    const struct graph_tensor *t = all ? onnx_made_tensor(m, all) : NULL,
                              *each = ends ? onnx_made_tensor(m, ends) : NULL;
    uint32_t n = 0;
    if (!each || each->n_elems != (uint64_t)g->batch || !t || !t->constant ||
        graph_tensor_ints(t, &g->total, 1, &n, NULL) < 0 || n != 1 || g->total < g->length ||
        g->total > INT32_MAX) {
        onnx_made_refuse(m, "its total_sequence_length must be a constant, at least the length of "
                            "its queries, and seqlens_k have a number for each batch");
        return;
    }
    g->prompt = g->total == g->length;
    const char *last = onnx_step_cast(m, ends, ONNX_INT64, NULL);
    last = onnx_step_reshaped(m, last, (const int64_t[]){g->batch, 1}, 2, NULL);
    g->ends = onnx_step_two(m, "Add", last, number(m, 1), NULL);
    if (g->prompt)
        g->before = onnx_step_two(m, "Mul", g->ends, number(m, 0), NULL);
    else
        g->before = onnx_step_two(m, "Sub", g->ends, number(m, g->length), NULL);
    g->places = onnx_step_two(m, "Add", g->before, onnx_step_places(m, (uint64_t)g->length), NULL);
    g->known = g->prompt ? !g->room && is_everywhere(m, g->ends, g->total)
                         : g->room + g->length == g->total && is_everywhere(m, g->ends, g->total);
}

// ---- positions ----

// Tables of [batch, length, n] for heads of [batch, heads, length, size].
static const char *turned(struct onnx_maker *m, const char *x, const char *cosines,
                          const char *sines)
{
    const struct graph_tensor *t = onnx_made_tensor(m, cosines);
    if (!t || t->n_dims != 3) {
        onnx_made_refuse(m, "its tables are not of a line for each position");
        return "";
    }
    const int64_t dims[4] = {t->dims[0], 1, t->dims[1], t->dims[2]};
    cosines = onnx_step_reshaped(m, cosines, dims, 4, NULL);
    sines = onnx_step_reshaped(m, sines, dims, 4, NULL);

    return onnx_turn_pairs(m, x, cosines, sines, onnx_made_int(m, "rotary_interleaved", 0) != 0,
                           NULL);
}

// Queries and keys alike, by places that an input may name.
static void turn(struct onnx_maker *m, struct grouped *g)
{
    const char *cosines = onnx_made_input(m, 7), *sines = onnx_made_input(m, 8),
               *places = onnx_made_input(m, 9);
    if (!onnx_made_int(m, "do_rotary", 0))
        return;
    if (!cosines || !sines) {
        onnx_made_refuse(m, "its tables of cosines and sines are missing");
        return;
    }
    places = places ? places : g->places;
    cosines = onnx_step_two(m, "Gather", cosines, places, NULL);
    sines = onnx_step_two(m, "Gather", sines, places, NULL);
    g->q = turned(m, g->q, cosines, sines);
    g->k = turned(m, g->k, cosines, sines);
}

// ---- the cache ----

// For each place of all keys, which one of past and new it is: those in front, then the new ones;
// what is behind these becomes zeros.
static const char *places_of_all(struct onnx_maker *m, const struct grouped *g, int64_t length)
{
    const char *at = onnx_step_places(m, (uint64_t)length);
    const char *is_past = onnx_step_two(m, "Less", at, g->before, NULL); // [batch, length]
    const char *new = onnx_step_two(m, "Sub", at, g->before, NULL);
    new = onnx_step_two(m, "Min", new, number(m, g->length - 1), NULL);
    new = onnx_step_two(m, "Add", new, number(m, g->room), NULL);
    return onnx_step(m, "Where", ONNX_IN(is_past, at, new), NULL, NULL, 0);
}

// All keys, or values. Where caches are full they are joined, else gathered by place.
static const char *behind(struct onnx_maker *m, const struct grouped *g, const char *past,
                          const char *x, int64_t length, const char *out)
{
    const struct onnx_attr axis = {.name = "axis", .i = 2};
    if (g->known)
        return past  ? onnx_step_joined(m, past, x, 2, out)
               : out ? onnx_step_one(m, "Identity", x, out)
                     : x;
    const int64_t line[4] = {g->batch, 1, length, 1},
                  whole[4] = {g->batch, g->shared, length, g->size};
    const char *both = past ? onnx_step_joined(m, past, x, 2, NULL) : x;
    const char *at = onnx_step_reshaped(m, places_of_all(m, g, length), line, 4, NULL);
    at = onnx_step_two(m, "Expand", at, onnx_step_ints(m, whole, 4), NULL);
    const char *all = onnx_step(m, "GatherElements", ONNX_IN(both, at), NULL, &axis, 1);
    const char *used =
        onnx_step_two(m, "Less", onnx_step_places(m, (uint64_t)length), g->ends, NULL);
    used = onnx_step_reshaped(m, used, line, 4, NULL);
    return onnx_step(m, "Where", ONNX_IN(used, all, onnx_step_like(m, 0, all)), out, NULL, 0);
}

// Each query sees the keys up to its own place, and so many of the last of these.
static const char *seen_of(struct onnx_maker *m, const struct grouped *g, int64_t length,
                           int64_t window)
{
    const int64_t own[3] = {g->batch, g->length, 1}, dims[4] = {g->batch, 1, g->length, length};
    const char *at = onnx_step_places(m, (uint64_t)length);
    const char *place = onnx_step_reshaped(m, g->places, own, 3, NULL);
    const char *seen = onnx_step_two(m, "LessOrEqual", at, place, NULL);
    if (window >= 0) {
        const char *from = onnx_step_two(m, "Sub", place, number(m, window), NULL);
        seen = onnx_step_two(m, "And", seen, onnx_step_two(m, "Greater", at, from, NULL), NULL);
    }
    return onnx_step_reshaped(m, seen, dims, 4, NULL);
}

// GroupQueryAttention(Q, K, V, past keys, values, tokens of each batch less 1, of all, cosines,
// sines, positions, what is added) -> y, keys, values
int onnx_make_grouped(struct onnx_maker *m)
{
    struct grouped g = {0};
    int64_t room_v;
    onnx_made_allow(m,
                    "num_heads kv_num_heads scale softcap do_rotary rotary_interleaved "
                    "local_window_size smooth_softmax",
                    11);
    if (onnx_made_int(m, "smooth_softmax", 0) > 0 || onnx_made_output(m, 3))
        onnx_made_refuse(m, "smooth_softmax, and its output 3, are not supported");
    split_inputs(m, &g);
    if (m->r == 0)
        g.past_k = past_of(m, &g, 3, &g.room);
    if (m->r == 0)
        g.past_v = past_of(m, &g, 4, &room_v);
    if (m->r == 0 && room_v != g.room)
        onnx_made_refuse(m, "its keys and values have caches of different lengths");
    if (m->r == 0)
        take_lengths(m, &g);
    if (m->r == 0)
        turn(m, &g);
    if (m->r < 0)
        return m->r;
    const int64_t length = g.room > g.total ? g.room : g.total;
    struct onnx_heads h = {.q = g.q,
                           .scale = onnx_made_float(m, "scale", 0),
                           .cap = onnx_made_float(m, "softcap", 0),
                           .added = {onnx_made_input(m, 10)}};
    h.k = behind(m, &g, g.past_k, g.k, length, onnx_made_output(m, 1));
    h.v = behind(m, &g, g.past_v, g.v, length, onnx_made_output(m, 2));
    h.seen = seen_of(m, &g, length, onnx_made_int(m, "local_window_size", -1));
    onnx_join_heads(m, onnx_attend(m, &h), onnx_made_output(m, 0));
    return m->r;
}
