// npu/model/rknn/program for Python (loader.py): a file's command stream, relocated.
#include <stdlib.h>

#include "npu/model/rknn/program/rknn_program.h"

#define PUBLIC __attribute__((visibility("default")))

struct loader {
    struct rknn_file file;
    struct rknn_program program;
    struct error error;
    bool open;
};

PUBLIC struct loader *loader_new(const uint8_t *data, size_t size);
PUBLIC void loader_free(struct loader *l);
PUBLIC const char *loader_error(const struct loader *l);
PUBLIC uint64_t loader_number(const struct loader *l, const char *name);
PUBLIC int loader_place(const struct loader *l, uint32_t tensor, uint64_t *offset);
PUBLIC int loader_relocate(struct loader *l, const uint64_t *bases, uint64_t *commands);
PUBLIC int loader_task(const struct loader *l, uint32_t node, uint32_t n_cores, uint32_t core,
                       uint32_t k, uint64_t ret[4]);

struct loader *loader_new(const uint8_t *data, size_t size)
{
    struct loader *l = calloc(1, sizeof *l);
    if (!l || rknn_file_open(&l->file, (struct bytes){data, size}, &l->error) < 0)
        return l;
    const struct chip *chip = chip_find(l->file.chip);
    l->open = chip && rknn_program_open(&l->program, &l->file, chip, &l->error) == 0;
    if (!l->open)
        rknn_file_done(&l->file);
    return l;
}

void loader_free(struct loader *l)
{
    if (l && l->open) {
        rknn_program_done(&l->program);
        rknn_file_done(&l->file);
    }
    free(l);
}

const char *loader_error(const struct loader *l)
{
    return l->open ? NULL : l->error.text;
}

uint64_t loader_number(const struct loader *l, const char *name)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"commands", l->program.n_commands},    {"constants", l->program.constants_size},
        {"arena", l->program.arena_size},       {"addresses", l->program.counts.addresses},
        {"patched", l->program.counts.patched}, {"links", l->program.counts.links},
        {"tasks", l->program.n_tasks},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0)
            return numbers[i].value;
    abort();
}

int loader_place(const struct loader *l, uint32_t tensor, uint64_t *offset)
{
    *offset = l->program.places[tensor].offset;
    return (int)l->program.places[tensor].part;
}

int loader_relocate(struct loader *l, const uint64_t *bases, uint64_t *commands)
{
    return rknn_program_relocate(&l->program, bases, commands, &l->error);
}

// The k-th task of a node for a core: its number, enable word, first command and length. 0: none.
int loader_task(const struct loader *l, uint32_t node, uint32_t n_cores, uint32_t core, uint32_t k,
                uint64_t ret[4])
{
    const struct rknn_schedule *s =
        n_cores == 1 ? &l->program.one[core] : &l->program.several[n_cores - 2];
    if (!s->n_cores)
        return 0;
    struct rknn_range range = s->tasks[node * n_cores + (n_cores == 1 ? 0 : core)];
    if (k >= range.n)
        return 0;
    const struct rknn_program_task *t = &l->program.tasks[range.first + k];
    memcpy(ret, (uint64_t[]){range.first + k, t->enable, t->first, t->n_commands}, 4 * sizeof *ret);
    return 1;
}
