// A node that moves bytes may do it in several tasks, one of which reads what another one has
// written. Each task's addresses are sums of counters times strides (rknn_pattern.h), so of any
// byte of the output it can be said which byte of the memory it was before the task: back through
// all tasks, it must come to be the byte of the input that the operator takes.
//
//     output ◄── task 3 ◄── task 2 ◄── (task 1 writes elsewhere) ◄── input
//
// A linear Resize copies its input to working memory first, with one more line and column at each
// edge, from which convolutions interpolate (rknn_resize.c): the copy is followed likewise.
//
// Not all bytes are followed, which would take longer than to run the tasks: the corners of the
// outputs and of what each task writes, and some by chance. A stride, a size or an address that is
// another one moves one of these.
#include "npu/model/rknn/regs/check/rknn_moves.h"

#include <stdlib.h>

#include "npu/model/rknn/program/rknn_layout.h"
#include "npu/model/rknn/regs/check/rknn_fit.h"
#include "npu/model/rknn/regs/check/rknn_pattern.h"

#define BY_CHANCE 64 // elements of each output

// A tensor in the arena; elements are counted in the order of its dimensions.
struct place {
    const struct rknn_tensor *t;
    struct rknn_memory_layout layout;
};

struct moves {
    const struct rknn_regs *regs;
    const struct rknn_file *f;
    const struct rknn_node *n;
    const struct graph_node *out;
    int32_t edged; // the working memory of a linear Resize, which takes the output's place; or -1
    struct rknn_pattern *patterns;
    uint32_t n_patterns;
    bool unread; // of a task from memory to memory it is not known what it does
    struct place *inputs, *outputs;
};

// ---- tensors ----

static uint64_t address_of(const struct place *p, uint64_t element)
{
    const struct rknn_memory_layout *l = &p->layout;
    uint64_t w = element % l->w, h = element / l->w % l->h;
    uint64_t c = element / l->w / l->h % l->c, n = element / l->w / l->h / l->c;
    return p->t->offset +
           (n * l->image + c / l->block * l->plane + c % l->block + h * l->row + w * l->column) *
               l->element;
}

// Which element a byte is of; false: of none.
static bool element_of(const struct place *p, uint64_t address, uint64_t *ret)
{
    const struct rknn_memory_layout *l = &p->layout;
    uint64_t at = (address - p->t->offset) / l->element;
    uint64_t n = at / l->image, c = at % l->image / l->plane * l->block;
    uint64_t h = at % l->image % l->plane / l->row;
    uint64_t rest = at % l->image % l->plane % l->row, w = rest / l->column;
    c += rest % l->column;
    *ret = ((n * l->c + c) * l->h + h) * l->w + w;
    return address >= p->t->offset && n < l->n && c < l->c && h < l->h && w < l->w;
}

static uint64_t count_elements(const struct rknn_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

// ---- what operators move ----

// Elements of everything before and behind an axis.
struct around {
    uint64_t size, behind;
};

static struct around around_axis(const struct rknn_tensor *t, uint32_t axis)
{
    struct around a = {.size = t->dims[axis], .behind = 1};
    for (uint32_t i = axis + 1; i < t->n_dims; i++)
        a.behind *= t->dims[i];
    return a;
}

// Element k of one of the parts, as an element of what they are parts of; `before`: what there is
// of the others in front of it, along the axis.
static uint64_t in_whole(const struct rknn_tensor *part, const struct rknn_tensor *whole,
                         uint32_t axis, uint64_t before, uint64_t k)
{
    struct around a = around_axis(part, axis);
    uint64_t line = k / a.behind, outer = line / a.size;
    return (outer * whole->dims[axis] + before + line % a.size) * a.behind + k % a.behind;
}

// The part that element k of the whole is of, and which of its elements it is.
static bool in_part(const struct moves *m, uint64_t k, uint32_t *ret_input, uint64_t *ret)
{
    uint32_t axis = (uint32_t)m->out->axis;
    struct around all = around_axis(m->outputs[0].t, axis);
    uint64_t line = k / all.behind, outer = line / all.size, at = line % all.size;
    for (uint32_t i = 0; i < m->out->n_inputs; i++) {
        uint64_t size = m->inputs[i].t->dims[axis];
        if (at < size) {
            *ret_input = i;
            *ret = (outer * size + at) * all.behind + k % all.behind;
            return true;
        }
        at -= size;
    }
    return false;
}

static uint64_t element_transposed(const struct moves *m, uint64_t k)
{
    const struct rknn_tensor *x = m->inputs[0].t, *y = m->outputs[0].t;
    uint64_t at[RKNN_MAX_DIMS] = {0}, from = 0;
    for (uint32_t i = y->n_dims; i-- > 0; k /= y->dims[i])
        at[m->out->perm[i]] = k % y->dims[i];
    for (uint32_t i = 0; i < x->n_dims; i++)
        from = from * x->dims[i] + at[i];
    return from;
}

// The pixel that is repeated.
static uint64_t nearest_pixel(const struct moves *m, uint64_t k)
{
    const struct rknn_tensor *x = m->inputs[0].t, *y = m->outputs[0].t;
    uint64_t w = k % y->dims[3], h = k / y->dims[3] % y->dims[2];
    uint64_t plane = k / y->dims[3] / y->dims[2];
    return (plane * x->dims[2] + h / (y->dims[2] / x->dims[2])) * x->dims[3] +
           w / (y->dims[3] / x->dims[3]);
}

static uint64_t inside(uint64_t at, uint64_t size)
{
    return at < 1 ? 0 : at > size ? size - 1 : at - 1;
}

// The pixel that the copy with edges takes.
static uint64_t nearest_inside(const struct moves *m, uint64_t k)
{
    const struct rknn_tensor *x = m->inputs[0].t, *y = m->outputs[0].t;
    uint64_t w = k % y->dims[3], h = k / y->dims[3] % y->dims[2];
    uint64_t plane = k / y->dims[3] / y->dims[2];
    return (plane * x->dims[2] + inside(h, x->dims[2])) * x->dims[3] + inside(w, x->dims[3]);
}

// Which element of which input becomes element k of output o.
static bool source_of(const struct moves *m, uint32_t o, uint64_t k, uint32_t *ret_input,
                      uint64_t *ret)
{
    uint64_t before = 0;
    *ret_input = 0;
    switch (m->out->op) {
    case GRAPH_CONCAT:
        return in_part(m, k, ret_input, ret);
    case GRAPH_SPLIT:
        for (uint32_t i = 0; i < o; i++)
            before += m->outputs[i].t ? m->outputs[i].t->dims[m->out->axis] : 0;
        *ret = in_whole(m->outputs[o].t, m->inputs[0].t, (uint32_t)m->out->axis, before, k);
        return true;
    case GRAPH_TRANSPOSE:
        *ret = element_transposed(m, k);
        return true;
    case GRAPH_RESIZE:
        *ret = m->edged >= 0 ? nearest_inside(m, k) : nearest_pixel(m, k);
        return true;
    default:
        *ret = k;
        return true;
    }
}

static bool is_followed(const struct moves *m)
{
    switch (m->out->op) {
    case GRAPH_CONCAT:
    case GRAPH_SPLIT:
    case GRAPH_TRANSPOSE:
    case GRAPH_RESHAPE:
        return m->n->n_tasks > 0;
    case GRAPH_RESIZE:
        return m->n->n_tasks > 0 && (m->out->resize.mode == INTERPOLATE_NEAREST || m->edged >= 0);
    default:
        return false;
    }
}

// Whether the tensors are there and have the dimensions that source_of() takes for granted.
static bool is_shaped(const struct moves *m)
{
    uint32_t n = m->out->n_inputs, least = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!m->inputs[i].t)
            return false;
    if (!n || !m->out->n_outputs || !m->outputs[0].t)
        return false;
    const struct rknn_tensor *x = m->inputs[0].t, *y = m->outputs[0].t;
    if (m->out->op == GRAPH_RESIZE)
        return x->n_dims == 4 && y->n_dims == 4 && y->dims[2] >= x->dims[2] &&
               y->dims[3] >= x->dims[3];
    if (m->out->op == GRAPH_CONCAT || m->out->op == GRAPH_SPLIT)
        least = (uint32_t)m->out->axis + 1;
    for (uint32_t i = 0; i < n + m->out->n_outputs; i++)
        if (m->inputs[i].t && m->inputs[i].t->n_dims < least)
            return false;
    return m->out->op != GRAPH_TRANSPOSE || x->n_dims == y->n_dims;
}

// ---- one byte ----

static uint64_t before_tasks(const struct moves *m, uint64_t address)
{
    for (uint32_t i = m->n_patterns; i-- > 0;) {
        const struct rknn_pattern *p = &m->patterns[i];
        uint64_t from;
        if (address - p->to < p->size && rknn_pattern_find(p, address, &from))
            address = from;
    }
    return address;
}

static int follow_byte(const struct moves *m, uint32_t o, uint64_t k, struct error *e)
{
    const struct place *y = &m->outputs[o];
    uint32_t input, byte = (uint32_t)(k % y->layout.element);
    uint64_t element = 0;
    if (!source_of(m, o, k, &input, &element))
        return 0;
    uint64_t at = before_tasks(m, address_of(y, k) + byte);
    const struct place *x = &m->inputs[input];
    if (x->t->data.size || at == address_of(x, element) + byte)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "its tasks do not take element %llu of %s from element %llu of %s",
                     (unsigned long long)k, y->t->name, (unsigned long long)element, x->t->name);
}

// ---- which bytes ----

// The corners of a rectangle of each of the last four dimensions.
static int follow_corners(const struct moves *m, uint32_t o, struct error *e)
{
    const struct rknn_memory_layout *l = &m->outputs[o].layout;
    uint32_t same = (l->n == 1) * 8u + (l->c == 1) * 4u + (l->h == 1) * 2u + (l->w == 1);
    int r = 0;
    for (uint32_t i = 0; i < 16 && r == 0; i++) {
        if (i & same)
            continue;
        uint64_t n = i & 8 ? l->n - 1 : 0, c = i & 4 ? l->c - 1 : 0;
        uint64_t h = i & 2 ? l->h - 1 : 0, w = i & 1 ? l->w - 1 : 0;
        r = follow_byte(m, o, ((n * l->c + c) * l->h + h) * l->w + w, e);
    }
    return r;
}

// Where a counter is at its end, if bit d of `ends` is set, and one beyond it, if d is `beyond`.
static uint64_t corner_at(const struct rknn_pattern *p, uint32_t ends, uint32_t beyond)
{
    uint64_t at = p->to;
    for (uint32_t d = 0; d < p->n_digits; d++)
        at += ((ends >> d & 1 ? p->digits[d].n - 1 : 0) + (d == beyond)) * p->digits[d].stride;
    return at;
}

static int follow_address(const struct moves *m, uint32_t o, uint64_t at, struct error *e)
{
    uint64_t k;
    return element_of(&m->outputs[o], at, &k) ? follow_byte(m, o, k, e) : 0;
}

// The first and the last byte that a task writes, and of each counter the end and what is beyond
// it, where these are in the output.
static int follow_task(const struct moves *m, uint32_t o, const struct rknn_pattern *p,
                       struct error *e)
{
    const struct place *y = &m->outputs[o];
    uint32_t all = (1u << p->n_digits) - 1, none = p->n_digits;
    if (p->to >= y->t->offset + y->layout.size || p->to + 2 * p->size <= y->t->offset)
        return 0;
    int r = follow_address(m, o, p->to, e);
    r = r < 0 ? r : follow_address(m, o, corner_at(p, all, none), e);
    for (uint32_t d = 0; d < p->n_digits && r == 0; d++) {
        r = follow_address(m, o, corner_at(p, 1u << d, none), e);
        r = r < 0 ? r : follow_address(m, o, corner_at(p, 1u << d, d), e);
        r = r < 0 ? r : follow_address(m, o, corner_at(p, all, d), e);
    }
    return r;
}

static int follow_output(const struct moves *m, uint32_t o, struct error *e)
{
    uint64_t n = count_elements(m->outputs[o].t), random = 1;
    int r = follow_corners(m, o, e);
    for (uint32_t i = 0; i < m->n_patterns && r == 0; i++)
        r = follow_task(m, o, &m->patterns[i], e);
    for (uint32_t i = 0; i < BY_CHANCE && r == 0; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        r = follow_byte(m, o, (random >> 33) % n, e);
    }
    return r;
}

// ---- a node ----

static int take_place(const struct moves *m, int32_t tensor, struct place *ret, struct error *e)
{
    if (tensor < 0 || (uint32_t)tensor >= m->f->n_tensors)
        return 0;
    ret->t = &m->f->tensors[tensor];
    return rknn_layout_of(&ret->layout, ret->t, m->regs->chip, e);
}

static int take_places(struct moves *m, struct error *e)
{
    int r = 0;
    m->inputs = calloc((size_t)m->out->n_inputs + m->out->n_outputs + 1, sizeof *m->inputs);
    if (!m->inputs)
        return error_no_memory(e, "a node's tensors", 0);
    m->outputs = m->inputs + m->out->n_inputs;
    for (uint32_t i = 0; i < m->out->n_inputs && r == 0; i++)
        r = take_place(m, m->out->inputs[i], &m->inputs[i], e);
    for (uint32_t i = 0; i < m->out->n_outputs && r == 0; i++)
        r = take_place(m, m->edged >= 0 ? m->edged : m->out->outputs[i], &m->outputs[i], e);
    return r;
}

// Whether a node's tensor has the byte that a task writes first.
static bool is_in(const struct moves *m, const struct rknn_state *s, int32_t tensor)
{
    uint64_t any;
    const struct rknn_tensor *t = &m->f->tensors[tensor];
    int32_t of = s->tensor[DPU_DST_BASE];
    if (of < 0)
        return rknn_file_offset(m->f, tensor, s->value[DPU_DST_BASE], &any);
    if (of == tensor || m->f->tensors[of].data.size)
        return of == tensor; // constants are not in the arena
    uint64_t at = (uint64_t)m->f->tensors[of].offset + s->value[DPU_DST_BASE];
    return at + rknn_fit_atom(m->regs) > t->offset && at < t->offset + t->size;
}

// RK3576 and RV1126B wait by convolutions of a pixel each, whose output is no tensor of the node's.
static bool only_waits(const struct moves *m, const struct rknn_state *s)
{
    const uint32_t *v = s->value;
    if (m->n->n_tasks < 2 || m->regs->chip->generation != CHIP_GEN_RK3576 ||
        v[DPU_DATA_CUBE_WIDTH] || v[DPU_DATA_CUBE_HEIGHT] ||
        (v[DPU_DATA_CUBE_CHANNEL] & 0x1fff) >= rknn_fit_atom(m->regs))
        return false;
    for (uint32_t i = 0; i < m->n->n_inputs; i++)
        if (m->n->inputs[i] >= 0 && is_in(m, s, m->n->inputs[i]))
            return false;
    for (uint32_t i = 0; i < m->n->n_outputs; i++)
        if (m->n->outputs[i] >= 0 && is_in(m, s, m->n->outputs[i]))
            return false;
    return true;
}

// RK3588 says twice how many channels a task has, and writes those of the second one. A Resize may
// write fewer.
static int check_channels(const struct moves *m, const struct rknn_state *s, struct error *e)
{
    uint32_t channels = s->value[DPU_DATA_CUBE_CHANNEL];
    return rknn_fit(m->regs, s, DPU_DATA_CUBE_CHANNEL,
                    m->regs->chip->generation != CHIP_GEN_RK3588 || m->out->op == GRAPH_RESIZE ||
                        rknn_bits(channels, 28, 16) == rknn_bits(channels, 12, 0),
                    e);
}

// RKNN_PATTERN_UNREAD: some are not known, the others may be refused all the same.
static int take_patterns(struct moves *m, struct error *e)
{
    enum { FROM_MEMORY = 1 };
    struct rknn_walk w;
    const struct rknn_state *s;
    bool unread = false;
    int r = 0;
    m->patterns = calloc((size_t)m->n->n_tasks + 1, sizeof *m->patterns);
    if (!m->patterns)
        return error_no_memory(e, "a node's tasks", 0);
    rknn_walk_begin(&w, m->regs);
    while (r >= 0 && (s = rknn_walk_next(&w)) != NULL) {
        bool moves = s->value[DPU_FEATURE_MODE_CFG] & FROM_MEMORY;
        if (moves || (m->edged < 0 && !only_waits(m, s)))
            r = rknn_pattern_of(m->regs, m->f, s, &m->patterns[m->n_patterns++], e);
        unread = unread || r == RKNN_PATTERN_UNREAD;
        m->unread = m->unread || (moves && r == RKNN_PATTERN_UNREAD);
        if (r >= 0 && moves)
            r = check_channels(m, s, e);
    }
    return r < 0 ? r : unread ? RKNN_PATTERN_UNREAD : 0;
}

int32_t rknn_moves_edged(const struct rknn_file *f, const struct rknn_node *n, int32_t input)
{
    if (input < 0)
        return -1;
    const struct rknn_tensor *x = &f->tensors[input];
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const struct rknn_tensor *t = n->inputs[i] < 0 ? NULL : &f->tensors[n->inputs[i]];
        if (t && t != x && t->kind == RKNN_KIND_ACTIVATION && t->n_dims == 4 && x->n_dims == 4 &&
            t->dims[1] == x->dims[1] && t->dims[2] == x->dims[2] + 2 &&
            t->dims[3] == x->dims[3] + 2)
            return n->inputs[i];
    }
    return -1;
}

// What is not followed would be believed. Convolutions join tensors (rknn_joins.c), one task
// repeats pixels by a form of its own, and tasks that set no mode at all are no program.
static bool is_believed(const struct moves *m)
{
    uint32_t mode;
    if (!rknn_regs_get(m->regs, DPU_FEATURE_MODE_CFG, &mode))
        return true;
    if (m->out->op == GRAPH_RESIZE)
        return m->n->n_tasks == 1;
    return m->out->op == GRAPH_CONCAT && !m->unread;
}

int rknn_moves_agree(const struct rknn_regs *regs, const struct rknn_file *f,
                     const struct rknn_node *n, const struct graph_node *out, struct error *e)
{
    struct moves m = {.regs = regs, .f = f, .n = n, .out = out, .edged = -1};
    if (out->op == GRAPH_RESIZE && out->resize.mode == INTERPOLATE_LINEAR && out->n_inputs)
        m.edged = rknn_moves_edged(f, n, out->inputs[0]);
    if (!is_followed(&m))
        return 0;
    int r = take_patterns(&m, e);
    bool known = r == 0;
    if (r > 0 && !is_believed(&m))
        r = error_set(e, STATUS_MODEL_INVALID, "how its tasks move bytes is not known");
    r = known ? take_places(&m, e) : r;
    known = known && r == 0 && is_shaped(&m);
    for (uint32_t o = 0; o < out->n_outputs && r == 0 && known; o++)
        r = m.outputs[o].t ? follow_output(&m, o, e) : 0;
    free(m.patterns);
    free(m.inputs);
    return r < 0 ? r : 0;
}
