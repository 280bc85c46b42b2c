// What a model takes of memory: sizes that the runtime reports (RKNN_QUERY_MEM_SIZE), where tensors
// are placed over time (description, "arena"), the chip's estimate, and the file's size.
#include "tools/run/memory_use.h"

#include <sys/stat.h>

#include "tools/run/description.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

int memory_measure(struct memory *m, const struct task *task, struct error *e)
{
    struct model model;
    struct stat file;
    int r = task_open(task, 0, &model, e);
    if (r == 0)
        r = print_get_server(&m->server, e);
    if (r == 0) {
        r = rknn_query(model.context, RKNN_QUERY_MEM_SIZE, &m->size, sizeof m->size);
        r = r < 0 ? rknn_error_model(e, r, task->model) : 0;
    }
    if (r == 0)
        r = description_get(task, &m->description, e);
    if (stat(task->model, &file) == 0)
        m->file_size = (uint64_t)file.st_size;
    else // a stored one
        m->file_size = (uint64_t)json_integer_value(json_object_get(m->description, "file_size"));
    model_close(&model);
    return r;
}

void memory_done(struct memory *m)
{
    json_decref(m->description);
    *m = (struct memory){0};
}

// Allocated beyond weights and internal tensors. A runtime that reports no total gives 0, not a
// negative rest.
uint64_t memory_other(const struct memory *m)
{
    const rknn_mem_size *s = &m->size;
    uint64_t known = (uint64_t)s->total_weight_size + s->total_internal_size;
    return s->total_dma_allocated_size > known ? s->total_dma_allocated_size - known : 0;
}

uint64_t memory_total(const struct memory *m)
{
    return (uint64_t)m->size.total_weight_size + m->size.total_internal_size + memory_other(m);
}

// The arena and estimate are shared with the description ("O": a reference more), null where it has
// none.
json_t *memory_json(const struct memory *m)
{
    const rknn_mem_size *s = &m->size;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O?, s:O?}", "weight_bytes",
                     (json_int_t)s->total_weight_size, "internal_bytes",
                     (json_int_t)s->total_internal_size, "other_bytes", (json_int_t)memory_other(m),
                     "total_bytes", (json_int_t)memory_total(m), "file_bytes",
                     (json_int_t)m->file_size, "sram_bytes", (json_int_t)s->total_sram_size,
                     "free_sram_bytes", (json_int_t)s->free_sram_size, "arena",
                     json_object_get(m->description, "arena"), "estimate",
                     json_object_get(m->description, "estimate"));
}
