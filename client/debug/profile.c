// Layer times of a context's last run, asked of the server (PROFILE) and turned into rknnd.h's
// list. The server's list is untrusted: counts are bounded, texts made printable.
#include "client/debug/profile.h"

#include "base/text/text.h"
#include "client/sized.h"

#define MAX_LAYERS 65536

int profile_take(struct bytes *rest, rknnd_Layer *ret, struct error *e)
{
    int r = message_delimited_take(rknnd_Layer_fields, rest, ret, e);
    if (r < 0)
        return error_prefix(e, "the server's list of layers");
    char *texts[] = {ret->name,   ret->op,           ret->type,
                     ret->target, ret->input_shapes, ret->output_shapes};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text_make_printable(texts[i]);
    return 0;
}

int profile_get(struct context *c, struct profile *ret, struct error *e)
{
    *ret = (struct profile){.list.limit = LIMIT_LIST_BYTES};
    if (!(c->flags & RKNN_FLAG_COLLECT_PERF_MASK))
        return 0;
    if (context_check_free(c, e) < 0)
        return e->code;
    rknnd_Profile m = {.context = c->info.context};
    struct request r = {.type = MESSAGE_PROFILE,
                        .reply = &ret->reply,
                        .payload = payload_take,
                        .owner = &ret->list};
    int s = connection_call(c->connection, &r, &m, e);
    if (s == 0 && ret->reply.n_layers > MAX_LAYERS)
        s = error_set(e, STATUS_FAIL, "a model with %u layers is too much", ret->reply.n_layers);
    return s;
}

void profile_done(struct profile *p)
{
    payload_done(&p->list);
}

// Bytes of a layer's texts with their terminating zeros.
static size_t text_size(const rknnd_Layer *l)
{
    return strlen(l->name) + strlen(l->op) + strlen(l->type) + strlen(l->target) +
           strlen(l->input_shapes) + strlen(l->output_shapes) + 6;
}

// Copies a text to *at and moves *at behind it.
static const char *put_text(char **at, const char *text)
{
    char *start = *at;
    *at = stpcpy(start, text) + 1;
    return start;
}

// Fills in one public layer; `work` and `at` are its places in the common block.
static void put_layer(const rknnd_Layer *l, rknnd_layer *ret, uint64_t *work, char **at)
{
    for (unsigned i = 0; i < l->core_work_count; i++)
        work[i] = l->core_work[i];
    *ret = (rknnd_layer){.struct_size = sizeof *ret,
                         .name = put_text(at, l->name),
                         .op = put_text(at, l->op),
                         .type = put_text(at, l->type),
                         .target = put_text(at, l->target),
                         .input_shapes = put_text(at, l->input_shapes),
                         .output_shapes = put_text(at, l->output_shapes),
                         .time_us = l->time_us,
                         .ddr_cycles = l->ddr_cycles,
                         .npu_cycles = l->npu_cycles,
                         .total_cycles = l->total_cycles,
                         .macs = l->macs,
                         .read_bytes = l->read_bytes,
                         .write_bytes = l->write_bytes,
                         .core_mask = l->core_mask,
                         .n_tasks = l->n_tasks,
                         .mac_cycles = l->mac_cycles,
                         .estimate_ns = l->estimate_ns,
                         .n_core_work = l->core_work_count,
                         .core_work = work};
}

// One malloc'ed block, so that one rknnd_free() frees all of it:
//
//     list | layers[n] | work[sum of n_core_work] | texts
//
// The server's list is read twice: for the size, then for the content.
int profile_to_program(const struct profile *p, rknnd_list **ret, struct error *e)
{
    uint32_t n = p->reply.n_layers;
    size_t size = 0, n_work = 0;
    rknnd_Layer l;
    struct bytes rest = profile_list(p);
    for (uint32_t i = 0; i < n; i++) {
        int r = profile_take(&rest, &l, e);
        if (r < 0)
            return r;
        size += text_size(&l);
        n_work += l.core_work_count;
    }
    void *extra;
    size += n_work * sizeof(uint64_t);
    rknnd_list *list = sized_list_new(n, sizeof(rknnd_layer), size, &extra);
    if (!list)
        return error_no_memory(e, "layers", size);
    rknnd_layer *layers = (rknnd_layer *)(list + 1);
    uint64_t *work = extra;
    char *at = (char *)(work + n_work);
    rest = profile_list(p);
    for (uint32_t i = 0; i < n && profile_take(&rest, &l, e) == 0; i++) {
        put_layer(&l, &layers[i], work, &at);
        work += l.core_work_count;
    }
    *ret = list;
    return 0;
}
