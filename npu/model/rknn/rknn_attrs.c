// The attributes of a node, by their ONNX names. A file has them in up to two places:
//
//      typed table    a flatbuffer table per operator (union type in attr_type), slots in `fields`
//      BSON           {NAME: {dtype: TEXT, value: NUMBER | LIST | TEXT}}
//
// The typed table is looked at first, as fused nodes have no other. rknn_attrs_all() hands on the
// BSON of nodes that a program computes.
#include "npu/model/rknn/rknn_attrs.h"

#include <bson/bson.h>
#include <math.h>
#include <stdio.h>

// Where the typed tables hold what: in the order of the attributes' names, but for the vendor's own
// operators. A number that is absent there is 0 (flatbuffers leave out zeros).
enum form { INTS, INT, REAL, TEXT };
static const struct {
    uint8_t attr_type;
    uint8_t slot;
    enum form form;
    const char *name;
} fields[] = {
    // clang-format off
    { 1, 0, TEXT, "auto_pad"},     { 1, 1, INTS, "dilations"}, { 1, 2, INT, "group"},
    { 1, 3, INTS, "kernel_shape"}, { 1, 4, INTS, "pads"},      { 1, 5, INTS, "strides"},
    { 2, 0, TEXT, "auto_pad"},     { 2, 1, INTS, "dilations"}, { 2, 2, INT, "group"},
    { 2, 3, INTS, "kernel_shape"}, { 2, 4, INTS, "output_padding"},
    { 2, 5, INTS, "output_shape"}, { 2, 6, INTS, "pads"},      { 2, 7, INTS, "strides"},
    { 3, 0, TEXT, "auto_pad"},     { 3, 1, INT, "ceil_mode"},  { 3, 2, INTS, "dilations"},
    { 3, 3, INTS, "kernel_shape"}, { 3, 4, INTS, "pads"},      { 3, 5, INT, "storage_order"},
    { 3, 6, INTS, "strides"},
    { 5, 0, TEXT, "auto_pad"},     { 5, 1, INT, "ceil_mode"},
    { 5, 2, INT, "count_include_pad"}, { 5, 3, INTS, "kernel_shape"},
    { 5, 4, INTS, "pads"},         { 5, 5, INTS, "strides"},
    {17, 0, REAL, "epsilon"},      {17, 1, REAL, "momentum"},
    {17, 2, INT, "training_mode"}, {18, 0, INT, "axis"},
    {19, 0, INT, "axis"},          {20, 0, INT, "axis"},       {20, 1, INTS, "split"},
    {25, 0, INTS, "perm"},         {51, 0, INT, "axis"},       {51, 1, INT, "keepdims"},
    {51, 2, INT, "select_last_index"},                         {61, 0, INT, "axis"},
    {26, 0, TEXT, "coordinate_transformation_mode"},           {26, 4, TEXT, "mode"},
    {26, 1, REAL, "cubic_coeff_a"}, {26, 2, INT, "exclude_outside"},
    {26, 3, REAL, "extrapolation_value"},
    {26, 5, TEXT, "nearest_mode"}, {30, 0, TEXT, "mode"},
    {87, 0, TEXT, "mode"},         {87, 1, REAL, "eps"},       {87, 2, INTS, "axes"},
    {96, 0, INT, "saturate"},      {96, 1, INT, "to"},
    // clang-format on
};

// The same by operators whose types were in no file: all whose absent numbers are 0 in ONNX too.
static const struct {
    const char *op;
    uint8_t slot;
    enum form form;
    const char *name;
} guessed_fields[] = {
    // clang-format off
    {"CumSum", 0, INT, "exclusive"},           {"CumSum", 1, INT, "reverse"},
    {"DepthToSpace", 0, INT, "blocksize"},     {"DepthToSpace", 1, TEXT, "mode"},
    {"Elu", 0, REAL, "alpha"},                 {"Gather", 0, INT, "axis"},
    {"GatherElements", 0, INT, "axis"},        {"GatherND", 0, INT, "batch_dims"},
    {"GridSample", 0, INT, "align_corners"},   {"GridSample", 1, TEXT, "mode"},
    {"GridSample", 2, TEXT, "padding_mode"},   {"HardSigmoid", 0, REAL, "alpha"},
    {"HardSigmoid", 1, REAL, "beta"},          {"InstanceNormalization", 0, REAL, "epsilon"},
    {"LeakyRelu", 0, REAL, "alpha"},           {"Mod", 0, INT, "fmod"},
    {"ReduceL2", 0, INTS, "axes"},             {"ReduceL2", 1, INT, "keepdims"},
    {"ReduceMax", 0, INTS, "axes"},            {"ReduceMax", 1, INT, "keepdims"},
    {"ReduceMean", 0, INTS, "axes"},           {"ReduceMean", 1, INT, "keepdims"},
    {"ReduceMin", 0, INTS, "axes"},            {"ReduceMin", 1, INT, "keepdims"},
    {"ReduceSum", 0, INTS, "axes"},            {"ReduceSum", 1, INT, "keepdims"},
    {"ScatterElements", 0, INT, "axis"},       {"ScatterElements", 1, TEXT, "reduction"},
    {"ScatterND", 0, TEXT, "reduction"},       {"SpaceToDepth", 0, INT, "blocksize"},
    {"Squeeze", 0, INTS, "axes"},              {"Unsqueeze", 0, INTS, "axes"},
    // clang-format on
};

static bool has_known_type(const struct rknn_node *n)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attr_type == n->attr_type)
            return true;
    return false;
}

static void note_asked(const struct rknn_node *n, const char *name)
{
    if (n->asked->n < RKNN_MAX_ASKED)
        n->asked->names[n->asked->n++] = name;
}

// The slot of an attribute in the node's typed table; -1: such tables have none.
static int find_field(const struct rknn_node *n, const char *name, int form)
{
    note_asked(n, name);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attr_type == n->attr_type && (int)fields[i].form == form &&
            strcmp(fields[i].name, name) == 0)
            return fields[i].slot;
    for (size_t i = 0; n->attr.n_slots && i < sizeof guessed_fields / sizeof *guessed_fields; i++)
        if (strcmp(guessed_fields[i].op, n->op) == 0 && (int)guessed_fields[i].form == form &&
            strcmp(guessed_fields[i].name, name) == 0 && !has_known_type(n))
            return guessed_fields[i].slot;
    return -1;
}

// The same, or -1 too if this node leaves the field out.
static int find_slot(const struct rknn_node *n, const char *name, int form)
{
    int slot = find_field(n, name, form);
    return slot >= 0 && fb_has(&n->attr, (unsigned)slot) ? slot : -1;
}

#define BSON_LEAST 5 // bytes of an empty document

// Views the node's BSON in place. InputOperator and OutputOperator carry 16 bytes in this field
// that are not BSON, Resize a single one: the length that a document begins with tells them apart.
static bool open_bson(const struct rknn_node *n, bson_t *b)
{
    return n->bson.size >= BSON_LEAST && read_le32(n->bson.data) == n->bson.size &&
           bson_init_static(b, n->bson.data, n->bson.size);
}

// Refuses damaged documents once, when the node is lowered: the readers below then take them as
// valid, and report what they do not find as absent.
int rknn_attrs_check(const struct rknn_node *n, struct error *e)
{
    bson_t b;
    if (n->bson.size >= BSON_LEAST &&
        (!open_bson(n, &b) || !bson_validate(&b, BSON_VALIDATE_NONE, NULL)))
        return error_set(e, STATUS_MODEL_INVALID, "its attributes are damaged (BSON, %zu bytes)",
                         n->bson.size);
    return 0;
}

// {NAME: {dtype: …, value: …}}: positions `value` on the value.
static bool find_value(const struct rknn_node *n, const char *name, bson_t *b, bson_iter_t *value)
{
    bson_iter_t at, inside;
    note_asked(n, name);
    if (!open_bson(n, b) || !bson_iter_init_find(&at, b, name) || !BSON_ITER_HOLDS_DOCUMENT(&at) ||
        !bson_iter_recurse(&at, &inside) || !bson_iter_find(&inside, "value"))
        return false;
    *value = inside;
    return true;
}

// A number, or up to `max` elements of a list. How many were written.
static uint32_t bson_ints(bson_iter_t *value, int64_t *values, uint32_t max)
{
    bson_iter_t item;
    uint32_t n = 0;
    if (BSON_ITER_HOLDS_NUMBER(value) && max) {
        values[0] = bson_iter_as_int64(value);
        return 1;
    }
    if (!BSON_ITER_HOLDS_ARRAY(value) || !bson_iter_recurse(value, &item))
        return 0;
    while (n < max && bson_iter_next(&item))
        values[n++] = bson_iter_as_int64(&item);
    return n;
}

// Typed table, then BSON. An integer that is known to this table type and found in neither place is
// 0: flatbuffers omit fields that hold the default.
uint32_t rknn_attr_ints(const struct rknn_node *n, const char *name, int64_t *values, uint32_t max)
{
    int slot = find_slot(n, name, INTS);
    if (slot >= 0) {
        struct bytes b = fb_vector(&n->attr, (unsigned)slot, 4);
        uint32_t count = (uint32_t)(b.size / 4) < max ? (uint32_t)(b.size / 4) : max;
        for (uint32_t i = 0; i < count; i++)
            values[i] = (int32_t)read_le32(b.data + 4 * (size_t)i);
        return count;
    }
    slot = find_slot(n, name, INT);
    if (slot >= 0 && max) {
        values[0] = fb_i32(&n->attr, (unsigned)slot, 0);
        return 1;
    }
    bson_t b;
    bson_iter_t value;
    if (find_value(n, name, &b, &value))
        return bson_ints(&value, values, max);
    if (!max || find_field(n, name, INT) < 0)
        return 0;
    values[0] = 0;
    return 1;
}

int64_t rknn_attr_int(const struct rknn_node *n, const char *name, int64_t absent)
{
    int64_t value;
    return rknn_attr_ints(n, name, &value, 1) ? value : absent;
}

// Typed table, then BSON, where whole numbers may be stored as integers.
double rknn_attr_float(const struct rknn_node *n, const char *name, double absent)
{
    int slot = find_slot(n, name, REAL);
    if (slot >= 0)
        return (double)bits_float(fb_u32(&n->attr, (unsigned)slot, 0));
    bson_t b;
    bson_iter_t value;
    if (!find_value(n, name, &b, &value) || !BSON_ITER_HOLDS_NUMBER(&value))
        return absent;
    return BSON_ITER_HOLDS_DOUBLE(&value) ? bson_iter_double(&value)
                                          : (double)bson_iter_as_int64(&value);
}

bool rknn_attr_has(const struct rknn_node *n, const char *name)
{
    bson_t b;
    bson_iter_t value;
    return find_value(n, name, &b, &value);
}

// snprintf() with a precision copies at most the text's bytes, which are not terminated in the
// file, and truncates to `size`.
void rknn_attr_text(const struct rknn_node *n, const char *name, const char *absent, char *ret,
                    size_t size)
{
    bson_t b;
    bson_iter_t value;
    struct bytes text = {(const uint8_t *)absent, strlen(absent)};
    int slot = find_slot(n, name, TEXT);
    if (slot >= 0) {
        text = fb_vector(&n->attr, (unsigned)slot, 1);
    } else if (find_value(n, name, &b, &value) && BSON_ITER_HOLDS_UTF8(&value)) {
        uint32_t length;
        const char *words = bson_iter_utf8(&value, &length);
        text = (struct bytes){(const uint8_t *)words, length};
    }
    snprintf(ret, size, "%.*s", (int)(text.size < size ? text.size : size),
             (const char *)text.data);
}

json_t *rknn_attrs_json(const struct rknn_node *n)
{
    bson_t b;
    json_t *attrs = NULL;
    if (open_bson(n, &b)) {
        char *text = bson_as_relaxed_extended_json(&b, NULL);
        attrs = text ? json_loads(text, 0, NULL) : NULL;
        bson_free(text);
    }
    return attrs ? attrs : json_object();
}

// ---- nothing unread
// ------------------------------------------------------------------------------

#define ANY NAN

// Attributes that change nothing that is not known from elsewhere, whatever they are or where they
// have this value. An operator: the beginning of its name.
static const struct {
    const char *op, *name;
    double only;
    const char *why;
} free_attrs[] = {
    {"", "ceil_mode", ANY, "the output's shape says it"},
    {"", "keepdims", ANY, "the output's shape says it"},
    {"", "output_padding", ANY, "the output's shape says it"},
    {"", "output_shape", ANY, "the output's shape says it"},
    {"", "allowzero", ANY, "the output's shape says it"},
    {"Reshape", "shape", ANY, "the output's shape says it"},
    {"Flatten", "axis", ANY, "the output's shape says it"},
    {"Squeeze", "axes", ANY, "the output's shape says it"},
    {"Unsqueeze", "axes", ANY, "the output's shape says it"},
    {"Reduce", "axes", ANY, "where all dimensions stay, the output's shape says it"},
    {"Split", "split", ANY, "the outputs' shapes say it"},
    {"Split", "num_outputs", ANY, "the outputs' shapes say it"},
    {"Conv", "kernel_shape", ANY, "the weight's shape says it"},
    {"Conv", "group", ANY, "the weight's shape says it"},
    {"Global", "kernel_shape", ANY, "the input's shape says it"},
    {"", "to", ANY, "the output's type says it"},
    {"Cast", "saturate", ANY, "of types that no tensor has"},
    {"exDataConvert", "i_dtype", ANY, "the input's type says it"},
    {"exDataConvert", "o_dtype", ANY, "the output's type says it"},
    {"exSDPAttention", "q_matmul", ANY, "a tensor's name"},
    {"exSDPAttention", "q_softmax", ANY, "a tensor's name"},
    {"MaxPool", "storage_order", ANY, "of the second output, which no file has"},
    {"MaxPool", "count_include_pad", ANY, "of averages"},
    {"AveragePool", "dilations", 1, "none"},
    {"Resize", "extrapolation_value", ANY, "of a mode that is refused"},
    {"Resize", "antialias", 0, "none"},
    {"Resize", "keep_aspect_ratio_policy", ANY, "the output's shape says what came of it"},
    {"Resize", "scales", ANY, "the shapes say it, or input 2"},
    {"TopK", "sorted", ANY, "any order is allowed then, also the sorted one"},
    {"TopK", "k", ANY, "the output's shape says it"},
    {"BatchNormalization", "momentum", ANY, "of training"},
    {"BatchNormalization", "training_mode", 0, "no training"},
    {"BatchNormalization", "spatial", 1, "as later versions"},
    {"LayerNormalization", "stash_type", 1, "float"},
    {"Reduce", "noop_with_empty_axes", 0, "none"},
    {"Mod", "fmod", 0, "of integers"},
    {"Dropout", "ratio", ANY, "of training"},
};

static bool is_asked(const struct rknn_node *n, const char *name)
{
    bool asked = false;
    for (uint32_t i = 0; i < n->asked->n; i++)
        asked = asked || strcmp(n->asked->names[i], name) == 0;
    return asked;
}

// Whether the elements of the attribute, numbers or lists of them, all have a value.
static bool all_have(const struct rknn_node *n, const char *name, double value)
{
    int64_t values[RKNN_MAX_DIMS];
    uint32_t count = rknn_attr_ints(n, name, values, RKNN_MAX_DIMS);
    bool same = count > 0;
    for (uint32_t i = 0; i < count; i++)
        same = same && (double)values[i] == value;
    return same;
}

static bool is_free(const struct rknn_node *n, const char *name)
{
    for (size_t i = 0; i < sizeof free_attrs / sizeof *free_attrs; i++)
        if (strcmp(free_attrs[i].name, name) == 0 &&
            strncmp(n->op, free_attrs[i].op, strlen(free_attrs[i].op)) == 0 &&
            (isnan(free_attrs[i].only) || all_have(n, name, free_attrs[i].only)))
            return true;
    return false;
}

void rknn_attrs_begin(const struct rknn_node *n)
{
    n->asked->n = 0;
}

static const char *field_name(const struct rknn_node *n, unsigned slot)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].attr_type == n->attr_type && fields[i].slot == slot)
            return fields[i].name;
    for (size_t i = 0; i < sizeof guessed_fields / sizeof *guessed_fields; i++)
        if (strcmp(guessed_fields[i].op, n->op) == 0 && guessed_fields[i].slot == slot &&
            !has_known_type(n))
            return guessed_fields[i].name;
    return NULL;
}

static int check_typed(const struct rknn_node *n, struct error *e)
{
    uint32_t value;
    for (unsigned slot = 0; slot < n->attr.n_slots; slot++) {
        const char *name = field_name(n, slot);
        if (!fb_says(&n->attr, slot, &value) || (name && (is_asked(n, name) || is_free(n, name))))
            continue;
        if (!name)
            return error_set(e, STATUS_MODEL_INVALID,
                             "number %u of its attributes (of type %u) holds 0x%x: which one that "
                             "is, is not known",
                             slot, n->attr_type, value);
        return error_set(e, STATUS_MODEL_INVALID, "its attribute %s (0x%x) is not understood", name,
                         value);
    }
    return 0;
}

static int check_bson(const struct rknn_node *n, struct error *e)
{
    bson_t b;
    bson_iter_t at;
    if (!open_bson(n, &b) || !bson_iter_init(&at, &b))
        return 0;
    while (bson_iter_next(&at)) {
        const char *name = bson_iter_key(&at);
        if (!is_asked(n, name) && !is_free(n, name))
            return error_set(e, STATUS_MODEL_INVALID, "its attribute \"%.60s\" is not understood",
                             name);
    }
    return 0;
}

int rknn_attrs_end(const struct rknn_node *n, struct error *e)
{
    int r = check_typed(n, e);
    return r < 0 ? r : check_bson(n, e);
}

// ---- for programs that compute the node --------------------------------------------------------

// One attribute while it is read. It is walked twice with the same functions: first with `to` NULL,
// to learn its size, then to write.
struct values {
    enum tensor_type type;
    uint32_t n;   // elements
    size_t size;  // bytes
    uint8_t *to;  // NULL: only counted
    bool real;    // numbers are reals, however they are stored
    bool unknown; // something is in it that has no type here
};

// Appends n elements of `size` bytes in all. Lists of mixed types have no tensor type: `unknown`.
static void add(struct values *v, enum tensor_type type, const void *data, size_t size, uint32_t n)
{
    v->unknown = v->unknown || (v->n && v->type != type);
    v->type = type;
    if (v->to)
        memcpy(v->to + v->size, data, size);
    v->size += size;
    v->n += n;
}

// dtype "float…" makes all elements reals, even those that BSON stores as integers.
static void add_number(struct values *v, const bson_iter_t *at)
{
    if (v->real || BSON_ITER_HOLDS_DOUBLE(at)) {
        float real = (float)bson_iter_as_double(at);
        add(v, TENSOR_FLOAT32, &real, sizeof real, 1);
    } else {
        int64_t whole = bson_iter_as_int64(at);
        add(v, TENSOR_INT64, &whole, sizeof whole, 1);
    }
}

// A single text is terminated behind its end; in a list each is, so that they can be told apart.
static void add_text(struct values *v, const bson_iter_t *at, bool in_list)
{
    uint32_t length;
    const char *text = bson_iter_utf8(at, &length);
    add(v, TENSOR_UINT8, text, length + in_list, length + in_list);
}

// One BSON value. Booleans, texts, binary data and numbers; documents and dates are `unknown`.
static void add_value(struct values *v, const bson_iter_t *at, bool in_list)
{
    if (BSON_ITER_HOLDS_BOOL(at)) {
        uint8_t truth = bson_iter_bool(at);
        add(v, TENSOR_BOOL, &truth, 1, 1);
    } else if (BSON_ITER_HOLDS_UTF8(at)) {
        add_text(v, at, in_list);
    } else if (BSON_ITER_HOLDS_BINARY(at)) {
        const uint8_t *data;
        uint32_t size;
        bson_iter_binary(at, NULL, &size, &data);
        add(v, TENSOR_UINT8, data, size, size);
    } else if (BSON_ITER_HOLDS_NUMBER(at)) {
        add_number(v, at);
    } else {
        v->unknown = true;
    }
}

// A single value, or each element of a list; lists of lists are `unknown`.
static void add_all(struct values *v, const bson_iter_t *value)
{
    bson_iter_t item;
    if (!BSON_ITER_HOLDS_ARRAY(value))
        add_value(v, value, false);
    else if (bson_iter_recurse(value, &item))
        while (bson_iter_next(&item))
            add_value(v, &item, true);
}

// {dtype: …, value: …}: the value, and what kind of list an empty one is.
static bool find_typed(const bson_iter_t *attribute, bson_iter_t *ret, struct values *empty)
{
    bson_iter_t inside;
    if (!BSON_ITER_HOLDS_DOCUMENT(attribute) || !bson_iter_recurse(attribute, &inside))
        return false;
    bson_iter_t dtype = inside;
    bool real = bson_iter_find(&dtype, "dtype") && BSON_ITER_HOLDS_UTF8(&dtype) &&
                bson_iter_utf8(&dtype, NULL)[0] == 'f';
    *empty = (struct values){.type = real ? TENSOR_FLOAT32 : TENSOR_INT64, .real = real};
    *ret = inside;
    return bson_iter_find(ret, "value");
}

// Copies one attribute into the pool. 1: taken; 0: left out, as it has no type that a program could
// be given; negative: no memory. The extra byte terminates a single text.
static int take(const bson_iter_t *at, struct pool *pool, struct custom_attribute *ret,
                struct error *e)
{
    bson_iter_t value;
    struct values v;
    const char *key = bson_iter_key(at);
    if (!find_typed(at, &value, &v))
        return 0;
    struct values written = v;
    add_all(&v, &value);
    if (v.unknown)
        return 0;
    written.to = pool_alloc(pool, v.size + 1, 1);
    ret->name = pool_text(pool, (struct bytes){(const uint8_t *)key, strlen(key)});
    if (!written.to || !ret->name)
        return error_no_memory(e, "attributes", v.size);
    add_all(&written, &value);
    ret->type = v.type;
    ret->n_elems = v.n;
    ret->data = (struct bytes){written.to, v.size};
    return 1;
}

int rknn_attrs_all(const struct rknn_node *n, struct pool *pool,
                   const struct custom_attribute **ret, uint32_t *ret_n, struct error *e)
{
    bson_t b;
    bson_iter_t at;
    if (!open_bson(n, &b))
        return 0;
    uint32_t count = bson_count_keys(&b), taken = 0;
    struct custom_attribute *all = pool_alloc(pool, count, sizeof *all);
    if (!all || !bson_iter_init(&at, &b))
        return error_no_memory(e, "attributes", count * sizeof *all);
    while (taken < count && bson_iter_next(&at)) {
        int r = take(&at, pool, &all[taken], e);
        if (r < 0)
            return r;
        taken += (uint32_t)r;
    }
    *ret = all;
    *ret_n = taken;
    return 0;
}
