// What the blocks of one task see: their registers, memory, tables. And what their decoders make of
// it, the same for all chips: a convolution (emu_conv), the DPU's stages (emu_dpu), a pool
// (emu_pool).
#pragma once

#include "base/error.h"
#include "npu/emu/emu_memory.h"
#include "npu/emu/emu_registers.h"
#include "tensor/arithmetic.h"

#define EMU_LUT_POINTS 513

struct emu_unit {
    const struct emu_chip *chip;
    const struct emu_memory *memory;
    const uint8_t *arithmetic;            // a choice for each enum chip_switch
    uint64_t limit;                       // of products, or of elements, that a task may take
    const uint32_t *block[EMU_N_BLOCKS];  // the group that this task uses; NULL: not enabled
    const int16_t (*lut)[EMU_LUT_POINTS]; // table LE, table LO
};

/// 0 where the block is not enabled.
uint32_t emu_get(const struct emu_unit *u, enum emu_register reg);

static inline uint32_t emu_get_field(const struct emu_unit *u, enum emu_register reg, unsigned high,
                                     unsigned low)
{
    return emu_field(emu_get(u, reg), high, low);
}

/// STATUS_PARAM_INVALID: "NAME (0x4070) holds 0x00000007: WHY".
int emu_refuse(const struct emu_unit *u, enum emu_register reg, const char *why, struct error *e);

/// As emu_refuse() for the first register of the task that holds something and that nothing reads.
int emu_refuse_unread(const struct emu_unit *u, struct error *e);

/// v / 2^shift to the nearest, ties to even.
static inline int64_t emu_round_even(int64_t v, uint32_t shift)
{
    if (!shift)
        return v;
    int64_t half = (int64_t)1 << (shift - 1), r = (v + half) >> shift;
    return (v & (2 * half - 1)) == half ? r & ~(int64_t)1 : r;
}

/// The same, or rounded down: as CHIP_SHIFT_… says.
static inline int64_t emu_round_chosen(unsigned choice, int64_t v, uint32_t shift)
{
    return choice == CHIP_SHIFT_DOWN ? v >> shift : emu_round_even(v, shift);
}

// Where a tensor lies: lanes of channels in an atom, atoms in lines, lines in surfaces.
//
//     address(c, y, x) = base + c / lanes * surface + y * line + x * pixel + c % lanes * bytes
struct emu_cube {
    uint64_t base;
    int64_t surface, line;
    uint32_t lanes, pixel;
    uint32_t bytes; // of an element: 1 (as 0), 2 or 4
    bool bf16;      // real numbers of two bytes: bf16, else fp16
};

/// Reads [channels][height][width] elements as they are into dst.
int emu_cube_read(const struct emu_memory *m, const struct emu_cube *cube, const uint32_t shape[3],
                  void *dst, struct error *e);
int emu_cube_write(const struct emu_memory *m, const struct emu_cube *cube, const uint32_t shape[3],
                   const void *src, struct error *e);

// The precisions that are modelled, by their codes.
enum emu_precision {
    EMU_INT8 = 0,
    EMU_INT16 = 1,
    EMU_FP16 = 2,
    EMU_BF16 = 3,
    EMU_INT32 = 4,
    EMU_FP32 = 5
};

/// Bytes of an element.
uint32_t emu_precision_bytes(enum emu_precision precision);

float emu_half_float(uint16_t half);

/// bf16 are the higher halves of floats.
float emu_bf16_float(uint16_t bf16);

/// To the nearest, ties to even; what is too large becomes infinite.
uint16_t emu_float_half(float value);

/// As emu_cube_read(), of whole numbers.
int emu_cube_read_integers(const struct emu_memory *m, const struct emu_cube *cube,
                           const uint32_t shape[3], int32_t *dst, struct error *e);

/// As emu_cube_read(), of int8 or real numbers.
int emu_cube_read_real(const struct emu_memory *m, const struct emu_cube *cube,
                       const uint32_t shape[3], float *dst, struct error *e);

// How the input's converter changes a channel, where x is a byte without sign but in the last.
struct emu_lane {
    int32_t factor, offset;
    uint32_t shift;
    enum {
        EMU_OFFSET_LAST,   // rne(x * factor / 2^shift) + offset
        EMU_OFFSET_SECOND, // rne((x * factor + offset) / 2^shift)
        EMU_OFFSET_FIRST,  // rne((x + offset) * factor / 2^shift), x with its sign
    } order;
};

#define EMU_LANES 4

// Of CONV_CON3: the steps of a transposed convolution, less one (bits 13-11 and 10-8), and what is
// neither these nor strides (5-3, 2-0) nor dilations less one (25-21, 20-16).
#define EMU_DECONV_STEPS 0x00003f00u
#define EMU_NO_STEPS     0xfc00c0c0u

// CNA and CORE.
struct emu_conv {
    bool real;         // fp16, or bf16 as the feature says; else int8
    uint32_t channels; // that are worked on
    uint32_t present;  // that are in memory; the others are the pad value
    uint32_t size[2];  // of the tile: height, width
    struct emu_cube feature;
    bool converts; // by a lane each: channels of a pixel, or every fourth one
    struct emu_lane lanes[EMU_LANES];
    bool depthwise;
    uint32_t kernel[2], stride[2], dilation[2]; // height, width
    uint32_t spread[2]; // transposed: pixels lie so far apart, with pads between; 0 is 1
    bool zeros_between; // … or with 0 between
    uint32_t pad_top, pad_left;
    int8_t pad_value;
    uint32_t out[3]; // channels, height, width
    uint32_t kernels;
    uint64_t weights;
    uint32_t weight_bytes, bytes_per_kernel;
    uint32_t kernel_block, channel_block, depthwise_block;
    bool alternating;   // of paired weights: one of them, then what is added to it
    bool paired;        // depthwise weights: two of them, then what is added to each
    int8_t weight_zero; // subtracted from each weight
    uint32_t clip;      // bits that sums lose on their way to the DPU
    // The image's lower half beside the upper one: out has twice the channels of the kernels, first
    // of the tile here, then of one that begins so many bytes behind it. That one has no pad on
    // top, and its last pad_bottom lines are the pad value.
    uint64_t lower_half; // 0: the whole image
    uint32_t pad_bottom;
    bool rows_of_16; // packed pixels: a kernel's row takes whole 16 bytes, four for each pixel
};

// What the CORE hands to the DPU.
struct emu_sums {
    uint32_t shape[3];        // channels, height, width
    int32_t *sums;            // malloc'ed
    float *real;              // instead, of fp16; malloc'ed
    int32_t *window;          // sums of the inputs behind each; malloc'ed
    uint32_t window_channels; // 1: all channels have the same
    uint32_t clip;            // bits that they lose, with what the DPU adds of `window`
};

/// The same in fp16. ret is for emu_sums_done(), on failure too.
int emu_conv_run_real(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                      struct error *e);
int emu_conv_run(const struct emu_conv *c, const struct emu_memory *m, struct emu_sums *ret,
                 struct error *e);
void emu_sums_done(struct emu_sums *s);

/// Products that it takes, or elements that it holds, whichever is more.
uint64_t emu_conv_work(const struct emu_conv *c);

// A number for all channels, or one for each; or none. Real numbers are floats' bits.
struct emu_operand {
    enum { EMU_NONE, EMU_ALL, EMU_EACH } kind;
    int32_t all;
    int32_t *each; // malloc'ed
};

// add, then multiply, then a shift of its own for negative numbers, then bounds:
//   v = (v + add + window * S) * factor >> shift        S: sum of the convolution's inputs
struct emu_multiply {
    struct emu_operand add, window, factor;
    uint32_t shift, negative_shift;
    unsigned rounding; // CHIP_SHIFT_…
    bool prelu;        // the factor is for negative numbers alone
    bool adds_last;    // v * factor + add >> shift
    int32_t low, high;
};

#define EMU_NO_BOUNDS .low = INT32_MIN, .high = INT32_MAX

enum emu_ew {
    EMU_EW_NONE,
    EMU_EW_ADD,
    EMU_EW_SUB,
    EMU_EW_MUL,
    EMU_EW_DIV, // of real numbers alone
    EMU_EW_MAX,
    EMU_EW_MIN,
    EMU_EW_LUT
};

// The second input of the EW unit: v op ((e + offset) * factor >> shift)
struct emu_second {
    enum emu_ew op;
    int32_t *values;      // [channels][height][width]; malloc'ed
    float *real;          // instead; malloc'ed
    bool one_per_channel; // [channels]
    int32_t offset, factor;
    uint32_t shift;
    unsigned rounding; // CHIP_SHIFT_…
};

// One of the two tables: entries every 2^bits from start on, and beyond the outer end a straight
// line from `outer` on.
struct emu_lut_side {
    const int16_t *entries;
    int32_t start, end, outer, slope;
    uint32_t bits, slope_shift;
    unsigned line, beyond; // CHIP_LINE_…: how both are rounded
};

/// The value at v, straight lines between entries. `below`: of the table for negative
/// numbers, whose outer end is its start.
int64_t emu_lut_at(const struct emu_lut_side *s, int64_t v, bool below);

// Where outputs go (emu_writer.c). Strides in bytes; a row is what one channel, or one pixel that
// is moved, begins at.
struct emu_target {
    enum { EMU_CUBE, EMU_TRANSPOSED, EMU_MOVED, EMU_STREAM } kind;
    struct emu_cube cube; // of the other kinds: base and bytes
    int64_t row, line;
    uint32_t rows, blocks, columns, unit; // transposed
    int64_t block, outer;
    uint32_t
        repeat[2];     // a cube of one surface: lines so often, a surface apart, and pixels; 0 is 1
    uint32_t tail;     // stream: bytes of a line's last atom, 0 for all
    uint32_t piece;    // stream: bytes behind which a new atom begins, 0 for none
    uint32_t together; // stream: surfaces whose atoms of a pixel come one after the other; 0 is 1
    uint32_t atom;     // moved: its bytes; 0 is 16
};

/// Puts `value`, of `bytes` (1 or 2), into all elements of [channels][height][width] from channel
/// `first` on; first 0: into none.
void emu_fill_channels(uint8_t *raw, const uint32_t shape[3], uint32_t bytes, uint32_t first,
                       uint16_t value);

int emu_write(const struct emu_memory *m, const struct emu_target *t, const uint32_t shape[3],
              const void *src, struct error *e);

struct emu_dpu {
    uint32_t shape[3]; // channels, height, width
    enum emu_precision in, out;
    bool real; // computes in fp32, else in integers
    bool from_core;
    struct emu_cube source; // else
    float *main;            // instead, real numbers that two readers have fetched; malloc'ed
    struct emu_multiply bs, bn;
    struct emu_second ew;
    struct emu_lut_side lut[2]; // of negative numbers, of the others
    int32_t ew_low, ew_high;
    int32_t scale, offset;
    uint32_t shift;
    bool away;             // ties go away from zero
    bool offset_behind;    // the shift
    unsigned sum_rounding; // CHIP_SHIFT_…
    uint32_t minus_exp;    // of real numbers: the output is 2^-minus_exp of it
    // Of real numbers: of so many channels of each pixel the largest is written alone; 0: all are.
    // `counted`: how many of the first of these count, 0 for all.
    uint32_t maxima, counted;
    struct emu_target target;
    uint32_t channels; // that are written
    uint32_t lines[2]; // height and width that are written, of as many pixels; 0: those of shape
    // Those from real_channels on (0: all are real) get `behind`, as it is stored.
    uint32_t real_channels;
    uint16_t behind;
};

/// What is written: channels, height, width. Channels that `behind` stands in may be more than
/// there are.
void emu_written_shape(const struct emu_dpu *d, uint32_t ret[3]);

/// `sums`: of the core, if the plan takes them.
int emu_dpu_run(const struct emu_dpu *d, const struct emu_memory *m, const struct emu_sums *sums,
                struct error *e);
int emu_dpu_run_real(const struct emu_dpu *d, const struct emu_memory *m,
                     const struct emu_sums *sums, struct error *e);
void emu_dpu_done(struct emu_dpu *d);

int emu_pool_run(const struct emu_unit *u, struct error *e);

// What differs between generations.
struct emu_chip {
    const char *name;
    enum emu_generation generation;
    uint32_t atom; // its bytes
    uint32_t kernel_block, depthwise_block;
    uint32_t group;       // channels of a group of A, B and C
    uint32_t pool_format; // that stands for int8
    uint32_t fetch_scale; // words of a program for each of its amount
    uint32_t task_bits;   // of TASK_CON that count tasks
    uint32_t task_status; // where TASK_STATUS is
    uint32_t stride_unit; // bytes that strides in the DPU's registers count, of emu_dpu_rk3562()
    uint32_t less_one;    // what sizes in the CNA's registers are short of
    int (*conv)(const struct emu_unit *u, struct emu_conv *ret, struct error *e);
    /// On failure, too, emu_dpu_done(ret).
    int (*dpu)(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e);
};

/// NULL: the emulator does not know the chip ("rk3588", …).
const struct emu_chip *emu_chip_find(const char *name);

// ---- the decoders' own ----

/// Ranges of a cube's three sizes are checked: each at most 65536, and the unit's limit of
/// elements.
int emu_check_shape(const struct emu_unit *u, const uint32_t shape[3], struct error *e);

/// Fills scale, shift, offset and away; refuses what would not fit 64 bits on the way.
int emu_decode_conversion(const struct emu_unit *u, struct emu_dpu *ret, struct error *e);

/// FEATURE_MODE must say what is enabled: `conv`, `depthwise` or, where the DPU reads memory,
/// `memory` in its bits 4 to 0 and, of RK3576, 30. And the RDMA must not wait for what it has to
/// fetch itself.
int emu_check_modes(const struct emu_unit *u, bool from_core, uint32_t conv, uint32_t depthwise,
                    uint32_t memory, struct error *e);

/// The reader must fetch what the DPU takes for its input; where it repeats pixels, it has a
/// precision of its own.
int emu_check_reader(const struct emu_unit *u, enum emu_precision in, struct error *e);

/// Upsampling by RDMA_SRC_DMA_CFG: pixels are repeated, one surface of atoms as they are. Sets the
/// source's precision to the target's, and how often.
int emu_decode_repeat(const struct emu_unit *u, struct emu_dpu *ret, struct error *e);

/// The largest fp16 of each pixel's channels, which a line is written of as a stream: one number
/// behind the other.
int emu_decode_maxima(const struct emu_unit *u, struct emu_dpu *ret, struct error *e);

/// RK3576: the same of a core's sums, eight of them each. d->shape becomes the core's.
int emu_decode_core_maxima(const struct emu_unit *u, struct emu_dpu *d, struct error *e);

/// The positive and the negative shift of a multiplication.
int emu_check_shifts(const struct emu_unit *u, const struct emu_multiply *m, struct error *e);

/// The operand of EW: a cube, or a value for each channel. values is for emu_dpu_done().
int emu_read_second(const struct emu_unit *u, const struct emu_cube *cube, const uint32_t shape[3],
                    bool real, struct emu_second *ret, struct error *e);

/// Reads those of A, B and C that `which` has bits for (1, 2, 4), of each channel: in groups, of
/// each group A's (int32, or fp32), then B's, then C's (int16, or fp16).
int emu_read_table(const struct emu_unit *u, uint64_t address, uint32_t channels, unsigned which,
                   bool real, struct emu_operand abc[3], struct error *e);

/// A slope of each channel, of negative numbers, as BN's factor. `alone`: BN does nothing else.
int emu_read_slopes(const struct emu_unit *u, struct emu_dpu *d, bool alone, struct error *e);

/// The value of pads: of all channels alike, in a register that may hold it in each of its bytes.
int emu_decode_pad(const struct emu_unit *u, enum emu_register reg, int8_t *ret, struct error *e);

/// Bytes from a line of packed pixels to the next one, where LINE_STRIDE counts the atoms of all
/// `rows` lines, which have `bytes` each; container 2 counts those of one line.
int emu_decode_packed_line(const struct emu_unit *u, uint32_t rows, uint32_t bytes, int64_t *ret,
                           struct error *e);

/// Fills in shifts of the converter's lanes, of CVT_CON0.
void emu_decode_lane_shifts(const struct emu_unit *u, struct emu_conv *c);

/// Registers of the offsets, where they are not in one register with the factors.
extern const enum emu_register emu_lane_offsets[EMU_LANES];

/// The converter of such a chip, whose CVT_CON0 is `bypassed` where it does nothing: c->converts
/// says whether it works.
int emu_decode_lanes_apart(const struct emu_unit *u, struct emu_conv *c, bool packed,
                           uint32_t bypassed, struct error *e);

/// The two tables by the registers that RK3588, RK3568 and RK3562 have. `cfg`: the one LUT_CFG that
/// is known.
int emu_decode_lut(const struct emu_unit *u, uint32_t cfg, struct emu_lut_side ret[2],
                   struct error *e);

/// STATUS_PARAM_INVALID where steps do not fill the ranges.
int emu_check_lut(const struct emu_unit *u, const struct emu_lut_side ret[2], struct error *e);

static inline bool emu_is_rk3568(const struct emu_unit *u)
{
    return u->chip->generation == EMU_RK3568;
}

int emu_conv_rk3588(const struct emu_unit *u, struct emu_conv *ret, struct error *e);
int emu_dpu_rk3588(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e);
int emu_conv_rk3562(const struct emu_unit *u, struct emu_conv *ret, struct error *e);
int emu_dpu_rk3562(const struct emu_unit *u, bool from_core, struct emu_dpu *ret, struct error *e);
int emu_conv_rv1106(const struct emu_unit *u, struct emu_conv *ret, struct error *e);
