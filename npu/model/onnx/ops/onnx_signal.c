// Spectra (DFT, STFT) and the windows for them. A transform of known length is a product with a
// matrix of cosines and sines, and one of frames a convolution of one dimension whose weight is
// that matrix, its rows times the window. Angles are computed as doubles.
#include <math.h>

#include "npu/model/onnx/onnx_maker.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

// ---- windows ----

// Known at once: a0 - a1 cos(2πn/N) + a2 cos(4πn/N), N the size, or one less where it is symmetric.
int onnx_lower_window(struct onnx_lowering *l, struct error *e)
{
    static const double terms[][3] = {
        {.5, .5, 0}, {25. / 46, 21. / 46, 0}, {.42, .5, .08}}; // Hann, Hamming, Blackman
    const double *a = terms[l->operator->argument];
    int64_t size[ONNX_MAX_SHAPE];
    uint32_t n;
    int r = onnx_in_ints(l, 0, size, &n, e);
    if (r < 0)
        return r;
    if (n != 1 || size[0] < 1 || size[0] > 1 << 24 ||
        onnx_int(l, "output_datatype", ONNX_FLOAT) != ONNX_FLOAT)
        return onnx_refuse(l, e, "a window of floats of 1 to 2^24 elements is supported");
    const uint32_t dim = (uint32_t)size[0];
    double whole = onnx_int(l, "periodic", 1) || dim == 1 ? dim : dim - 1;
    l->folded += dim * sizeof(float);
    if (l->folded > ONNX_FOLDED_MAX)
        return onnx_refuse(l, e, "the model's computed constants are too large");
    float *v = pool_alloc(&l->g->pool, dim, sizeof *v);
    if (!v)
        return error_no_memory(e, "a window", dim * sizeof *v);
    for (uint32_t i = 0; i < dim; i++)
        v[i] = (float)(a[0] - a[1] * cos(2 * M_PI * i / whole) + a[2] * cos(4 * M_PI * i / whole));
    r = onnx_shape(l, 0, TENSOR_FLOAT32, 1, &dim, e);
    return r < 0 ? r : onnx_known(l, 0, v, e);
}

// ---- matrices ----

// cos and sin of -2π · i · k / n; i · k is reduced first, so that the angle stays exact.
static void angle_parts(uint64_t i, uint64_t k, uint64_t n, bool inverse, double *c, double *s)
{
    double angle = 2 * M_PI * (double)(i * k % n) / (double)n;
    *c = cos(angle);
    *s = inverse ? sin(angle) : -sin(angle);
}

// Counted with what was computed for the model. NULL after a failure.
static float *matrix_new(struct onnx_maker *m, uint64_t rows, uint64_t columns)
{
    if (rows > 1 << 24 || columns > 1 << 24)
        onnx_made_refuse(m, "its matrix of cosines is too large");
    return onnx_made_room(m, rows * columns, sizeof(float));
}

// A whole number of input i, which must be known; `otherwise` where it is left out.
static int64_t whole_input(struct onnx_maker *m, uint32_t i, int64_t otherwise)
{
    int64_t v[ONNX_MAX_SHAPE] = {0};
    uint32_t n = 0;
    const char *name = onnx_made_input(m, i);
    const struct graph_tensor *t = name ? onnx_made_tensor(m, name) : NULL;
    if (!name || m->r < 0)
        return otherwise;
    if (!t->constant || graph_tensor_ints(t, v, ONNX_MAX_SHAPE, &n, NULL) < 0 || n != 1)
        onnx_made_refuse(m, "its lengths, steps and axes must be single constants");
    return m->r < 0 ? otherwise : v[0];
}

// ---- DFT ----

// Of n elements of 1 (real) or 2 numbers, of which the first `length` count: [n · parts, bins · 2].
static const char *dft_matrix(struct onnx_maker *m, uint64_t n, uint64_t parts, uint64_t length,
                              uint64_t bins, bool inverse)
{
    float *v = matrix_new(m, n * parts, bins * 2);
    double by = inverse ? 1. / (double)length : 1, c, s;
    for (uint64_t i = 0; v && i < n; i++)
        for (uint64_t k = 0; k < bins; k++) {
            float *real = v + i * parts * bins * 2 + k * 2, *imaginary = real + bins * 2;
            angle_parts(i, k, length, inverse, &c, &s);
            c = i < length ? c * by : 0;
            s = i < length ? s * by : 0;
            real[0] = (float)c;
            real[1] = (float)s;
            if (parts == 2) {
                imaginary[0] = (float)-s;
                imaginary[1] = (float)c;
            }
        }
    return onnx_step_floats(m, v, 2,
                            (const uint32_t[]){(uint32_t)(n * parts), (uint32_t)(bins * 2)});
}

// (x [..., 1 or 2], length, axis from operator set 20 on)
int onnx_make_dft(struct onnx_maker *m)
{
    bool newer = m->l->f->opset >= 20;
    onnx_made_allow(m, newer ? "inverse onesided" : "axis inverse onesided", newer ? 3 : 2);
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    if (!x || x->type != TENSOR_FLOAT32 || x->n_dims < 2 || x->n_dims > GRAPH_MAX_DIMS ||
        (x->dims[x->n_dims - 1] != 1 && x->dims[x->n_dims - 1] != 2)) {
        onnx_made_refuse(m, "it works on floats whose last dimension is 1 or 2");
        return m->r;
    }
    const struct graph_tensor t = *x;
    int64_t perm[GRAPH_MAX_DIMS], dims[GRAPH_MAX_DIMS], last = t.n_dims - 1;
    m->l->node = m->of;
    bool inverse = onnx_int(m->l, "inverse", 0), half = onnx_int(m->l, "onesided", 0);
    int64_t axis = newer ? whole_input(m, 2, -2) : onnx_int(m->l, "axis", 1);
    axis += axis < 0 ? t.n_dims : 0;
    if (axis < 0 || axis >= last || (half && (inverse || t.dims[last] == 2))) {
        onnx_made_refuse(m, "its axis is not one of its signal's, or onesided is not of real "
                            "numbers and forward");
        return m->r;
    }
    int64_t length = whole_input(m, 1, t.dims[axis]);
    if (length < 1 || length > 1 << 24) {
        onnx_made_refuse(m, "a length of 1 to 2^24 is supported");
        return m->r;
    }
    int64_t bins = half ? length / 2 + 1 : length;
    // The axis goes in front of the last dimension, and comes back.
    for (int64_t i = 0; i <= last; i++)
        perm[i] = i < axis || i == last ? i : i == last - 1 ? axis : i + 1;
    const char *y = onnx_step_transposed(m, onnx_made_input(m, 0), perm, t.n_dims, NULL);
    for (int64_t i = 0; i < last - 1; i++)
        dims[i] = t.dims[perm[i]];
    dims[last - 1] = (int64_t)t.dims[axis] * t.dims[last];
    y = onnx_step_reshaped(m, y, dims, t.n_dims - 1, NULL);
    const char *matrix =
        dft_matrix(m, t.dims[axis], t.dims[last], (uint64_t)length, (uint64_t)bins, inverse);
    y = onnx_step(m, "MatMul", ONNX_IN(y, matrix), NULL, NULL, 0);
    dims[last - 1] = bins;
    dims[last] = 2;
    y = onnx_step_reshaped(m, y, dims, t.n_dims, NULL);
    for (int64_t i = 0; i <= last; i++)
        perm[i] = i < axis || i == last ? i : i == axis ? last - 1 : i - 1;
    onnx_step_transposed(m, y, perm, t.n_dims, onnx_made_output(m, 0));
    return m->r;
}

// ---- STFT ----

// [bins · 2, 1, length], real and imaginary part of a bin one behind the other.
static const char *stft_weight(struct onnx_maker *m, uint64_t length, uint64_t bins,
                               const float *window)
{
    float *v = matrix_new(m, bins * 2, length);
    for (uint64_t k = 0; v && k < bins; k++)
        for (uint64_t i = 0; i < length; i++) {
            double c, s, w = window ? (double)window[i] : 1;
            angle_parts(i, k, length, false, &c, &s);
            v[k * 2 * length + i] = (float)(w * c);
            v[(k * 2 + 1) * length + i] = (float)(w * s);
        }
    return onnx_step_floats(m, v, 3, (const uint32_t[]){(uint32_t)(bins * 2), 1, (uint32_t)length});
}

// (signal [batch, samples, 1], step of frames, window, length of frames) -> [batch, frames, bins,
// 2]
int onnx_make_stft(struct onnx_maker *m)
{
    onnx_made_allow(m, "onesided", 4);
    const char *name = onnx_made_input(m, 2);
    const struct graph_tensor *x = onnx_made_tensor(m, onnx_made_input(m, 0));
    if (!x || x->type != TENSOR_FLOAT32 || x->n_dims < 2 || x->n_dims > 3 ||
        (x->n_dims == 3 && x->dims[2] != 1)) {
        onnx_made_refuse(m, "it works on real signals of floats");
        return m->r;
    }
    const int64_t dims[3] = {x->dims[0], 1, x->dims[1]};
    const struct graph_tensor *window = name ? onnx_made_tensor(m, name) : NULL;
    if (window && (!window->constant || window->type != TENSOR_FLOAT32 || window->n_dims != 1)) {
        onnx_made_refuse(m, "its window must be a constant of floats");
        return m->r;
    }
    int64_t length = whole_input(m, 3, window ? (int64_t)window->n_elems : dims[2]);
    int64_t step = whole_input(m, 1, 0);
    if (step < 1 || length < 1 || length > dims[2] || length > UINT16_MAX || step > UINT16_MAX ||
        (window && (uint64_t)length != window->n_elems)) {
        onnx_made_refuse(m, "its frames are longer than the signal or 65535, or not as long as its "
                            "window");
        return m->r;
    }
    float *w = NULL;
    if (window && (w = matrix_new(m, 1, (uint64_t)length)))
        memcpy(w, window->data.data, (size_t)length * sizeof *w); // of a file, it may lie anywhere
    m->l->node = m->of;
    int64_t bins = onnx_int(m->l, "onesided", 1) ? length / 2 + 1 : length;
    const char *weight = stft_weight(m, (uint64_t)length, (uint64_t)bins, w);
    const struct onnx_attr strides = {.name = "strides", .ints = {&step, 1, 0}};
    const char *y = onnx_step_reshaped(m, onnx_made_input(m, 0), dims, 3, NULL);
    y = onnx_step(m, "Conv", ONNX_IN(y, weight), NULL, &strides, 1);
    y = onnx_step_transposed(m, y, (const int64_t[]){0, 2, 1}, 3, NULL);
    const int64_t frames[4] = {dims[0], (dims[2] - length) / step + 1, bins, 2};
    onnx_step_reshaped(m, y, frames, 4, onnx_made_output(m, 0));
    return m->r;
}
