// What a loaded model is.
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

uint64_t model_info_output_size(const struct model_info *info, uint32_t row)
{
    const struct tensor_io *outputs = model_info_row(info, row) + info->n_inputs;
    uint64_t size = 0;
    for (uint32_t i = 0; i < info->n_outputs; i++)
        size += outputs[i].logical.size;
    return size;
}

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
