// Convolutions of some pixels by weights of megabytes (conv_floats.h).
//
// The last layers of large nets have few pixels and most of the weights, more than any cache near
// the processor keeps from run to run. Kernels go over a part of the weights again for each line of
// pixels: while they do the first one the processor waits for memory, and then memory waits for the
// processor. So here each block, small enough for the second cache to hold two, is computed for all
// pixels, and each line of pixels asks for its part of the next block:
//
//   block i        line 0        line 1        …   line n - 1
//   block i - 1    1st part      2nd part      …   last part       prefetched meanwhile
//
// The last channels come first, as in conv_floats.c. What lies above or below the image is left
// out: products with 0 change no sum.
//
// Tests: test_sim_fp16 (convolution by large weights).
#include "npu/sim/conv/floats/conv_floats.h"

#define MOST_PIXELS  64          // with more the weights are used often enough
#define LEAST_BYTES  (1 << 20)   // of weights: fewer stay in the second cache
#define BLOCK_BYTES  (600 << 10) // of a block's weights
#define MOST_VECTORS 3           // of a block; with 3 a tile has up to 8 pixels

bool floats_streams(const struct conv *c)
{
    uint64_t window = (uint64_t)c->window.kernel[0] * c->window.kernel[1] * c->ic;
    return floats_level()->sum_streamed && c->window.groups == 1 && c->n == 1 &&
           conv_pixels(c) <= MOST_PIXELS && window * c->oc * sizeof(float) >= LEAST_BYTES;
}

size_t floats_streamed_vectors(const struct conv *c)
{
    size_t vector = (size_t)c->window.kernel[0] * c->window.kernel[1] * c->ic *
                    floats_level()->lanes * sizeof(float);
    size_t most = BLOCK_BYTES / vector;
    return most < 1 ? 1 : most < MOST_VECTORS ? most : MOST_VECTORS;
}

static size_t streamed_line(const struct conv *c)
{
    return ((size_t)c->window.pad[1] + c->iw + c->window.pad[3]) * c->ic;
}

int floats_streamed_scratch(struct step *s, struct conv *c, struct error *e)
{
    const struct conv_floats *f = c->floats;
    uint64_t sums = f->to == FLOATS_TO_SUMS ? (uint64_t)conv_pixels(c) * c->oc + CONV_LANES : 0;
    uint64_t image = f->there ? 0 : (uint64_t)c->ih * streamed_line(c);
    int r = step_scratch(s, sums * sizeof(float), &c->sums_at, e);
    return r < 0 ? r : step_scratch(s, image * sizeof(float), &c->image_lines_at, e);
}

// All lines of the image as floats, with zeros on both sides.
static void streamed_load(const struct conv *c, const int8_t *image, float *to)
{
    const struct element_form *form = &c->floats->image;
    size_t before = (size_t)c->window.pad[1] * c->ic, n = (size_t)c->iw * c->ic;
    size_t line = streamed_line(c), element = tensor_type_size(form->type);
    for (uint32_t y = 0; y < c->ih; y++, to += line, image += n * element) {
        memset(to, 0, before * sizeof *to);
        elements_load(form, image, n, to + before);
        memset(to + before + n, 0, (line - before - n) * sizeof *to);
    }
}

// Where the window over the first pixel of output line y has its segments.
static void streamed_find_segments(const struct conv *c, const float *image, uint32_t y,
                                   struct floats_pixels *p)
{
    const struct graph_window *w = &c->window;
    const size_t each = p->n_segments / w->kernel[0], apart = (size_t)w->dilation[1] * c->ic;
    for (size_t i = 0; i < p->n_segments; i++) {
        uint32_t row = y * w->stride[0] + (uint32_t)(i / each) * w->dilation[0] - w->pad[0];
        p->segments[i] = row < c->ih // else it is above, or below
                             ? image + row * streamed_line(c) + i % each * apart
                             : NULL;
    }
}

// A block's outputs of line y, or of all pixels of a flat image, from output `to` on.
static void streamed_line_of_block(const struct conv *c, const struct floats_block *b,
                                   const float *image, uint32_t y, uint8_t *to,
                                   struct floats_pixels *p)
{
    const struct conv_floats *f = c->floats;
    const size_t n = f->flat ? conv_pixels(c) : c->ow;
    size_t size = f->to == FLOATS_TO_FP16 ? sizeof(uint16_t) : sizeof(float);
    if (f->flat)
        p->segments[0] = image;
    else
        streamed_find_segments(c, image, y, p);
    p->at = (size_t)y * c->ow;
    p->whole = f->to == FLOATS_TO_SUMS ? n : floats_whole_pixels(c, (size_t)y * c->ow);
    p->to = to + ((size_t)y * c->ow * c->oc + b->from) * size;
    f->level->sum_streamed(p, n, b->n_vectors);
}

void floats_streamed_run(const struct step *s, const struct conv *c, struct run *r,
                         struct floats_pixels *p, const int8_t *image)
{
    const struct conv_floats *f = c->floats;
    const size_t floats = p->n_segments * p->segment, lines = f->flat ? 1 : c->oh;
    const float *loaded = f->there ? (const float *)image : run_scratch(r, c->image_lines_at);
    uint8_t *to = f->to == FLOATS_TO_SUMS ? run_scratch(r, c->sums_at) : run_output(s, r, 0);
    if (!f->there)
        streamed_load(c, image, run_scratch(r, c->image_lines_at));
    p->all = conv_pixels(c);
    uint32_t denormals = kernel_drop_denormals(); // as around oneDNN's kernels
    for (size_t i = f->n_blocks; i--;) {
        const struct floats_block *b = &f->blocks[i], *next = i ? b - 1 : b;
        p->weights = b->weights;
        p->bias = b->bias;
        p->left = b->left;
        p->ahead = next->weights;
        p->ahead_bytes = i ? next->n_vectors * f->level->lanes * floats * sizeof(float) : 0;
        for (uint32_t y = 0; y < lines; y++)
            streamed_line_of_block(c, b, loaded, y, to, p);
    }
    kernel_keep_denormals(denormals);
    if (f->to == FLOATS_TO_SUMS)
        conv_epilogue(s, c, r, to, 0, conv_pixels(c));
}
