#include "npu/emu/emu_registers.h"

#define X(name, rk3588, rk3568, rk3562, rk3576) {#name, {rk3588, rk3568, rk3562, rk3576}},
static const struct {
    const char *name;
    uint16_t at[EMU_N_GENERATIONS];
} registers[EMU_N_REGISTERS] = {EMU_REGISTERS(X)};
#undef X

#define EVERY (1u << EMU_RK3588 | 1u << EMU_RK3568 | 1u << EMU_RK3562 | 1u << EMU_RK3576)
#define OLD   (1u << EMU_RK3588 | 1u << EMU_RK3568)
#define NEW   (1u << EMU_RK3562 | 1u << EMU_RK3576)

// Registers that programs set and that change no result.
static const struct {
    uint16_t first, last;
    uint32_t generations; // a bit for each
    const char *why;
} without_effect[] = {
    {0x1010, 0x1010, EVERY, "rows that are fetched ahead"},
    {0x1018, 0x1018, 1u << EMU_RK3568, "lengths of bursts"},
    {0x1018, 0x1018, NEW, "how the chip's buffer is divided"},
    {0x1028, 0x1028, OLD, "the output's width, as CORE_SIZE0 says"},
    {0x102c, 0x102c, OLD, "the output's pixels, as CORE_SIZE0 says"},
    {0x1030, 0x1030, NEW, "the output's width, as CORE_SIZE0 says"},
    {0x1034, 0x1034, NEW, "the output's pixels, as CORE_SIZE0 says"},
    {0x1038, 0x103c, NEW, "how the chip's buffer is divided"},
    {0x1040, 0x1044, EVERY, "how the chip's buffer is divided"},
    {0x106c, 0x106c, NEW, "lengths of bursts"},
    {0x1070, 0x1070, NEW, "PAD_CON1 before the converter"},
    {0x1078, 0x1078, OLD, "lengths of bursts"},
    {0x1084, 0x1088, OLD, "the window of the DMA, inside which DATA_SIZE0 reads"},
    {0x108c, 0x108c, NEW, "lengths of bursts"},
    {0x1098, 0x1098, NEW, "rows that are read"},
    {0x1180, 0x1180, 1u << EMU_RK3588, "the converter's channels, while it is bypassed"},
    {0x118c, 0x118c, NEW, "the width once more"},
    {0x200c, 0x200c, 1u << EMU_RK3568, "as CONV_CON1"},
    {0x40c0, 0x40d0, NEW, "which bytes of an atom are written"},
    {0x5024, 0x5024, 1u << EMU_RK3568, "channels once more"},
    {0x5030, 0x5030, 1u << EMU_RK3568, "channels once more"},
    {0x503c, 0x503c, 1u << EMU_RK3568, "gaps of the operand, as EW_SURF_STRIDE says"},
    {0x5068, 0x5068, EVERY, "shares of the memory's bandwidth"},
    {0x6048, 0x6050, EVERY, "pads of maxima, which never win; averages with pads are refused"},
    {0x60dc, 0x60dc, EVERY, "lengths of bursts"},
    {0x700c, 0x7014, EVERY, "the size that the pool's own registers say"},
    {0x7018, 0x7018, 1u << EMU_RK3568, "lengths of bursts"},
    {0x8000, 0x803c, EVERY, "priorities of the memory's users"},
};

uint16_t emu_register_at(enum emu_generation generation, enum emu_register reg)
{
    return registers[reg].at[generation];
}

const char *emu_register_name(enum emu_register reg)
{
    return registers[reg].name;
}

// Why a value in the register at `offset` changes no result; NULL: that is not known.
static const char *why_without_effect(enum emu_generation generation, uint32_t offset)
{
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++)
        if (offset >= without_effect[i].first && offset <= without_effect[i].last &&
            without_effect[i].generations >> generation & 1)
            return without_effect[i].why;
    return NULL;
}

bool emu_register_is_known(enum emu_generation generation, uint32_t offset)
{
    for (unsigned i = 0; i < EMU_N_REGISTERS; i++)
        if (registers[i].at[generation] == offset)
            return true;
    return why_without_effect(generation, offset);
}
