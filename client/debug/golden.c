// Comparing runs layer by layer: rknnd_golden_new() keeps what one model computes,
// rknnd_compare_layers() compares another's tensors with it, by name and number of elements.
//
//     tensor ─► float32 ─┬─► distance from golden                     how good the result is
//                        └─► distance from golden as stored in the    what the kernels add to the
//                            tensor's own type                        error of quantization
//
// For x (this run) and g (golden):
//
//     cosine = x.g / (|x| |g|)   euclidean = |x - g|   relative = |x - g| / |g|
//     gain = x.g / g.g           largest = max |x - g|
//
// Everything runs in the callbacks of rknnd_dump_layers(), one tensor at a time.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/each_cpu.h"
#include "base/fd.h"
#include "client/last_error.h"
#include "client/sized.h"
#include "rknnd.h"

struct kept {
    char *name;
    uint32_t n_elems;
    uint64_t offset; // of its floats in the file
};

// The values are in an unnamed temporary file: all tensors of a model may be more than fits memory.
struct rknnd_golden {
    int fd;
    uint64_t size;
    struct kept *tensors;
    size_t n, capacity;
};

struct floats {
    float *values;
    size_t capacity;
};

static int floats_reserve(struct floats *f, size_t n, struct error *e)
{
    if (n <= f->capacity)
        return 0;
    free(f->values);
    f->capacity = 0;
    f->values = calloc(n, sizeof *f->values);
    if (!f->values)
        return error_no_memory(e, "a tensor", n * sizeof *f->values);
    f->capacity = n;
    return 0;
}

// One more element than needed, so that a tensor without elements has an address, too.
static int to_floats(const rknnd_tensor *t, struct floats *f, struct error *e)
{
    int r = floats_reserve(f, (size_t)t->n_elems + 1, e);
    if (r == 0 && (r = rknnd_tensor_to_float(t, f->values)) < 0)
        error_set(e, status_from_peer(r), "tensor %s: %s", t->name, rknnd_last_error());
    return r;
}

// ---- the file ----------------------------------------------------------------------------------

// /var/tmp and not /tmp, which often is memory. O_TMPFILE: the file is gone with its descriptor.
static int open_file(int *ret, struct error *e)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/var/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "no file for the tensors can be made in %s (TMPDIR chooses the "
                               "folder)",
                               folder);
    *ret = fd;
    return 0;
}

// Reads or writes exactly `size` bytes.
static int golden_transfer(int fd, bool out, void *data, size_t size, uint64_t offset,
                           struct error *e)
{
    for (uint8_t *at = data; size > 0;) {
        ssize_t n = out ? pwrite(fd, at, size, (off_t)offset) : pread(fd, at, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set_errno(e, STATUS_FAIL, errno, "the file of the tensors (in TMPDIR)");
        at += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

// ---- keeping -----------------------------------------------------------------------------------

struct keeping {
    struct rknnd_golden *golden;
    struct floats floats;
    struct error error;
};

static int golden_add(struct rknnd_golden *g, const rknnd_tensor *t, struct error *e)
{
    int r = array_reserve(g->tensors, g->capacity, g->n + 1, "a list of tensors", e);
    if (r < 0)
        return r;
    char *name = strdup(t->name);
    if (!name)
        return error_no_memory(e, "a tensor's name", strlen(t->name));
    g->tensors[g->n++] = (struct kept){name, t->n_elems, g->size};
    g->size += (uint64_t)t->n_elems * sizeof(float);
    return 0;
}

static int on_golden_tensor(void *user, const rknnd_tensor *t)
{
    struct keeping *k = user;
    uint64_t offset = k->golden->size;
    int r = to_floats(t, &k->floats, &k->error);
    if (r == 0)
        r = golden_transfer(k->golden->fd, true, k->floats.values, t->n_elems * sizeof(float),
                            offset, &k->error);
    return r < 0 ? r : golden_add(k->golden, t, &k->error);
}

RKNN_EXPORT int rknnd_golden_new(rknn_context context, rknnd_golden **golden)
{
    struct keeping k = {0};
    if (!golden)
        error_set(&k.error, STATUS_PARAM_INVALID, "golden is NULL");
    else if (!(k.golden = calloc(1, sizeof *k.golden)))
        error_no_memory(&k.error, "a run's tensors", sizeof *k.golden);
    if (!golden || !k.golden)
        return last_error_keep("rknnd_golden_new", k.error.code, &k.error);
    k.golden->fd = -1;
    int r = open_file(&k.golden->fd, &k.error);
    if (r == 0 && (r = rknnd_dump_layers(context, NULL, on_golden_tensor, &k)) < 0 && !k.error.code)
        error_set(&k.error, status_from_peer(r), "%s", rknnd_last_error());
    free(k.floats.values);
    if (r == 0)
        *golden = k.golden;
    else
        rknnd_golden_free(k.golden);
    return last_error_keep("rknnd_golden_new", r, &k.error);
}

RKNN_EXPORT void rknnd_golden_free(rknnd_golden *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++)
        free(g->tensors[i].name);
    free(g->tensors);
    if (g->fd >= 0)
        close(g->fd);
    free(g);
}

// ---- comparing ---------------------------------------------------------------------------------

struct comparing {
    const struct rknnd_golden *golden;
    rknnd_compare_options options;
    rknnd_comparison_callback *callback;
    void *user;
    struct floats floats, golden_floats, stored_floats;
    void *stored; // golden values as a tensor's type stores them
    size_t stored_size;
    rknnd_distance from_golden, from_stored; // of the tensor that is shown
    struct error error;
    bool failed; // with `error`; else the program has ended it
};

static const char *golden_name(const rknnd_compare_options *o, const char *name)
{
    for (uint32_t i = 0; o->pairs && i < o->pairs->n; i++) {
        const rknnd_name_pair *pair = rknnd_name_pair_at(o->pairs, i);
        if (strcmp(pair->name, name) == 0)
            return pair->golden;
    }
    return name;
}

// The last one of this name: a file may compute a name again.
static const struct kept *golden_find(const struct rknnd_golden *g, const char *name,
                                      uint32_t n_elems)
{
    for (size_t i = g->n; i-- > 0;)
        if (g->tensors[i].n_elems == n_elems && strcmp(g->tensors[i].name, name) == 0)
            return &g->tensors[i];
    return NULL;
}

// Sums side by side, as two vectors of each kind: of one each addition waits for the one before.
#define LANES 4
typedef float lane_floats __attribute__((vector_size(LANES * sizeof(float))));
typedef double lane_doubles __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t lane_bits __attribute__((vector_size(LANES * sizeof(int64_t))));

struct distance_sums {
    lane_doubles xx, gg, xg, dd, largest;
};

static inline __attribute__((always_inline)) void distance_add(struct distance_sums *s,
                                                               const float *x, const float *g)
{
    lane_floats p, q;
    memcpy(&p, x, sizeof p);
    memcpy(&q, g, sizeof q);
    lane_doubles a = __builtin_convertvector(p, lane_doubles);
    lane_doubles b = __builtin_convertvector(q, lane_doubles), d = a - b;
    s->xx += a * a;
    s->gg += b * b;
    s->xg += a * b;
    s->dd += d * d;
    lane_bits off = (lane_bits)d & INT64_MAX, most = (lane_bits)s->largest;
    lane_bits farther = (lane_doubles)off > s->largest;
    s->largest = (lane_doubles)((off & farther) | (most & ~farther));
}

// Sums are of doubles. Where g is 0 everywhere, quotients have the value that says whether x is,
// too.
FOR_EACH_CPU static rknnd_distance golden_distance(const float *x, const float *g, size_t n)
{
    double xx = 0, gg = 0, xg = 0, dd = 0, largest = 0;
    struct distance_sums even = {0}, odd = {0};
    float last[2][2 * LANES] = {0}; // zeros behind the end change nothing
    size_t i = 0;
    for (; n - i >= 2 * LANES; i += 2 * LANES) {
        distance_add(&even, x + i, g + i);
        distance_add(&odd, x + i + LANES, g + i + LANES);
    }
    memcpy(last[0], x + i, (n - i) * sizeof *x);
    memcpy(last[1], g + i, (n - i) * sizeof *g);
    distance_add(&even, last[0], last[1]);
    distance_add(&odd, last[0] + LANES, last[1] + LANES);
    for (size_t k = 0; k < LANES; k++) {
        xx += even.xx[k] + odd.xx[k];
        gg += even.gg[k] + odd.gg[k];
        xg += even.xg[k] + odd.xg[k];
        dd += even.dd[k] + odd.dd[k];
        largest = fmax(largest, fmax(even.largest[k], odd.largest[k]));
    }
    bool zero = xx == 0 || gg == 0;
    return (rknnd_distance){.struct_size = sizeof(rknnd_distance),
                            .cosine = zero ? (double)(xx == gg) : xg / (sqrt(xx) * sqrt(gg)),
                            .euclidean = sqrt(dd),
                            .relative = gg > 0   ? sqrt(dd / gg)
                                        : dd > 0 ? INFINITY
                                                 : 0,
                            .gain = gg > 0   ? xg / gg
                                    : xx > 0 ? INFINITY
                                             : 1,
                            .largest = largest};
}

static int reserve_stored(struct comparing *c, size_t size, struct error *e)
{
    if (size <= c->stored_size)
        return 0;
    free(c->stored);
    c->stored_size = 0;
    c->stored = malloc(size);
    if (!c->stored)
        return error_no_memory(e, "a tensor", size);
    c->stored_size = size;
    return 0;
}

// Rounds the golden values to the tensor's type and compares with those. Index tensors (integers
// without scale) take no real numbers, and floats take them as they are: then it is the same
// distance.
static int compare_stored(struct comparing *c, rknnd_comparison *ret, struct error *e)
{
    rknnd_tensor t = *ret->tensor;
    c->from_stored = c->from_golden;
    if (t.type == RKNN_TENSOR_FLOAT32 && t.qnt_type == RKNN_TENSOR_QNT_NONE)
        return 0;
    int r = reserve_stored(c, (size_t)t.size + 1, e);
    t.data = c->stored;
    if (r < 0 || rknnd_tensor_from_float(&t, ret->golden) < 0)
        return r;
    r = to_floats(&t, &c->stored_floats, e);
    if (r == 0)
        c->from_stored = golden_distance(ret->values, c->stored_floats.values, t.n_elems);
    return r;
}

static int compare_with(struct comparing *c, const struct kept *kept, rknnd_comparison *ret,
                        struct error *e)
{
    struct floats *g = &c->golden_floats;
    int r = floats_reserve(g, (size_t)kept->n_elems + 1, e);
    if (r == 0)
        r = golden_transfer(c->golden->fd, false, g->values, kept->n_elems * sizeof(float),
                            kept->offset, e);
    if (r < 0)
        return r;
    ret->golden_name = kept->name;
    ret->golden = g->values;
    ret->distance = &c->from_golden;
    c->from_golden = golden_distance(ret->values, g->values, kept->n_elems);
    if (c->options.without_stored)
        return 0;
    ret->stored = &c->from_stored;
    return compare_stored(c, ret, e);
}

// A tensor without a golden counterpart is shown with its own values only.
static int on_tensor(void *user, const rknnd_tensor *t)
{
    struct comparing *c = user;
    rknnd_comparison shown = {.struct_size = sizeof shown, .tensor = t};
    const struct kept *kept = golden_find(c->golden, golden_name(&c->options, t->name), t->n_elems);
    int r = to_floats(t, &c->floats, &c->error);
    shown.values = c->floats.values;
    if (r == 0 && kept)
        r = compare_with(c, kept, &shown, &c->error);
    if (r < 0) {
        c->failed = true;
        return r;
    }
    r = c->callback(c->user, &shown);
    // Golden values go back into the run, so that each layer's own error is seen. Index tensors
    // take no real numbers and stay as they were computed.
    if (r >= 0 && kept && c->options.single)
        rknnd_tensor_from_float(t, shown.golden);
    return r < 0 ? r : 0;
}

// The list is the program's memory, in its version of the structs.
static int check_pairs(const rknnd_list *pairs, struct error *e)
{
    rknnd_name_pair pair;
    int r = 0;
    if (pairs->struct_size < sizeof *pairs || (pairs->n && !pairs->items) ||
        pairs->stride < sizeof pair.struct_size || pairs->stride % _Alignof(rknnd_name_pair))
        return error_set(e, STATUS_PARAM_INVALID, "its struct_size, stride or items is not set");
    for (uint32_t i = 0; i < pairs->n && r == 0; i++) {
        const rknnd_name_pair *theirs = rknnd_name_pair_at(pairs, i);
        if (theirs->struct_size > pairs->stride)
            return error_set(e, STATUS_PARAM_INVALID, "pair %u is larger than the stride", i);
        r = sized_take(&pair, sizeof pair, theirs, e);
        if (r == 0 && (!pair.name || !pair.golden))
            r = error_set(e, STATUS_PARAM_INVALID, "pair %u has no name", i);
    }
    return r;
}

static int take_options(rknnd_compare_options *ret, const rknnd_compare_options *theirs,
                        struct error *e)
{
    int r = sized_take(ret, sizeof *ret, theirs, e);
    if (r == 0 && ret->pairs && check_pairs(ret->pairs, e) < 0)
        r = error_prefix(e, "the list of names");
    return r;
}

RKNN_EXPORT int rknnd_compare_layers(rknn_context context, const rknnd_golden *golden,
                                     const rknnd_compare_options *options,
                                     rknnd_comparison_callback *callback, void *user)
{
    struct comparing c = {.golden = golden, .callback = callback, .user = user};
    int r = golden && callback
                ? 0
                : error_set(&c.error, STATUS_PARAM_INVALID, "golden or callback is NULL");
    if (r == 0 && options)
        r = take_options(&c.options, options, &c.error);
    if (r < 0)
        return last_error_keep("rknnd_compare_layers", r, &c.error);
    r = c.options.single ? rknnd_replace_layers(context, NULL, on_tensor, &c)
                         : rknnd_dump_layers(context, NULL, on_tensor, &c);
    free(c.floats.values);
    free(c.golden_floats.values);
    free(c.stored_floats.values);
    free(c.stored);
    return r < 0 && c.failed ? last_error_keep("rknnd_compare_layers", r, &c.error) : r;
}
