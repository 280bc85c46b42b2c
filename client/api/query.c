// rknn_query: a table of commands, each with its struct, the sizes that it had in older headers,
// and the function that fills it. Nearly all is answered from what the server said when the context
// was opened.
#include <stdio.h>
#include <string.h>

#include "client/api/context.h"
#include "client/debug/perf_text.h"
#include "client/last_error.h"

#define API_VERSION "2.3.2" // of the vendor's runtime that has just these functions and structs

// Sizes of structs in programs that were compiled against older headers (abi notes).
#define OLD_TENSOR_ATTR_SIZE 372 // SDK 1.2: no h_stride
#define OLD_MEM_SIZE_SIZE    8   // SDK 1.3: weight and internal size only

union answer {
    rknn_input_output_num in_out_num;
    rknn_tensor_attr attr;
    rknn_perf_detail perf_detail;
    rknn_perf_run perf_run;
    rknn_sdk_version sdk_version;
    rknn_mem_size mem_size;
    rknn_custom_string custom_string;
    rknn_input_range input_range;
};

enum tensor_view { VIEW_LOGICAL, VIEW_NATIVE, VIEW_NATIVE_NHWC };

struct query {
    const char *name;
    uint32_t size, old_size; // of the struct
    int (*fill)(struct context *c, const struct query *q, union answer *ret, struct error *e);
    bool outputs, current; // of attributes; current: of the shapes that are set
    enum tensor_view view;
};

static int fill_in_out_num(struct context *c, const struct query *q, union answer *ret,
                           struct error *e)
{
    (void)q, (void)e;
    ret->in_out_num = (rknn_input_output_num){c->info.n_inputs, c->info.n_outputs};
    return 0;
}

// The vendor's runtime says AFFINE, with scale 1, of fp16 and int64 tensors that are not quantized,
// and programs rely on it (abi notes, 1).
static rknn_tensor_qnt_type qnt_to_program(const struct tensor_attr *a)
{
    bool implied = a->type == TENSOR_FLOAT16 || a->type == TENSOR_INT64;
    return a->qnt == TENSOR_QNT_NONE && implied ? RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC
                                                : (rknn_tensor_qnt_type)a->qnt;
}

// Internal attributes to the public struct; enumerators have the same values in both.
static void attr_to_program(const struct tensor_attr *a, uint32_t index, rknn_tensor_attr *ret)
{
    *ret = (rknn_tensor_attr){.index = index,
                              .n_dims = a->n_dims,
                              .n_elems = a->n_elems,
                              .size = a->size,
                              .fmt = (rknn_tensor_format)a->layout,
                              .type = (rknn_tensor_type)a->type,
                              .qnt_type = qnt_to_program(a),
                              .zp = a->zp,
                              .scale = a->scale,
                              .w_stride = a->w_stride,
                              .size_with_stride = a->size_with_stride,
                              .h_stride = a->h_stride};
    memcpy(ret->dims, a->dims, sizeof ret->dims);
    memcpy(ret->name, a->name, sizeof ret->name);
}

// Attributes of an input or output in one of three views. Without CURRENT it is the largest shape
// set, which a context shows first.
static int fill_attr(struct context *c, const struct query *q, union answer *ret, struct error *e)
{
    uint32_t n = q->outputs ? c->info.n_outputs : c->info.n_inputs, index = ret->attr.index;
    if (index >= n)
        return error_set(e, STATUS_PARAM_INVALID, "index %u: the model has %u %s", index, n,
                         q->outputs ? "outputs" : "inputs");
    uint32_t shape_set = q->current ? c->shape_set : c->largest_shape_set;
    const struct tensor_io *io =
        q->outputs ? context_output_in(c, shape_set, index) : context_input_in(c, shape_set, index);
    const struct tensor_attr *views[] = {&io->logical, &io->native, &io->native_nhwc};
    bool native = c->info.native_attrs && !q->current && q->view == VIEW_LOGICAL;
    attr_to_program(views[native ? VIEW_NATIVE : q->view], index, &ret->attr);
    // Programs write rows at the pitch that the query of the plain form says, too.
    if (q->view == VIEW_LOGICAL && !q->outputs) {
        ret->attr.w_stride = io->native_nhwc.w_stride;
        ret->attr.size_with_stride = io->native_nhwc.size_with_stride;
    }
    return 0;
}

// The input's shape in every set. Models of fixed shapes have no ranges: programs ask to find that
// out.
static int fill_input_range(struct context *c, const struct query *q, union answer *ret,
                            struct error *e)
{
    rknn_input_range *range = &ret->input_range;
    uint32_t index = range->index;
    (void)q;
    if (c->info.n_shape_sets == 1)
        return error_set(e, STATUS_FAIL, "the model's shapes are fixed");
    if (index >= c->info.n_inputs)
        return error_set(e, STATUS_PARAM_INVALID, "index %u: the model has %u inputs", index,
                         c->info.n_inputs);
    const struct tensor_attr *a = &context_input_in(c, 0, index)->logical;
    *range = (rknn_input_range){.index = index,
                                .shape_number = c->info.n_shape_sets,
                                .fmt = (rknn_tensor_format)a->layout,
                                .n_dims = a->n_dims};
    memcpy(range->name, a->name, sizeof range->name);
    for (uint32_t shape_set = 0; shape_set < c->info.n_shape_sets; shape_set++)
        memcpy(range->dyn_range[shape_set], context_input_in(c, shape_set, index)->logical.dims,
               sizeof range->dyn_range[shape_set]);
    return 0;
}

// The text belongs to the context: it is valid until the next such query or rknn_destroy().
static int fill_perf_detail(struct context *c, const struct query *q, union answer *ret,
                            struct error *e)
{
    char *text;
    size_t size;
    (void)q;
    if (!c->times.attempts)
        return error_set(e, STATUS_FAIL, "no run has ended yet");
    int r = perf_text_make(c, &text, &size, e);
    if (r < 0)
        return r;
    free(c->perf_text);
    c->perf_text = text;
    ret->perf_detail = (rknn_perf_detail){text, size};
    return 0;
}

static int fill_perf_run(struct context *c, const struct query *q, union answer *ret,
                         struct error *e)
{
    (void)q;
    if (!c->times.attempts)
        return error_set(e, STATUS_FAIL, "no run has ended yet");
    ret->perf_run.run_duration = (int64_t)c->times.run_us;
    return 0;
}

static int fill_sdk_version(struct context *c, const struct query *q, union answer *ret,
                            struct error *e)
{
    const rknnd_HelloReply *p = &c->connection->peer;
    rknn_sdk_version *v = &ret->sdk_version;
    const char *runtime = p->device.runtime_version;
    (void)q, (void)e;
    // Programs read a number at the start, as of the vendor's "2.3.2 (...)".
    if (runtime[0] >= '0' && runtime[0] <= '9')
        snprintf(v->api_version, sizeof v->api_version, "%s (librknnrt of rknnd %s)", runtime,
                 RKNND_VERSION);
    else
        snprintf(v->api_version, sizeof v->api_version, API_VERSION " (librknnrt of rknnd %s; %s)",
                 RKNND_VERSION, runtime);
    snprintf(v->drv_version, sizeof v->drv_version, "%s", p->device.driver_version);
    return 0;
}

// For 32-bit fields of public structs.
static uint32_t query_clamp(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

// The one value that changes while a context is open.
static int ask_free_sram(struct context *c, uint64_t *ret, struct error *e)
{
    rknnd_ServerStatus status;
    struct request r = {.type = MESSAGE_SERVER_STATUS, .reply = &status};
    int s = connection_call(c->connection, &r, &(rknnd_Empty){0}, e);
    if (s == 0)
        *ret = status.sram_free;
    return s;
}

// Sizes in bytes. SRAM is asked for only where the context uses some.
static int fill_mem_size(struct context *c, const struct query *q, union answer *ret,
                         struct error *e)
{
    const rknnd_ContextInfo *i = &c->info;
    uint64_t sram_free = 0;
    (void)q;
    int r = i->sram_total ? ask_free_sram(c, &sram_free, e) : 0;
    if (r < 0)
        return r;
    ret->mem_size = (rknn_mem_size){.total_weight_size = query_clamp(i->weight_size),
                                    .total_internal_size = query_clamp(i->internal_size),
                                    .total_dma_allocated_size = i->memory_size,
                                    .total_sram_size = query_clamp(i->sram_total),
                                    .free_sram_size = query_clamp(sram_free)};
    return 0;
}

static int fill_custom_string(struct context *c, const struct query *q, union answer *ret,
                              struct error *e)
{
    (void)q, (void)e;
    snprintf(ret->custom_string.string, sizeof ret->custom_string.string, "%s",
             c->info.custom_string);
    return 0;
}

#define ATTR(is_output, of)                                                                        \
    {                                                                                              \
        .name = "rknn_tensor_attr", .size = sizeof(rknn_tensor_attr),                              \
        .old_size = OLD_TENSOR_ATTR_SIZE, .fill = fill_attr, .outputs = (is_output), .view = (of)  \
    }
#define CURRENT(is_output, of)                                                                     \
    {                                                                                              \
        .name = "rknn_tensor_attr", .size = sizeof(rknn_tensor_attr),                              \
        .old_size = OLD_TENSOR_ATTR_SIZE, .fill = fill_attr, .outputs = (is_output), .view = (of), \
        .current = true                                                                            \
    }
#define PLAIN(type, member)                                                                        \
    {                                                                                              \
        .name = #type, .size = sizeof(type), .fill = fill_##member                                 \
    }

static const struct query queries[RKNN_QUERY_CMD_MAX] = {
    [RKNN_QUERY_IN_OUT_NUM] = PLAIN(rknn_input_output_num, in_out_num),
    [RKNN_QUERY_INPUT_ATTR] = ATTR(false, VIEW_LOGICAL),
    [RKNN_QUERY_OUTPUT_ATTR] = ATTR(true, VIEW_LOGICAL),
    [RKNN_QUERY_PERF_DETAIL] = PLAIN(rknn_perf_detail, perf_detail),
    [RKNN_QUERY_PERF_RUN] = PLAIN(rknn_perf_run, perf_run),
    [RKNN_QUERY_SDK_VERSION] = PLAIN(rknn_sdk_version, sdk_version),
    [RKNN_QUERY_MEM_SIZE] = {.name = "rknn_mem_size",
                             .size = sizeof(rknn_mem_size),
                             .old_size = OLD_MEM_SIZE_SIZE,
                             .fill = fill_mem_size},
    [RKNN_QUERY_CUSTOM_STRING] = PLAIN(rknn_custom_string, custom_string),
    [RKNN_QUERY_NATIVE_INPUT_ATTR] = ATTR(false, VIEW_NATIVE),
    [RKNN_QUERY_NATIVE_OUTPUT_ATTR] = ATTR(true, VIEW_NATIVE),
    [RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR] = ATTR(false, VIEW_NATIVE_NHWC),
    [RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR] = ATTR(true, VIEW_NATIVE_NHWC),
    [RKNN_QUERY_INPUT_DYNAMIC_RANGE] = PLAIN(rknn_input_range, input_range),
    [RKNN_QUERY_CURRENT_INPUT_ATTR] = CURRENT(false, VIEW_LOGICAL),
    [RKNN_QUERY_CURRENT_OUTPUT_ATTR] = CURRENT(true, VIEW_LOGICAL),
    [RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR] = CURRENT(false, VIEW_NATIVE),
    [RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR] = CURRENT(true, VIEW_NATIVE),
};

// The size tells which version of a struct the program was compiled with; only known ones are
// taken, so that nothing is written beyond it.
static int find_query(int cmd, uint32_t size, const struct query **ret, struct error *e)
{
    if (cmd < 0 || cmd >= RKNN_QUERY_CMD_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "command %d is not known", cmd);
    const struct query *q = &queries[cmd];
    if (!q->fill)
        return error_set(e, STATUS_FAIL,
                         "device memory info (command %d): the runtimes of RV1103 and RV1106 have "
                         "it, but no header says what it looks like; RKNN_QUERY_MEM_SIZE has sizes",
                         cmd);
    if (size != q->size && !q->old_size)
        return error_set(e, STATUS_PARAM_INVALID, "command %d with %u bytes; %s has %u", cmd, size,
                         q->name, q->size);
    if (size != q->size && size != q->old_size)
        return error_set(e, STATUS_PARAM_INVALID,
                         "command %d with %u bytes; %s has %u (%u in older programs)", cmd, size,
                         q->name, q->size, q->old_size);
    *ret = q;
    return 0;
}

// The answer is built in a heap block (rknn_input_range is too large for the stacks of small
// threads) and then cut to the program's struct.
static int query_query(struct context *c, int cmd, void *info, uint32_t size, struct error *e)
{
    const struct query *q = NULL;
    if (!info)
        return error_set(e, STATUS_PARAM_INVALID, "info is NULL");
    int r = find_query(cmd, size, &q, e);
    if (r < 0)
        return r;
    cleanup(free_p) union answer *answer = calloc(1, sizeof *answer);
    if (!answer)
        return error_no_memory(e, "an answer", sizeof *answer);
    if (q->fill == fill_attr)
        c->old_attrs = size == OLD_TENSOR_ATTR_SIZE;
    memcpy(answer, info, size); // an attribute's index
    r = q->fill(c, q, answer, e);
    if (r == 0)
        memcpy(info, answer, size);
    return r;
}

RKNN_EXPORT int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = context_enter(context, &c, &e);
    if (r == 0)
        r = query_query(c, (int)cmd, info, size, &e);
    // STATUS_FAIL: what this model or chip does not have, which programs try.
    return r == STATUS_FAIL ? last_error_keep_expected("rknn_query", r, &e)
                            : last_error_keep("rknn_query", r, &e);
}
