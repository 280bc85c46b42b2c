// npu/emu for Python (emulator.py): one core, programs started one by one as a driver would.
#include <stdlib.h>

#include "npu/emu/emu_npu.h"

#define PUBLIC __attribute__((visibility("default")))

struct emulator {
    struct emu_memory memory;
    struct emu_npu *npu;
    struct error error;
};

PUBLIC struct emulator *emulator_new(const char *chip);
PUBLIC void emulator_free(struct emulator *emulator);
PUBLIC const char *emulator_error(const struct emulator *emulator);
PUBLIC int emulator_map(struct emulator *emulator, uint64_t address, void *host, size_t size);
PUBLIC int emulator_run(struct emulator *emulator, uint32_t commands, uint32_t program,
                        uint32_t words);

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

const char *emulator_error(const struct emulator *em)
{
    return em->error.text;
}

int emulator_map(struct emulator *em, uint64_t address, void *host, size_t size)
{
    return emu_memory_map(&em->memory, address, host, size, &em->error);
}

// Runs the program of n words before its trailer, at this offset behind `commands`.
int emulator_run(struct emulator *em, uint32_t commands, uint32_t program, uint32_t n)
{
    emu_npu_write(em->npu, 0, EMU_PC_TASK_DMA_BASE_ADDR, commands);
    emu_npu_write(em->npu, 0, EMU_PC_BASE_ADDRESS, program);
    emu_npu_write(em->npu, 0, EMU_PC_REGISTER_AMOUNTS, emu_npu_amount(em->npu, n));
    emu_npu_write(em->npu, 0, EMU_PC_TASK_CON, 1);
    emu_npu_write(em->npu, 0, EMU_PC_OPERATION_ENABLE, 1);
    return emu_npu_run(em->npu, 0, &em->error);
}
