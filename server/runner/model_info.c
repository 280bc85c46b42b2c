// What a loaded model is, as its backend describes it. Filled once, when the runner has loaded the
// model, from a worker's message or from the backend in this process; read-only afterwards.
#include "server/runner/model_info.h"

#include <stdlib.h>
#include <string.h>

static void model_info_free_custom(struct model_info *info)
{
    custom_list_free(info->custom);
    free((uint8_t *)info->custom_payload.data);
}

void model_info_done(struct model_info *info)
{
    free(info->tensors);
    model_info_free_custom(info);
}

void model_info_take_message(struct model_info *info, const rknnd_ContextInfo *m)
{
    info->n_inputs = m->n_inputs;
    info->n_outputs = m->n_outputs;
    info->n_shape_sets = m->n_shape_sets ? m->n_shape_sets : 1;
    info->native_attrs = m->native_attrs;
    info->no_custom = m->no_custom;
    info->weight_size = m->weight_size;
    info->internal_size = m->internal_size;
    info->memory_size = m->memory_size;
    info->context_size = m->context_size;
    info->core_limit = m->core_limit;
    info->batch = m->batch;
    info->estimate_assumed = m->estimate_assumed;
    info->n_unestimated = m->n_unestimated;
    message_set_text(info->custom_string, m->custom_string);
    message_set_text(info->estimate_chip, m->estimate_chip);
}

// Decodes the list and keeps the encoded form as well, since CustomListReply sends it on unchanged.
// *payload is advanced only on success.
int model_info_take_custom(struct model_info *info, struct bytes *payload, uint32_t n,
                           struct error *e)
{
    struct bytes rest = *payload;
    struct custom_list *list;
    int r = custom_list_decode(&rest, n, &list, e);
    if (r < 0)
        return r;
    size_t size = payload->size - rest.size;
    uint8_t *copy = malloc(size + 1);
    if (!copy) {
        custom_list_free(list);
        return error_no_memory(e, "custom operators", size);
    }
    if (size > 0)
        memcpy(copy, payload->data, size);
    model_info_free_custom(info);
    info->custom = list;
    info->custom_payload = (struct bytes){copy, size};
    *payload = rest;
    return 0;
}
