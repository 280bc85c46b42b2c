#include "kserve/model/served_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rknnd.h"

#include "base/cleanup.h"
#include "kserve/model/shared_input.h"

#define LANES       16
#define BATCH_LANES 2 // with more, requests run alone that could be gathered

// ---- what a model takes and gives ---------------------------------------------------------------

// Whether stored numbers stand for real values, by scale and zero point. Integers without these are
// counts, indices or masks, and go to clients as they are.
static bool holds_quantized(const rknn_tensor_attr *a)
{
    return a->qnt_type != RKNN_TENSOR_QNT_NONE &&
           (a->type == RKNN_TENSOR_INT8 || a->type == RKNN_TENSOR_UINT8 ||
            a->type == RKNN_TENSOR_INT16 || a->type == RKNN_TENSOR_INT4);
}

static bool holds_reals(const rknn_tensor_attr *a)
{
    return holds_quantized(a) || a->type == RKNN_TENSOR_FLOAT16 ||
           a->type == RKNN_TENSOR_BFLOAT16 || a->type == RKNN_TENSOR_FLOAT32;
}

// Pictures are bytes, whatever the model makes of them; other real values are FP32.
static int choose_datatype(const rknn_tensor_attr *a, bool is_input, struct served_tensor *ret,
                           struct error *e)
{
    bool picture = is_input && a->n_dims == 4 && holds_quantized(a) && a->type != RKNN_TENSOR_INT16;
    rknn_tensor_type type = picture          ? RKNN_TENSOR_UINT8
                            : holds_reals(a) ? RKNN_TENSOR_FLOAT32
                                             : a->type;
    *ret = (struct served_tensor){.type = datatype_of(type), .as_float = holds_reals(a)};
    memcpy(ret->name, a->name, sizeof ret->name);
    ret->name[sizeof ret->name - 1] = 0;
    if (!ret->type)
        return error_set(e, STATUS_MODEL_INVALID,
                         "%s %s is of type %s, for which the protocol has no datatype",
                         is_input ? "input" : "output", ret->name, get_type_string(type));
    return 0;
}

static int query_tensors(rknn_context c, rknn_query_cmd what, uint32_t n, rknn_tensor_attr *ret,
                         struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = (rknn_tensor_attr){.index = i};
        int r = rknn_query(c, what, &ret[i], sizeof ret[i]);
        if (r < 0)
            return library_error(e, r);
    }
    return 0;
}

static int query_set(struct served_model *m, rknn_context c, struct shape_set *set, struct error *e)
{
    set->inputs = calloc(m->n_inputs + 1, sizeof *set->inputs);
    set->outputs = calloc(m->n_outputs + 1, sizeof *set->outputs);
    if (!set->inputs || !set->outputs)
        return error_no_memory(e, "a model's tensors", 0);
    int r = query_tensors(c, RKNN_QUERY_CURRENT_INPUT_ATTR, m->n_inputs, set->inputs, e);
    return r < 0 ? r
                 : query_tensors(c, RKNN_QUERY_CURRENT_OUTPUT_ATTR, m->n_outputs, set->outputs, e);
}

// Shapes of set `number` as rknn_set_input_shapes() wants them.
static int choose_set(struct served_model *m, rknn_context c, unsigned number, struct error *e)
{
    cleanup(free_p) rknn_tensor_attr *shapes = calloc(m->n_inputs + 1, sizeof *shapes);
    cleanup(free_p) rknn_input_range *range = malloc(sizeof *range);
    if (!shapes || !range)
        return error_no_memory(e, "shapes", 0);
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        range->index = i;
        int r = rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range);
        if (r < 0)
            return library_error(e, r);
        shapes[i] = (rknn_tensor_attr){.index = i,
                                       .n_dims = range->n_dims,
                                       .fmt = range->n_dims == 4 ? RKNN_TENSOR_NHWC
                                                                 : RKNN_TENSOR_UNDEFINED};
        memcpy(shapes[i].dims, range->dyn_range[number], sizeof shapes[i].dims);
    }
    int r = rknn_set_input_shapes(c, m->n_inputs, shapes);
    return r < 0 ? library_error(e, r) : 0;
}

// Models without a choice of shapes answer the query with an error: they have one set.
static uint32_t count_sets(rknn_context c)
{
    cleanup(free_p) rknn_input_range *range = calloc(1, sizeof *range);
    if (!range || rknn_query(c, RKNN_QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range) < 0)
        return 1;
    return range->shape_number ? range->shape_number : 1;
}

// The first dimension, if all inputs and outputs have the same: that can be a batch. 0: they have
// not, so rows of different requests cannot be told apart, and none are run together.
static uint32_t first_of(const struct served_model *m, const struct shape_set *set)
{
    uint32_t first = m->n_inputs && set->inputs[0].n_dims ? set->inputs[0].dims[0] : 0;
    for (uint32_t i = 0; i < m->n_inputs + m->n_outputs; i++) {
        const rknn_tensor_attr *a =
            i < m->n_inputs ? &set->inputs[i] : &set->outputs[i - m->n_inputs];
        if (a->n_dims == 0 || a->dims[0] != first)
            return 0;
    }
    return first;
}

static bool same_but_first(const rknn_tensor_attr *a, const rknn_tensor_attr *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].n_dims != b[i].n_dims ||
            memcmp(a[i].dims + 1, b[i].dims + 1, (a[i].n_dims - 1) * sizeof *a[i].dims) != 0)
            return false;
    return true;
}

// Whether the first dimension of all tensors is that of samples: a guess from shapes alone, which
// --max-batch 1 is there to deny.
static void find_batching(struct served_model *m)
{
    m->batches = m->options->max_batch > 1;
    m->per_run = 1;
    for (uint32_t i = 0; i < m->n_sets; i++) {
        struct shape_set *s = &m->sets[i];
        s->samples = first_of(m, s);
        m->per_run = s->samples > m->per_run ? s->samples : m->per_run;
        m->batches = m->batches && s->samples > 0 &&
                     same_but_first(m->sets[0].inputs, s->inputs, m->n_inputs) &&
                     same_but_first(m->sets[0].outputs, s->outputs, m->n_outputs);
    }
    if (!m->batches)
        m->per_run = 1;
    m->max_lanes = m->options->lanes ? m->options->lanes : m->per_run > 1 ? BATCH_LANES : LANES;
}

static int describe_model(struct served_model *m, rknn_context c, struct error *e)
{
    rknn_input_output_num n;
    int r = rknn_query(c, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    if (r < 0)
        return library_error(e, r);
    rknnd_server_info server = {.struct_size = sizeof server};
    m->shares_memory =
        rknnd_get_server_info(NULL, &server) == 0 && strncmp(server.uri, "unix:", 5) == 0;
    m->n_inputs = n.n_input;
    m->n_outputs = n.n_output;
    uint32_t n_sets = count_sets(c);
    m->sets = calloc(n_sets, sizeof *m->sets);
    m->inputs = calloc(m->n_inputs + 1, sizeof *m->inputs);
    m->outputs = calloc(m->n_outputs + 1, sizeof *m->outputs);
    if (!m->sets || !m->inputs || !m->outputs)
        return error_no_memory(e, "a model", 0);
    while (m->n_sets < n_sets && r == 0) {
        r = n_sets > 1 ? choose_set(m, c, m->n_sets, e) : 0;
        if (r == 0)
            r = query_set(m, c, &m->sets[m->n_sets++], e);
    }
    for (uint32_t i = 0; r == 0 && i < m->n_inputs; i++)
        r = choose_datatype(&m->sets[0].inputs[i], true, &m->inputs[i], e);
    for (uint32_t i = 0; r == 0 && i < m->n_outputs; i++)
        r = choose_datatype(&m->sets[0].outputs[i], false, &m->outputs[i], e);
    if (r == 0)
        find_batching(m);
    return r;
}

// ---- lanes --------------------------------------------------------------------------------------

static int lane_open(struct served_model *m, rknn_context *ret, struct error *e)
{
    rknnd_set_load_options(m->load_options);
    int r = rknn_init(ret, m->path, 0, 0, NULL);
    rknnd_set_load_options(NULL);
    if (r < 0)
        return library_error(e, r);
    if (m->options->run_ms)
        rknnd_set_run_limit(*ret, m->options->run_ms);
    return 0;
}

static void lane_free(const struct served_model *m, struct lane *lane)
{
    lane_lost(m, lane);
    free(lane->room);
    free(lane);
}

void lane_lost(const struct served_model *m, struct lane *lane)
{
    for (uint32_t i = 0; lane->inputs && i < m->n_inputs; i++)
        shared_input_free(&lane->inputs[i], lane->context);
    free(lane->inputs);
    lane->inputs = NULL;
    if (lane->context)
        rknn_destroy(lane->context);
    lane->context = 0;
}

struct lane *lane_take_locked(struct served_model *m, bool wait)
{
    for (;;) {
        struct lane *lane = m->idle;
        if (lane) {
            m->idle = lane->next;
            return lane;
        }
        if (m->n_lanes < m->max_lanes && (lane = calloc(1, sizeof *lane))) {
            m->n_lanes++;
            return lane;
        }
        if (!wait || m->n_lanes == 0)
            return NULL;
        pthread_cond_wait(&m->freed, &m->lock);
    }
}

struct lane *lane_take(struct served_model *m, bool wait)
{
    pthread_mutex_lock(&m->lock);
    struct lane *lane = lane_take_locked(m, wait);
    pthread_mutex_unlock(&m->lock);
    return lane;
}

void lane_give_locked(struct served_model *m, struct lane *lane)
{
    lane->next = m->idle;
    m->idle = lane;
    pthread_cond_signal(&m->freed);
}

void lane_give(struct served_model *m, struct lane *lane)
{
    pthread_mutex_lock(&m->lock);
    lane_give_locked(m, lane);
    pthread_mutex_unlock(&m->lock);
}

int lane_ready(struct served_model *m, struct lane *lane, unsigned set, struct error *e)
{
    if (!lane->context) {
        int r = lane_open(m, &lane->context, e);
        if (r < 0)
            return r;
        lane->set = m->n_sets;
    }
    if (m->shares_memory && !lane->inputs && // without memory for it they are not shared
        m->n_inputs > 0)
        lane->inputs = calloc(m->n_inputs, sizeof *lane->inputs);
    if (m->n_sets == 1)
        lane->set = set;
    if (lane->set == set)
        return 0;
    int r = choose_set(m, lane->context, set, e);
    lane->set = r < 0 ? m->n_sets : set;
    return r;
}

bool lane_reserve(struct lane *lane, uint64_t size)
{
    if (size <= lane->room_size)
        return true;
    free(lane->room);
    lane->room = size <= PTRDIFF_MAX ? malloc((size_t)size) : NULL;
    lane->room_size = lane->room ? (size_t)size : 0;
    return lane->room != NULL;
}

// ---- life ---------------------------------------------------------------------------------------

static void served_model_free(struct served_model *m)
{
    while (m->idle) {
        struct lane *next = m->idle->next;
        lane_free(m, m->idle);
        m->idle = next;
    }
    for (uint32_t i = 0; i < m->n_sets; i++) {
        free(m->sets[i].inputs);
        free(m->sets[i].outputs);
    }
    free(m->sets);
    free(m->inputs);
    free(m->outputs);
    free(m->load_options);
    labels_done(&m->labels);
    pthread_cond_destroy(&m->freed);
    pthread_cond_destroy(&m->more);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void init_locks(struct served_model *m)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->freed, NULL);
    pthread_cond_init(&m->more, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int served_model_open(const char *path, const char *load_options, const struct served_options *o,
                      struct served_model **ret, struct error *e)
{
    struct served_model *m = calloc(1, sizeof *m);
    if (!m)
        return error_no_memory(e, "a model", sizeof *m);
    m->refs = 1;
    m->max_lanes = 1;
    m->options = o;
    init_locks(m);
    snprintf(m->path, sizeof m->path, "%s", path);
    m->load_options = load_options ? strdup(load_options) : NULL;
    struct lane *lane = lane_take(m, true);
    int r = !lane || (load_options && !m->load_options) ? error_no_memory(e, "a model", 0) : 0;
    if (r == 0)
        r = lane_open(m, &lane->context, e);
    if (r == 0 && lane)
        r = describe_model(m, lane->context, e);
    if (lane) {
        lane->set = m->n_sets; // whichever was described last
        lane_give(m, lane);
    }
    if (r < 0)
        served_model_free(m);
    else
        *ret = m;
    return r;
}

void served_model_note_run(struct served_model *m, uint64_t ns)
{
    m->run_ns = m->run_ns ? m->run_ns - m->run_ns / 8 + ns / 8 : ns;
}

struct served_model *served_model_ref(struct served_model *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void served_model_unref(struct served_model *m)
{
    if (m && atomic_fetch_sub(&m->refs, 1) == 1)
        served_model_free(m);
}
