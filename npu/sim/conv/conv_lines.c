// Lines of a convolution's image: conv_lines.h has the layout. Each line is made once per image,
// and lies in the cache when the windows over it are summed. Tests: test_sim_conv.
#include "npu/sim/conv/conv_lines.h"

#define BEHIND 3 // bytes behind a line that kernels may read: the rest of a quad

// Lines of the image from a window's first row to its last.
static size_t lines_in_window(const struct conv *c)
{
    return (size_t)c->window.dilation[0] * (c->window.kernel[0] - 1) + 1;
}

static bool segments_are_taps(const struct conv *c)
{
    return c->window.groups > 1 || (c->window.kernel[1] > 1 && c->window.dilation[1] > 1);
}

size_t conv_segments(const struct conv *c)
{
    return (size_t)c->window.kernel[0] * (segments_are_taps(c) ? c->window.kernel[1] : 1);
}

size_t conv_segment_size(const struct conv *c)
{
    return (size_t)(segments_are_taps(c) ? 1 : c->window.kernel[1]) * (c->ic / c->window.groups);
}

uint64_t conv_lines_size(const struct conv *c, size_t element, size_t more)
{
    uint64_t n = (uint64_t)c->iw + c->window.pad[1] + c->window.pad[3];
    bool too_much = __builtin_mul_overflow(n, c->ic, &n) || __builtin_add_overflow(n, more, &n) ||
                    __builtin_mul_overflow(n, element, &n);
    return too_much ? UINT64_MAX : n;
}

int conv_lines_scratch(struct step *s, const struct conv *c, uint64_t size, uint64_t *ret_at,
                       struct error *e)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(size, lines_in_window(c) + 1, &bytes))
        bytes = UINT64_MAX;
    return step_scratch(s, bytes, ret_at, e);
}

struct conv_lines conv_lines(const struct conv *c, size_t size, void *memory)
{
    return (struct conv_lines){
        .c = c, .size = size, .element = 1, .border = memory, .ring = (uint8_t *)memory + size};
}

uint64_t conv_lines_bytes_size(const struct conv *c)
{
    return conv_lines_size(c, 1, BEHIND);
}

static void conv_lines_load_bytes(const struct conv_lines *l, const int8_t *x, void *line)
{
    uint8_t *to = line;
    const struct conv *c = l->c;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    memset(to, (uint8_t)c->x_zp, before);
    memcpy(to + before, x, n);
    memset(to + before + n, (uint8_t)c->x_zp, (size_t)c->window.pad[3] * c->ic + BEHIND);
}

struct conv_lines conv_lines_of_bytes(const struct conv *c, size_t more, void *memory)
{
    struct conv_lines l = conv_lines(c, conv_lines_bytes_size(c) + more, memory);
    l.load = conv_lines_load_bytes;
    memset(l.border, (uint8_t)c->x_zp, l.size);
    return l;
}

void conv_lines_begin(struct conv_lines *l, const int8_t *image)
{
    l->image = image;
    l->loaded = 0;
}

void conv_lines_find(struct conv_lines *l, uint32_t y, const void **rows)
{
    const struct conv *c = l->c;
    const struct graph_window *w = &c->window;
    size_t n = lines_in_window(c);
    int64_t first = (int64_t)y * w->stride[0] - w->pad[0];
    for (uint32_t k = 0; k < w->kernel[0]; k++) {
        int64_t at = first + (int64_t)k * w->dilation[0];
        if (at < 0 || at >= c->ih) {
            rows[k] = l->border;
            continue;
        }
        if (!l->load) {
            rows[k] = l->image + (size_t)at * l->size;
            continue;
        }
        if (l->loaded < first)
            l->loaded = first;
        for (; l->loaded <= at; l->loaded++)
            l->load(l, l->image + (size_t)l->loaded * c->iw * c->ic * l->element,
                    l->ring + (size_t)l->loaded % n * l->size);
        rows[k] = l->ring + (size_t)at % n * l->size;
    }
}
