// Which registers a generation has, and what is known of each bit: read, without effect (and why),
// or not known, which ends the task.
#include "npu/emu/emu_registers.h"

#define X(name, rk3588, rk3568, rk3562, rk3576, rv1106)                                            \
    {#name, {rk3588, rk3568, rk3562, rk3576, rv1106}},
static const struct {
    const char *name;
    uint16_t at[EMU_N_GENERATIONS];
} registers[EMU_N_REGISTERS] = {EMU_REGISTERS(X)};
#undef X

#define RK3588 (1u << EMU_RK3588)
#define RK3568 (1u << EMU_RK3568)
#define RK3562 (1u << EMU_RK3562)
#define RK3576 (1u << EMU_RK3576)
#define RV1106 (1u << EMU_RV1106)
#define EVERY  ((1u << EMU_N_GENERATIONS) - 1)
#define OLD    (RK3588 | RK3568)
#define NEW    (RK3562 | RK3576)

// Registers that programs set and that change no result.
static const struct {
    uint16_t first, last;
    uint32_t generations; // a bit for each
    const char *why;
} without_effect[] = {
    {0x1010, 0x1010, EVERY, "rows that are fetched ahead"},
    {0x1018, 0x1018, RK3568, "lengths of bursts"},
    {0x1018, 0x1018, NEW, "how the chip's buffer is divided"},
    {0x1028, 0x1028, OLD | RV1106, "the output's width, as CORE_SIZE0 says"},
    {0x102c, 0x102c, OLD | RV1106, "the output's pixels, as CORE_SIZE0 says"},
    {0x1030, 0x1030, NEW, "the output's width, as CORE_SIZE0 says"},
    {0x1034, 0x1034, NEW, "the output's pixels, as CORE_SIZE0 says"},
    {0x1038, 0x103c, NEW, "how the chip's buffer is divided"},
    {0x1040, 0x1044, EVERY, "how the chip's buffer is divided"},
    {0x103c, 0x103c, RV1106, "how the chip's buffer is divided"},
    {0x1048, 0x1048, RV1106, "how the chip's buffer is divided"},
    {0x108c, 0x108c, RV1106, "which bytes of an atom are read"},
    {0x1188, 0x1188, RV1106, "weights of a part of a kernel"},
    {0x118c, 0x118c, RV1106, "the width once more"},
    {0x106c, 0x106c, NEW, "lengths of bursts"},
    {0x1070, 0x1070, NEW, "PAD_CON1 before the converter"},
    {0x1078, 0x1078, OLD | RV1106, "lengths of bursts"},
    {0x1084, 0x1088, OLD | RV1106, "the window of the DMA, inside which DATA_SIZE0 reads"},
    {0x108c, 0x108c, NEW, "lengths of bursts"},
    {0x1098, 0x1098, NEW, "rows that are read"},
    {0x118c, 0x118c, NEW, "the width once more"},
    {0x200c, 0x200c, RK3568, "as CONV_CON1"},
    {0x40c0, 0x40d0, NEW, "which bytes of an atom are written"},
    {0x5024, 0x5024, RK3568, "channels once more"},
    {0x5030, 0x5030, RK3568, "channels once more"},
    {0x503c, 0x503c, RK3568, "gaps of the operand, as EW_SURF_STRIDE says"},
    {0x5068, 0x5068, EVERY, "shares of the memory's bandwidth"},
    {0x506c, 0x506c, NEW | RV1106, "gaps of the operand, as EW_SURF_STRIDE says"},
    {0x6048, 0x6050, EVERY, "pads of maxima, which never win; averages with pads are refused"},
    {0x60dc, 0x60dc, EVERY, "lengths of bursts"},
    {0x700c, 0x7014, EVERY, "the size that the pool's own registers say"},
    {0x7018, 0x7018, RK3568, "lengths of bursts"},
    {0x8000, 0x803c, EVERY, "priorities of the memory's users"},
};

// Of registers that are not read, or not refused, as a whole: bits that are read (why: NULL), and
// bits that change no result.
static const struct {
    enum emu_register reg;
    uint32_t generations, bits;
    const char *why;
} fields[] = {
    {EMU_CONV_CON1, RK3588, 0x2001f3ff, NULL},
    {EMU_CONV_CON1, RK3588, 0x40000000, "packed pixels: how they are fetched"},
    {EMU_CONV_CON1, RK3568, 0x0001f77f, NULL},
    {EMU_CONV_CON1, NEW, 0x2021ffff, NULL},
    {EMU_CONV_CON1, RK3562, 0x14000000, "which tasks share the chip's buffer"},
    {EMU_CONV_CON3, NEW, 0x0fffffff, NULL},
    {EMU_CONV_CON3, NEW, 0xf0000000, "how many cores share the work"},
    {EMU_DATA_SIZE0, OLD, 0x07ff07ff, NULL},
    {EMU_DATA_SIZE1, OLD, 0x3fffffff, NULL},
    {EMU_DATA_SIZE1, NEW, 0x00003fff, NULL},
    {EMU_DATA_SIZE1, NEW, 0xffff0000, "how the chip's buffer is divided"},
    {EMU_DMA_SIZE, NEW, 0x0000ffff, NULL},
    {EMU_DMA_SIZE, NEW, 0xffff0000, "the width once more"},
    {EMU_WEIGHT_SIZE1, OLD, 0x0007ffff, NULL},
    {EMU_WEIGHT_SIZE1, NEW, 0x0000ffff, NULL},
    {EMU_WEIGHT_SIZE1, RK3562, 0x20000000, "how the chip's buffer is divided"},
    {EMU_WEIGHT_SIZE2, OLD | RK3562, 0x1f1f3fff, NULL},
    {EMU_WEIGHT_ZERO, NEW, 0x0000ffff, NULL},
    {EMU_CVT_CON0, EVERY, 0x0fffffff, NULL},
    {EMU_PAD_CON0, RK3588, 0x000000ff, NULL},
    {EMU_PAD_CON0, RK3568, 0xffff00ff, NULL},
    {EMU_PAD_CON0, NEW, 0x0000ffff, NULL},
    {EMU_PAD_CON0, NEW, 0xffff0000, "right and bottom, which follow from the sizes"},
    {EMU_LINE_STRIDE, EVERY, 0x0fffffff, NULL},
    {EMU_SURFACE_STRIDE, EVERY, 0x0fffffff, NULL},
    {EMU_CORE_SIZE1, EVERY, 0x0000ffff, NULL},
    {EMU_CLIP_TRUNCATE, NEW, 0x0000001f, NULL},
    {EMU_CLIP_TRUNCATE, NEW, 0x00000060, "how ties are rounded, by at most the last bit of a sum"},
    {EMU_FEATURE_MODE, EVERY, 0xfe00001f, NULL},
    {EMU_FEATURE_MODE, EVERY, 0x01fffe00, "elements of a transposed write, as other sizes say"},
    {EMU_FEATURE_MODE, EVERY, 0x000001e0, "lengths of bursts"},
    {EMU_DATA_FORMAT, OLD, 0xfc00fff7, NULL},
    {EMU_OFFSET_PEND, RK3588 | RK3576, 0x0000ffff, NULL},
    {EMU_CUBE_WIDTH, EVERY, 0x00001fff, NULL},
    {EMU_CUBE_HEIGHT, EVERY, 0x00001fff, NULL},
    {EMU_CUBE_HEIGHT, RK3588, 0x01c00000, NULL},
    {EMU_CUBE_HEIGHT, RK3576, 0x003f0000, NULL},
    {EMU_CUBE_NOTCH, EVERY, 0x00001fff, NULL},
    {EMU_CUBE_NOTCH, EVERY, 0x1fff0000, "the same for the second of two lines at once"},
    {EMU_CUBE_CHANNEL, EVERY, 0x00001fff, NULL},
    {EMU_CUBE_CHANNEL, RK3588, 0x1fff0000, NULL},
    {EMU_CUBE_CHANNEL, RK3568, 0x1fff0000, "channels that are written, as WDMA_SIZE_0 says"},
    {EMU_BS_CFG, RK3588, 0x000f01f3, NULL},
    {EMU_BS_CFG, RK3568, 0x000001ff, NULL},
    {EMU_BS_MUL_CFG, OLD, 0xffff3f01, NULL},
    {EMU_BS_MUL_CFG, RK3562, 0xffff0000, NULL},
    {EMU_BS_MUL_CFG, NEW, 0x00000003, "where operands come from, as BRDMA_CFG says"},
    {EMU_BS_OW_CFG, OLD, 0x08000003, NULL},
    {EMU_BS_OW_CFG, OLD | RK3562, 0x000007e0, "how much is written at once, as the bits below"},
    {EMU_BS_OW_CFG, RK3588, 0x0000001c, "how much is written at once"},
    {EMU_BS_OW_CFG, RK3568, 0x0000001c, NULL},
    {EMU_BS_OW_CFG, RK3562, 0x0030001f, NULL},
    {EMU_BS_OW_CFG, RK3576, 0x003f0000, NULL},
    {EMU_BS_OW_CFG, RK3576, 0x8000ffff, "how much is written at once"},
    {EMU_BS_OW_OP, OLD, 0x0000ffff, NULL},
    {EMU_BS_OW_OP, RK3568, 0xffff0000, "the sign once more"},
    {EMU_BS_OW_OP, RK3576, 0, NULL},
    {EMU_BS_ALU_CFG, RK3576, 0, NULL},
    {EMU_BN_ALU_CFG, RK3576, 0, NULL},
    {EMU_BN_MUL_CFG, RK3576, 0, NULL},
    {EMU_BS_OW_OP, RK3562, 0x003fffff, NULL},
    {EMU_BS_OW_OP, RK3562, 0x80000000, "that there is a shift of its own for negative numbers"},
    {EMU_WDMA_SIZE_0, RK3588, 0x0fff1fff, NULL},
    {EMU_WDMA_SIZE_0, NEW, 0xffff0000, NULL},
    {EMU_WDMA_SIZE_0, NEW, 0x00000fff, "how much is written at once"},
    {EMU_WDMA_SIZE_1, EVERY, 0x1fff1fff, NULL},
    {EMU_BN_CFG, RK3588, 0x000f01f3, NULL},
    {EMU_BN_CFG, RK3568, 0x000001ff, NULL},
    {EMU_BN_MUL_CFG, EVERY & ~RK3576, 0xffff3f01, NULL},
    {EMU_EW_CFG, RK3588, 0x300f07c7, NULL},
    {EMU_EW_CFG, RK3588, 0x80c00000, "the operand's precision, as ERDMA_CFG says"},
    {EMU_EW_CFG, RK3568, 0x300007df, NULL},
    {EMU_EW_CFG, RK3568, 0x80000000, "the operand's precision, as ERDMA_CFG says"},
    {EMU_EW_CVT_OFFSET, NEW, 0x0000ffff, NULL},
    {EMU_EW_CVT_OFFSET, NEW, 0xffff0000,
     "how many pieces a stream has, which follows from its sizes"},
    {EMU_EW_CVT_SCALE, EVERY, 0x003fffff, NULL},
    {EMU_OUT_CVT_SCALE, EVERY, 0x0000ffff, NULL},
    {EMU_OUT_CVT_SCALE, EVERY, 0x00010000, "fp32 becomes fp16, as DATA_FORMAT says"},
    {EMU_OUT_CVT_SHIFT, EVERY, 0xc00fffff, NULL},
    {EMU_LUT_INFO, EVERY, 0x00ffff00, NULL},
    {EMU_LUT_LE_SLOPE_SCALE, EVERY, 0x0000ffff, NULL},
    {EMU_LUT_LE_SLOPE_SHIFT, EVERY, 0x0000001f, NULL},
    {EMU_LUT_LO_SLOPE_SCALE, EVERY, 0xffff0000, NULL},
    {EMU_LUT_LO_SLOPE_SHIFT, EVERY, 0x000003e0, NULL},
    {EMU_RDMA_WIDTH, EVERY, 0x00001fff, NULL},
    {EMU_RDMA_HEIGHT, OLD, 0x1fff1fff, NULL},
    {EMU_RDMA_HEIGHT, NEW, 0x00001fff, NULL},
    {EMU_RDMA_CHANNEL, EVERY, 0x00001fff, NULL},
    {EMU_RDMA_BRDMA_CFG, OLD, 0x0000000e, NULL},
    {EMU_RDMA_BRDMA_CFG, OLD, 0x00000001, "that nothing is read"},
    {EMU_RDMA_NRDMA_CFG, OLD, 0x0000001e, NULL},
    {EMU_RDMA_NRDMA_CFG, OLD, 0x00000001, "that nothing is read"},
    {EMU_RDMA_NRDMA_CFG, RK3562 | RV1106, 0x0000001e, NULL},
    {EMU_RDMA_ERDMA_CFG, EVERY & ~RK3568, 0xc000000d, NULL},
    {EMU_RDMA_ERDMA_CFG, RK3568, 0xc0000001, NULL},
    {EMU_RDMA_ERDMA_CFG, RK3568, 0x0000000c, "the operand's precision, as DATA_FORMAT says"},
    {EMU_RDMA_ERDMA_CFG, RK3588, 0x00000002, "bursts across 4 KiB"},
    {EMU_RDMA_ERDMA_CFG, NEW, 0x10000040, "how two readers share an operand"},
    {EMU_RDMA_SRC_DMA_CFG, OLD, 0xfff83fff, NULL},
    {EMU_RDMA_SRC_DMA_CFG, NEW, 0x00003fff, NULL},
    {EMU_DST_SURF_STRIDE, RK3588 | RV1106, 0xfffffff0, NULL},
    {EMU_DST_SURF_STRIDE, RK3568, 0xfffffff8, NULL},
    {EMU_SURFACE_ADD, RK3588 | RV1106, 0xfffffff0, NULL},
    {EMU_SURFACE_ADD, RK3568, 0xfffffff8, NULL},
    {EMU_RDMA_EW_SURF_STRIDE, RK3588 | RV1106, 0xfffffff0, NULL},
    {EMU_RDMA_EW_SURF_STRIDE, RK3568, 0xfffffff8, NULL},
    {EMU_DATA_FORMAT, RK3562, 0xe000fc0f, NULL},
    {EMU_DATA_FORMAT, RV1106, 0xe000fc0f, NULL},
    {EMU_DATA_FORMAT, RV1106, 0x01800000, "what all programs for int8 have"},
    {EMU_DATA_FORMAT, RK3576, 0xe000000f, NULL},
    {EMU_CORE_MISC, RK3576, 0x00000fff, NULL},
    {EMU_CORE_MISC, RK3576, 0x10000000, "what most programs have"},
    {EMU_RDMA_FEATURE_MODE, EVERY, 0x00038711, NULL},
    {EMU_RDMA_FEATURE_MODE, EVERY, 0x00007800, "lengths of bursts"},
    {EMU_RDMA_FEATURE_MODE, EVERY, 0x000000ee, "what DATA_FORMAT and CONV_CON1 say"},
    {EMU_RDMA_FEATURE_MODE, RK3568, 0x00040000, "what DATA_FORMAT and CONV_CON1 say"},
    {EMU_RDMA_FEATURE_MODE, RK3576, 0x40000000, "how two readers share an operand"},
    {EMU_CONV_CON1, RV1106, 0x2001f3ff, NULL},
    {EMU_DATA_SIZE0, RV1106, 0x07ff07ff, NULL},
    {EMU_DATA_SIZE1, RV1106, 0x3fffffff, NULL},
    {EMU_WEIGHT_SIZE1, RV1106, 0x0007ffff, NULL},
    {EMU_WEIGHT_SIZE2, RV1106, 0x1f1f3fff, NULL},
    {EMU_CVT_CON0, RV1106, 0x10000000, "of a converter that works"},
    {EMU_PAD_CON0, RV1106, 0x0000ffff, NULL},
    {EMU_PAD_CON1, RV1106, 0x0000ffff, NULL},
    {EMU_CLIP_TRUNCATE, RV1106, 0x0000001f, NULL},
    {EMU_CLIP_TRUNCATE, RV1106, 0x00000060,
     "how ties are rounded, by at most the last bit of a sum"},
    {EMU_CUBE_CHANNEL, RV1106, 0x1fff1fff, NULL},
    {EMU_CUBE_WIDTH, RV1106, 0x00100000, NULL},
    {EMU_BS_MUL_CFG, RV1106, 0xffff0000, NULL},
    {EMU_BS_MUL_CFG, RV1106, 0x00000003, "where operands come from, as BRDMA_CFG says"},
    {EMU_BS_OW_CFG, RV1106, 0x0830001f, NULL},
    {EMU_BS_OW_CFG, RV1106, 0xf00007e0, "how much is written at once, as the bits below"},
    {EMU_BS_OW_OP, RV1106, 0x1f00ffff, NULL},
    {EMU_BS_OW_OP, RV1106, 0x80000000, "that there is a shift of its own for negative numbers"},
    {EMU_WDMA_SIZE_0, RV1106, 0x1fff0fff, "surfaces, and how much is written at once"},
    {EMU_RDMA_HEIGHT, RV1106, 0x00001fff, NULL},
    {EMU_RDMA_SRC_DMA_CFG, RV1106, 0xfff83fff, NULL},
    {EMU_RDMA_ERDMA_CFG, RV1106, 0x10000040, "how two readers share an operand"},
    {EMU_RDMA_FEATURE_MODE, RV1106, 0x00900000, "what DATA_FORMAT and CONV_CON1 say"},
    {EMU_EW_CVT_OFFSET, RV1106, 0x0000ffff, NULL},
    {EMU_POOL_IN_WIDTH, EVERY, 0x00001fff, NULL},
    {EMU_POOL_IN_HEIGHT, EVERY, 0x00001fff, NULL},
    {EMU_POOL_IN_CHANNEL, EVERY, 0x00001fff, NULL},
    {EMU_POOL_OUT_WIDTH, EVERY, 0x00001fff, NULL},
    {EMU_POOL_OUT_HEIGHT, EVERY, 0x00001fff, NULL},
    {EMU_POOL_OUT_CHANNEL, EVERY, 0x00001fff, NULL},
    {EMU_POOL_DST_SURF_STRIDE, EVERY, 0xfffffff0, NULL},
    {EMU_POOL_DST_SURF_STRIDE, RK3568, 0x00000008, NULL},
    {EMU_POOL_SRC_LINE_STRIDE, EVERY, 0xfffffff0, NULL},
    {EMU_POOL_SRC_LINE_STRIDE, RK3568, 0x00000008, NULL},
    {EMU_POOL_SRC_SURF_STRIDE, EVERY, 0xfffffff0, NULL},
    {EMU_POOL_SRC_SURF_STRIDE, RK3568, 0x00000008, NULL},
    {EMU_POOL_MODE, EVERY, 0x1fff0003, NULL},
    {EMU_POOL_MODE, EVERY, 0x00000010, "that the pool reads memory, as what is enabled says"},
    {EMU_POOL_KERNEL, EVERY, 0x00ff0f0f, NULL},
    {EMU_POOL_RECIP_WIDTH, EVERY, 0x0001ffff, NULL},
    {EMU_POOL_RECIP_HEIGHT, EVERY, 0x0001ffff, NULL},
    {EMU_POOL_PAD, EVERY, 0x00000077, NULL},
    {EMU_POOL_PAD, EVERY, 0x00007700, "right and bottom, which follow from the sizes"},
    {EMU_POOL_FORMAT, EVERY, 0x00000007, NULL},
    {EMU_POOL_FORMAT, EVERY, 0xfffffff0, "surfaces of indices, which are not written"},
    {EMU_POOL_FORMAT, RK3568, 0x00000008, "as before, of atoms of 8 bytes"},
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

static uint32_t known_of(enum emu_generation generation, enum emu_register reg)
{
    uint32_t bits = 0;
    bool listed = false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].reg == reg && fields[i].generations >> generation & 1) {
            bits |= fields[i].bits;
            listed = true;
        }
    return listed ? bits : ~0u;
}

uint32_t emu_register_known_bits(enum emu_generation generation, uint32_t offset)
{
    for (unsigned i = 0; i < EMU_N_REGISTERS; i++)
        if (registers[i].at[generation] == offset)
            return known_of(generation, (enum emu_register)i);
    return why_without_effect(generation, offset) ? ~0u : 0;
}

uint32_t emu_register_inert_bits(enum emu_generation generation, uint32_t offset)
{
    uint32_t bits = 0;
    bool named = false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (registers[fields[i].reg].at[generation] == offset && fields[i].why &&
            fields[i].generations >> generation & 1)
            bits |= fields[i].bits;
    for (unsigned i = 0; i < EMU_N_REGISTERS; i++)
        named = named || registers[i].at[generation] == offset;
    return named ? bits : emu_register_known_bits(generation, offset);
}

const char *emu_register_name_at(enum emu_generation generation, uint32_t offset)
{
    for (unsigned i = 0; i < EMU_N_REGISTERS; i++)
        if (registers[i].at[generation] == offset)
            return registers[i].name;
    return "without a name";
}
