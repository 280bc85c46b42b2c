// The register programs of .rknn files: whatever the bytes, programs whose every address is inside
// its part of memory, or words.
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/program/rknn_program.h"

#define MAX_MEMORY ((uint64_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_tasks(const struct rknn_program *p, const struct rknn_schedule *s)
{
    for (uint64_t i = 0; i < (uint64_t)p->file->n_nodes * s->n_cores; i++)
        check(s->tasks[i].n <= p->n_tasks && s->tasks[i].first <= p->n_tasks - s->tasks[i].n);
}

static void load(const struct rknn_program *p)
{
    const uint64_t sizes[RKNN_N_PARTS] = {p->n_commands * 8, p->constants_size, p->arena_size};
    const uint64_t bases[RKNN_N_PARTS] = {0};
    struct error e = {0};
    for (uint64_t i = 0; i < p->n_patches; i++)
        check(p->patches[i].command < p->n_commands &&
              p->patches[i].offset < sizes[p->patches[i].part]);
    for (uint32_t i = 0; i < p->n_tasks; i++)
        check(p->tasks[i].first + p->tasks[i].n_commands + 4 <= p->n_commands);
    for (uint32_t i = 0; i < RKNN_MAX_CORES; i++)
        check_tasks(p, &p->one[i]);
    for (uint32_t i = 0; i < RKNN_MAX_CORES - 1; i++)
        check_tasks(p, &p->several[i]);
    if (p->constants_size > MAX_MEMORY || p->arena_size > MAX_MEMORY)
        return;
    cleanup(free_p) uint8_t *constants = malloc(p->constants_size + 1);
    cleanup(free_p) uint8_t *arena = malloc(p->arena_size + 1);
    cleanup(free_p) uint64_t *commands = malloc(p->n_commands * 8 + 1);
    check(constants && arena && commands);
    rknn_program_constants(p, constants);
    rknn_program_arena(p, arena);
    check(rknn_program_relocate(p, bases, commands, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rknn_file f;
    struct rknn_program p;
    struct error e = {0};
    if (rknn_file_open(&f, (struct bytes){data, size}, &e) < 0)
        return 0;
    const struct chip *chip = chip_find(f.chip);
    e = (struct error){0};
    if (chip && rknn_program_open(&p, &f, chip, &e) == 0) {
        load(&p);
        rknn_program_done(&p);
    } else {
        check(!chip || (e.code < 0 && e.text[0]));
    }
    rknn_file_done(&f);
    return 0;
}
