// Changes of what the file's tables say of a node: attributes (of the typed table and of the BSON),
// the operator, the order of its inputs, and its tensors' slots and constants. Attributes are left
// out, too, and words of constants exchanged, which leaves their sums and counts as they are.
#include <bson/bson.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/npuref/native/mutations.h"

#define MAX_SITES 4096

enum form {
    BYTE,
    NUMBER,
    LONG,
    REAL,
    DOUBLE,
    TEXT,
    COUNTED_TEXT,
    OPERATOR,
    ORDER,
    ABSENT_SLOT, // `at` is the vtable's entry
    ABSENT_KEY,  // `at` is the node's struct bytes of BSON
    EXCHANGE,    // a word that is not 0 and another one of a constant
};

// What can be changed, where it is, and what it is called.
struct site {
    enum form form;
    uint8_t *at;
    uint32_t size; // of a text, of a constant
    char name[64]; // of ABSENT_KEY the key
};

struct sites {
    struct mutations *m;
    uint32_t n;
    struct site site[MAX_SITES];
};

static void add(struct sites *s, enum form form, const void *at, uint32_t size, const char *name,
                uint32_t k)
{
    if (s->n == MAX_SITES || (s->m->absent && form != ABSENT_SLOT && form != ABSENT_KEY))
        return;
    struct site *to = &s->site[s->n++];
    *to = (struct site){.form = form, .at = (uint8_t *)at, .size = size};
    snprintf(to->name, sizeof to->name, "%s %u", name, k);
}

// ---- attributes ----

static bool is_text(struct bytes b)
{
    for (size_t i = 0; i < b.size; i++)
        if (!isprint(b.data[i]))
            return false;
    return b.size > 2;
}

// A slot refers to a vector or text if such a thing is where it leads, else it is a number.
static void add_slot(struct sites *s, const struct fb_table *t, unsigned slot)
{
    struct fb_table copy = *t;
    struct fb fb = *t->fb;
    char name[32];
    copy.fb = &fb;
    if (!fb_has(&copy, slot))
        return;
    snprintf(name, sizeof name, "attribute slot %u left out", slot);
    add(s, ABSENT_SLOT, t->fb->all.data + t->vtable + 4 + 2 * (size_t)slot, 0, name, 0);
    snprintf(name, sizeof name, "attribute slot %u", slot);
    struct bytes text = fb_vector(&copy, slot, 1);
    if (!fb.broken && is_text(text)) {
        add(s, COUNTED_TEXT, text.data, (uint32_t)text.size, name, 0);
        return;
    }
    struct bytes list = fb_vector(&copy, slot, 4);
    for (uint32_t i = 0; !fb.broken && i < list.size / 4 && list.size <= 64; i++)
        add(s, NUMBER, list.data + 4 * (size_t)i, 0, name, i);
    uint16_t offset = read_le16(t->fb->all.data + t->vtable + 4 + 2 * slot);
    if (fb.broken || !list.size || list.size > 64)
        add(s, NUMBER, t->fb->all.data + t->at + offset, 0, name, 0);
}

static void add_bson_value(struct sites *s, const bson_iter_t *v, const char *name, uint32_t k)
{
    const uint8_t *at = v->raw + v->d1;
    if (BSON_ITER_HOLDS_INT32(v))
        add(s, NUMBER, at, 0, name, k);
    else if (BSON_ITER_HOLDS_INT64(v))
        add(s, LONG, at, 0, name, k);
    else if (BSON_ITER_HOLDS_DOUBLE(v))
        add(s, DOUBLE, at, 0, name, k);
    else if (BSON_ITER_HOLDS_UTF8(v))
        add(s, TEXT, v->raw + v->d2, read_le32(at) - 1, name, k);
}

static void add_bson(struct sites *s, const struct rknn_node *n)
{
    bson_t b;
    bson_iter_t at, inside, item;
    if (n->bson.size < 5 || !bson_init_static(&b, n->bson.data, n->bson.size) ||
        !bson_iter_init(&at, &b))
        return;
    while (bson_iter_next(&at)) {
        const char *name = bson_iter_key(&at);
        add(s, ABSENT_KEY, &n->bson, 0, name, 0);
        if (!BSON_ITER_HOLDS_DOCUMENT(&at) || !bson_iter_recurse(&at, &inside) ||
            !bson_iter_find(&inside, "value"))
            continue;
        add_bson_value(s, &inside, name, 0);
        if (BSON_ITER_HOLDS_ARRAY(&inside) && bson_iter_recurse(&inside, &item))
            for (uint32_t k = 0; bson_iter_next(&item); k++)
                add_bson_value(s, &item, name, k);
    }
}

// ---- tensors ----

// Where and in which order they lie is no matter of npu/sim's, which has memory of its own.
static void add_tensor(struct sites *s, struct rknn_tensor *t)
{
    char name[64];
#define SLOT(form, field, k)                                                                       \
    (snprintf(name, sizeof name, "tensor %.40s " #field, t->name),                                 \
     add(s, form, &t->field, 0, name, k))
    SLOT(BYTE, type, 0);
    SLOT(REAL, scale, 0);
    SLOT(NUMBER, zp, 0);
    SLOT(NUMBER, n_scales, 0);
    SLOT(NUMBER, n_dims, 0);
    for (uint32_t i = 0; i < t->n_dims; i++)
        SLOT(NUMBER, dims[i], i);
#undef SLOT
    snprintf(name, sizeof name, "constant %.40s", t->name);
    for (uint32_t i = 0; i < 8 && t->data.size >= 4; i++)
        add(s, NUMBER, t->data.data + below(s->m, (uint32_t)(t->data.size / 4)) * (size_t)4, 0,
            name, i);
    if (t->data.size >= 8)
        add(s, EXCHANGE, t->data.data, (uint32_t)(t->data.size / 4), name, 8);
}

// All that there is to be changed: the node's own first, then what its tensors say. Constants have
// many bytes, of which a few are chosen by chance.
static void find_sites(struct sites *s, struct rknn_node *n)
{
    struct rknn_file *f = &s->m->file;
    add(s, OPERATOR, &n->op, 0, "operator", 0);
    if (n->n_inputs > 1)
        add(s, ORDER, n->inputs, 0, "inputs", 0);
    if (n->n_outputs > 1)
        add(s, ORDER, n->outputs, 0, "outputs", 0);
    for (unsigned slot = 0; slot < n->attr.n_slots; slot++)
        add_slot(s, &n->attr, slot);
    add_bson(s, n);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] > 0)
            add_tensor(s, &f->tensors[n->inputs[i]]);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i] > 0)
            add_tensor(s, &f->tensors[n->outputs[i]]);
}

// ---- changes ----

// Neighbours, nothing, twice and half: what counts, sizes and flags become by mistake.
static uint64_t other_number(struct mutations *m, uint64_t old)
{
    switch (below(m, 5)) {
    case 0:
        return old + 1 + below(m, 2);
    case 1:
        return old - 1;
    case 2:
        return old ? 0 : 1;
    case 3:
        return old * 2;
    default:
        return old / 2;
    }
}

static double other_real(struct mutations *m, double old)
{
    return below(m, 3) == 0 ? old + 1 : below(m, 2) ? old * 1.25 : -old;
}

static const char *const texts[] = {"half_pixel",
                                    "asymmetric",
                                    "align_corners",
                                    "pytorch_half_pixel",
                                    "nearest",
                                    "linear",
                                    "cubic",
                                    "floor",
                                    "ceil",
                                    "round_prefer_floor",
                                    "SAME_UPPER",
                                    "SAME_LOWER",
                                    "VALID",
                                    "NOTSET",
                                    "DCR",
                                    "CRD",
                                    "constant",
                                    "edge",
                                    "reflect",
                                    "zeros",
                                    "border",
                                    "bilinear",
                                    "l2",
                                    "rms"};

// Another of the known texts that fits; the count of one that has it is in front.
static bool change_text(struct mutations *m, const struct site *s)
{
    for (int tries = 0; tries < 200; tries++) {
        const char *text = texts[below(m, sizeof texts / sizeof *texts)];
        size_t n = strlen(text);
        if (n > s->size || (s->form == TEXT && n != s->size) ||
            (n == s->size && memcmp(text, s->at, n) == 0))
            continue;
        memcpy(s->at, text, n);
        if (s->form == COUNTED_TEXT)
            write_le32(s->at - 4, (uint32_t)n);
        return true;
    }
    return false;
}

static const char *const operators[] = {"Conv",          "ConvRelu",     "ConvAdd",
                                        "ConvAddRelu",   "ConvClip",     "ConvSigmoid",
                                        "ConvExSwish",   "Add",          "AddRelu",
                                        "Sub",           "Mul",          "Max",
                                        "Min",           "Concat",       "Relu",
                                        "Sigmoid",       "Tanh",         "Clip",
                                        "MaxPool",       "AveragePool",  "Reshape",
                                        "Split",         "Transpose",    "Slice",
                                        "Resize",        "Pad",          "ExSwish",
                                        "HardSwish",     "Cast",         "LeakyRelu",
                                        "ConvLeakyRelu", "Abs",          "Pow",
                                        "exSoftmax13",   "Softmax",      "Identity",
                                        "DepthToSpace",  "SpaceToDepth", "GlobalAveragePool",
                                        "ReduceMean"};

static void swap_two(struct mutations *m, int32_t *list, uint32_t n)
{
    uint32_t a = below(m, n), b = below(m, n);
    int32_t first = list[a];
    list[a] = list[b];
    list[b] = first;
}

// The document without the key of the site's name, which is followed by a count. It is freed by
// try_site().
static bool leave_out(const struct site *s)
{
    struct bytes *to = (struct bytes *)(void *)s->at;
    bson_t from, without = BSON_INITIALIZER;
    char key[64];
    snprintf(key, sizeof key, "%s", s->name);
    *strrchr(key, ' ') = 0;
    if (!bson_init_static(&from, to->data, to->size))
        return false;
    bson_copy_to_excluding_noinit(&from, &without, key, NULL);
    uint32_t size = without.len;
    *to = (struct bytes){bson_destroy_with_steal(&without, true, NULL), size};
    return true;
}

static bool exchange(struct mutations *m, const struct site *s)
{
    uint32_t a = below(m, s->size), b = below(m, s->size), tries = s->size;
    while (!read_le32(s->at + 4 * (size_t)a) && tries--)
        a = (a + 1) % s->size;
    uint32_t first = read_le32(s->at + 4 * (size_t)a);
    write_le32(s->at + 4 * (size_t)a, read_le32(s->at + 4 * (size_t)b));
    write_le32(s->at + 4 * (size_t)b, first);
    return true;
}

// Writes another value there. False: there is none.
static bool change_site(struct mutations *m, const struct rknn_node *n, const struct site *s)
{
    switch (s->form) {
    case BYTE:
        *s->at = (uint8_t)other_number(m, *s->at);
        return true;
    case NUMBER:
        write_le32(s->at, (uint32_t)other_number(m, read_le32(s->at)));
        return true;
    case LONG:
        write_le64(s->at, other_number(m, read_le64(s->at)));
        return true;
    case REAL:
        write_le32(s->at, float_bits((float)other_real(m, (double)bits_float(read_le32(s->at)))));
        return true;
    case DOUBLE: {
        double v;
        memcpy(&v, s->at, sizeof v);
        v = other_real(m, v);
        memcpy(s->at, &v, sizeof v);
        return true;
    }
    case OPERATOR: {
        const char *op = operators[below(m, sizeof operators / sizeof *operators)];
        memcpy(s->at, &op, sizeof op);
        return true;
    }
    case ABSENT_SLOT:
        write_le16(s->at, 0);
        return true;
    case ABSENT_KEY:
        return leave_out(s);
    case EXCHANGE:
        return exchange(m, s);
    case ORDER:
        swap_two(m, (int32_t *)(void *)s->at,
                 s->at == (const uint8_t *)n->inputs ? n->n_inputs : n->n_outputs);
        return true;
    default:
        return change_text(m, s);
    }
}

// Bytes that a change may touch, which are put back after it. Of a text that is counted, the count
// is put back, too.
static size_t kept_size(const struct rknn_node *n, const struct site *s)
{
    if (s->form == ORDER)
        return sizeof(int32_t) * (s->at == (const uint8_t *)n->inputs ? n->n_inputs : n->n_outputs);
    if (s->form == ABSENT_KEY)
        return sizeof(struct bytes);
    if (s->form == EXCHANGE)
        return 4 * (size_t)s->size;
    return s->form == BYTE                              ? 1
           : s->form == ABSENT_SLOT                     ? 2
           : s->form == NUMBER || s->form == REAL       ? 4
           : s->form == TEXT || s->form == COUNTED_TEXT ? s->size
                                                        : 8;
}

static void describe(const struct rknn_node *n, const struct site *s, const uint8_t *old, char *ret,
                     size_t size)
{
    double before, after;
    switch (s->form) {
    case BYTE:
        snprintf(ret, size, "%s %u -> %u", s->name, *old, *s->at);
        break;
    case NUMBER:
        snprintf(ret, size, "%s 0x%x -> 0x%x", s->name, read_le32(old), read_le32(s->at));
        break;
    case REAL:
        snprintf(ret, size, "%s %g -> %g", s->name, (double)bits_float(read_le32(old)),
                 (double)bits_float(read_le32(s->at)));
        break;
    case DOUBLE:
        memcpy(&before, old, sizeof before);
        memcpy(&after, s->at, sizeof after);
        snprintf(ret, size, "%s %g -> %g", s->name, before, after);
        break;
    case OPERATOR:
        snprintf(ret, size, "%s -> %s", s->name, n->op);
        break;
    case TEXT:
    case COUNTED_TEXT:
        snprintf(ret, size, "%s %.*s -> %.20s", s->name, (int)s->size, (const char *)old,
                 (const char *)s->at);
        break;
    case ABSENT_KEY:
        snprintf(ret, size, "attribute %s left out", s->name);
        break;
    case EXCHANGE:
        snprintf(ret, size, "%s exchanged", s->name);
        break;
    default:
        snprintf(ret, size, "%s", s->name);
    }
}

// A change that comes to nothing (the same operator, two inputs that are one) is none.
static void try_site(struct mutations *m, uint32_t node, const struct site *s, const struct base *b)
{
    char what[160];
    struct rknn_node *n = &m->file.nodes[node];
    const char *op = n->op;
    size_t size = kept_size(n, s);
    cleanup(free_p) uint8_t *old = malloc(size);
    if (!old)
        abort();
    memcpy(old, s->at, size);
    if (!change_site(m, n, s))
        return;
    describe(n, s, old, what, sizeof what);
    bool renamed = strcmp(n->op, op) != 0;
    if (memcmp(old, s->at, size) != 0 && renamed == (s->form == OPERATOR))
        mutations_judge(m, node, b, what);
    if (s->form == ABSENT_KEY)
        bson_free((void *)(uintptr_t)((struct bytes *)(void *)s->at)->data);
    memcpy(s->at, old, size);
    if (s->form == COUNTED_TEXT)
        write_le32(s->at - 4, s->size);
}

void mutations_of_tables(struct mutations *m, uint32_t node, uint32_t n, const struct base *b)
{
    struct sites *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->m = m;
    find_sites(s, &m->file.nodes[node]);
    for (uint32_t i = 0; i < (n ? n : s->n) && s->n; i++)
        try_site(m, node, &s->site[n ? below(m, s->n) : i], b);
    free(s);
}
