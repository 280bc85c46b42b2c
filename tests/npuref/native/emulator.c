// npu/emu for Python (emulator.py): tasks run as a driver would.
#include <stdlib.h>

#include "npu/emu/emu_job.h"
#include "npu/emu/emu_unit.h"

#define MAX_TASKS 16
#define PUBLIC    __attribute__((visibility("default")))

struct emulator {
    struct emu_memory memory;
    struct emu_npu *npu;
    struct emu_result result;
    struct error error;
};

PUBLIC struct emulator *emulator_new(const char *chip);
PUBLIC void emulator_free(struct emulator *emulator);
PUBLIC void emulator_choose(struct emulator *emulator, uint32_t which, uint32_t choice);
PUBLIC const char *emulator_error(const struct emulator *emulator);
PUBLIC int emulator_map(struct emulator *emulator, uint64_t address, void *host, size_t size);
PUBLIC int emulator_watch(struct emulator *emulator, uint64_t address);
PUBLIC void emulator_meet(struct emulator *emulator);
PUBLIC int emulator_run(struct emulator *emulator, uint32_t core, uint64_t base,
                        const uint64_t (*tasks)[3], uint32_t n);
PUBLIC uint32_t emulator_end(const struct emulator *emulator);
PUBLIC uint32_t emulator_tasks(const struct emulator *emulator);
PUBLIC uint32_t emulator_interrupt(const struct emulator *emulator);
PUBLIC uint32_t emulator_read(const struct emulator *emulator, uint32_t core, uint32_t offset);

PUBLIC uint32_t emulator_bits(const char *chip, uint32_t offset, uint32_t inert);

// What is known of a register's bits: all that are, or those without effect.
uint32_t emulator_bits(const char *chip, uint32_t offset, uint32_t inert)
{
    enum emu_generation generation = emu_chip_find(chip)->generation;
    return inert ? emu_register_inert_bits(generation, offset)
                 : emu_register_known_bits(generation, offset);
}

PUBLIC const char *emulator_name(const char *chip, uint32_t offset);

const char *emulator_name(const char *chip, uint32_t offset)
{
    return emu_register_name_at(emu_chip_find(chip)->generation, offset);
}

struct emulator *emulator_new(const char *chip)
{
    struct emulator *em = calloc(1, sizeof *em);
    if (em && emu_npu_new(chip, &em->memory, &em->npu, &em->error) == 0)
        return em;
    free(em);
    return NULL;
}

void emulator_free(struct emulator *em)
{
    if (!em)
        return;
    emu_npu_free(em->npu);
    emu_memory_done(&em->memory);
    free(em);
}

void emulator_choose(struct emulator *em, uint32_t which, uint32_t choice)
{
    emu_npu_choose(em->npu, (enum chip_switch)which, choice);
}

const char *emulator_error(const struct emulator *em)
{
    return em->error.text;
}

int emulator_map(struct emulator *em, uint64_t address, void *host, size_t size)
{
    return emu_memory_map(&em->memory, address, host, size, &em->error);
}

int emulator_watch(struct emulator *em, uint64_t address)
{
    return emu_memory_watch(&em->memory, address, &em->error);
}

void emulator_meet(struct emulator *em)
{
    emu_memory_meet(&em->memory);
}

// Runs n tasks on a core, each {address, words, interrupt}.
int emulator_run(struct emulator *em, uint32_t core, uint64_t base, const uint64_t (*tasks)[3],
                 uint32_t n)
{
    struct emu_task known[MAX_TASKS] = {{0}};
    for (uint32_t i = 0; i < n && i < MAX_TASKS; i++)
        known[i] = (struct emu_task){tasks[i][0], (uint32_t)tasks[i][1], (uint32_t)tasks[i][2]};
    struct emu_job job = {
        .core = core, .tasks = known, .n = n < MAX_TASKS ? n : MAX_TASKS, .base = base};
    return emu_job_run(em->npu, &job, &em->result, &em->error);
}

uint32_t emulator_end(const struct emulator *em)
{
    return em->result.end;
}

uint32_t emulator_tasks(const struct emulator *em)
{
    return em->result.tasks;
}

uint32_t emulator_interrupt(const struct emulator *em)
{
    return em->result.interrupt;
}

uint32_t emulator_read(const struct emulator *em, uint32_t core, uint32_t offset)
{
    return emu_npu_read(em->npu, core, offset);
}
