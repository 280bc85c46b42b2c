// The emulator of the NPU: whatever programs, task records and memory say, jobs end, in words or in
// what they write to memory that is mapped. Input: a byte for the chip, then {u16 register, u32
// value}. Two registers are the fuzzer's own: 0xfffe puts the value's low half into memory, and
// 0xffff ends a program. Its value's low bits say which blocks to start, 28 and 29 how often the
// program is its own next one, less one, and 30 and 31 what is waited for.
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "npu/emu/emu_job.h"

#define MEMORY  (1u << 18) // at address 0
#define PROGRAM (1u << 20) // the address of what runs
#define WORDS   2048
#define PAIR    6
#define LIMIT   (1u << 20) // products: a program should not take long here

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const chips[] = {"rk3588", "rk3568", "rk3562", "rk3576", "rv1106"};
#define N_CHIPS (sizeof chips / sizeof *chips)
static const uint16_t units[] = {0x101, 0x201, 0x401, 0x801, 0x1001, 0x2001, 0x4001, 0x8001, 0x401};

struct rig {
    struct emu_memory memory;
    struct emu_npu *npu;
    uint8_t bytes[MEMORY], words[WORDS * 8];
    uint32_t n;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void put(struct rig *rig, uint64_t unit, uint32_t offset, uint32_t value)
{
    write_le64(rig->words + (size_t)8 * rig->n++, unit << 48 | (uint64_t)value << 16 | offset);
}

static void run(struct rig *rig, uint32_t value)
{
    static const uint32_t interrupts[] = {EMU_INTERRUPT_DPU | EMU_INTERRUPT_PPU, EMU_INTERRUPT_DPU,
                                          EMU_INTERRUPT_PPU, 0};
    struct error e = {0};
    struct emu_task tasks[4];
    struct emu_result result;
    uint32_t amount = emu_npu_amount(rig->npu, rig->n), n = 1 + (value >> 28 & 3);
    for (uint32_t i = 0; i < n; i++)
        tasks[i] = (struct emu_task){PROGRAM, rig->n, interrupts[value >> 30]};
    put(rig, 0x101, EMU_PC_BASE_ADDRESS, PROGRAM);
    put(rig, 0x101, EMU_PC_REGISTER_AMOUNTS, amount);
    put(rig, 0x41, 0, 0);
    put(rig, 0x81, EMU_PC_OPERATION_ENABLE, value & 0x0fffffff);
    struct emu_job job = {.core = value >> 8 & 3, .tasks = tasks, .n = n};
    int r = emu_job_run(rig->npu, &job, &result, &e);
    check(r == 0 ? result.end == EMU_DONE && result.tasks == n
                 : result.end != EMU_DONE && r == e.code && e.text[0]);
    check(result.tasks <= n);
    rig->n = 0;
}

static void poke(struct rig *rig, uint32_t value)
{
    write_le16(rig->bytes + (size_t)(value >> 16) * (MEMORY / 65536), (uint16_t)value);
}

static void feed(struct rig *rig, const uint8_t *data, size_t size)
{
    for (; size >= PAIR; data += PAIR, size -= PAIR) {
        uint32_t offset = read_le16(data), value = read_le32(data + 2);
        if (offset == 0xfffe)
            poke(rig, value);
        else if (offset == 0xffff || rig->n == WORDS - EMU_TRAILER_WORDS)
            run(rig, value);
        else
            put(rig, units[offset >> 12 < 9 ? offset >> 12 : 0], offset, value);
    }
}

// What memory holds at first. Made once, since libFuzzer watches each turn of a loop.
static const uint8_t *first_bytes(void)
{
    static uint8_t bytes[MEMORY];
    if (!bytes[1])
        for (size_t i = 0; i < MEMORY; i++)
            bytes[i] = (uint8_t)(i * 37 + (i >> 8));
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rig *rig = calloc(1, sizeof *rig);
    if (size && rig) {
        memcpy(rig->bytes, first_bytes(), MEMORY);
        check(emu_memory_map(&rig->memory, 0, rig->bytes, MEMORY, NULL) == 0);
        check(emu_memory_map(&rig->memory, PROGRAM, rig->words, sizeof rig->words, NULL) == 0);
        check(emu_npu_new(chips[data[0] % N_CHIPS], &rig->memory, &rig->npu, NULL) == 0);
        emu_npu_limit(rig->npu, LIMIT);
        feed(rig, data + 1, size - 1);
        emu_npu_free(rig->npu);
        emu_memory_done(&rig->memory);
    }
    free(rig);
    return 0;
}
