// Windows over an image (pool.h).
#include "npu/sim/ops/pool/pool.h"

// Taps are looked at one by one: windows are small.
struct span pool_span(const struct graph_window *w, int i, uint32_t out, uint32_t size)
{
    struct span s = {.start = (int64_t)out * w->stride[i] - w->pad[i]};
    bool any = false;
    for (uint32_t k = 0; k < w->kernel[i]; k++) {
        int64_t at = s.start + (int64_t)k * w->dilation[i];
        s.padded += at < (int64_t)size + w->pad[2 + i];
        if (at < 0 || at >= size)
            continue;
        s.first = any ? s.first : k;
        s.last = k + 1;
        any = true;
    }
    return s;
}

const uint8_t *pool_line(const struct window_at *at, uint32_t ky)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    int64_t iy = at->y.start + (int64_t)ky * at->s->node->window.dilation[0];
    return at->image + iy * x->dims[3] * x->dims[1] * (int64_t)tensor_type_size(x->type);
}

const uint8_t *pool_pixel(const struct window_at *at, uint32_t ky, uint32_t kx)
{
    const struct graph_tensor *x = step_input(at->s, 0);
    int64_t ix = at->x.start + (int64_t)kx * at->s->node->window.dilation[1];
    return pool_line(at, ky) + ix * x->dims[1] * (int64_t)tensor_type_size(x->type);
}

float pool_mean_factor(const struct window_at *at)
{
    uint32_t count = at->s->node->window.count_pad ? at->y.padded * at->x.padded : pool_inside(at);
    return count ? 1 / (float)count : 0;
}
