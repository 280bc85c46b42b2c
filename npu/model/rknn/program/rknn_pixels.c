// Facts: docs/rknn-format.md. Bypassed, the converter lets values through as they are. Else it
// makes round(x * scale / 2^truncate) + offset of each channel's bytes; RV1103 and RV1106 add the
// offset before they divide.
#include "npu/model/rknn/program/rknn_pixels.h"

#include "npu/model/rknn/regs/rknn_registers.h"

#define CNA_BLOCK    1
#define ATOM         16
#define MAX_CHANNELS 4

// CVT_CON0: the low bits say whether and how it converts; then come the truncations.
#define MODE_BITS      0xfu
#define TRUNCATE_LOW   4
#define TRUNCATE_WIDTH 6

// By 128 alone, as files without mean and deviation have it.
#define ONE       0x4000u // 2^ONE_BITS
#define ONE_BITS  14u
#define MINUS_128 (-128)

// Registers of a chip. Scales have 16 bits: the high halves of registers of their own, with the
// offset below, or two in a register.
struct converter_form {
    uint32_t bypass, converts; // the low bits of CVT_CON0
    bool paired, offset_first;
    enum rknn_register scales[MAX_CHANNELS], offsets[MAX_CHANNELS]; // S_POINTER: not known
};

// Part of a register's bits.
struct converter_field {
    uint32_t reg, mask, value;
};

#define UNKNOWN CNA_S_POINTER
#define APART                                                                                      \
    {                                                                                              \
        CNA_CVT_CON1, CNA_CVT_CON2, CNA_CVT_CON3, CNA_CVT_CON4                                     \
    }
#define PAIRED                                                                                     \
    {                                                                                              \
        CNA_CVT_SCALES, CNA_CVT_SCALES, CNA_CVT_CON2, CNA_CVT_CON2                                 \
    }
#define BEHIND                                                                                     \
    {                                                                                              \
        CNA_CVT_CON3, CNA_CVT_CON4, CNA_CVT_CON5, CNA_FC_CON0                                      \
    }

// Of fp16 files of RK3562, RK3576 and RV1126B say so that it is bypassed, and leave factors, and a
// zero point of a tensor that is elsewhere, in registers behind it.
#define HALVES_BYPASS 9u

// On RK3588 no converter that works has been seen.
static const struct converter_form converter_forms[CHIP_N_GENERATIONS] = {
    [CHIP_GEN_RK3588] = {0xb, 0xb, false, false, APART, APART},
    [CHIP_GEN_RK3566] = {0xa, 1, false, false, APART, APART},
    [CHIP_GEN_RK3562] = {0xb, 0, true, false, PAIRED, BEHIND},
    [CHIP_GEN_RK3576] = {0xb, 0, true, false, PAIRED, BEHIND},
    [CHIP_GEN_RV1106] = {9,
                         0,
                         true,
                         true,
                         {CNA_CVT_CON1, CNA_CVT_CON1, CNA_CVT_CON2, CNA_CVT_CON2},
                         {CNA_CVT_OFFSET, CNA_CVT_CON3, CNA_CVT_CON4, UNKNOWN}},
};

// ---- commands ----

static bool set_field(struct rknn_program *p, const struct rknn_program_task *t,
                      const struct converter_field *field)
{
    bool found = false;
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
        uint32_t value = rknn_command_value(p->commands[i]);
        if ((p->commands[i] & 0xffff) != field->reg)
            continue;
        p->commands[i] = rknn_command_with(p->commands[i],
                                           (value & ~field->mask) | (field->value & field->mask));
        found = true;
    }
    return found;
}

// Whether the task says the register.
static bool said_by(const struct rknn_program *p, const struct chip *chip,
                    const struct rknn_program_task *t, enum rknn_register reg, uint32_t *ret)
{
    bool said = false;
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++)
        if ((p->commands[i] & 0xffff) == rknn_register_at(chip, reg)) {
            *ret = rknn_command_value(p->commands[i]);
            said = true;
        }
    return said;
}

// Whether the converter of the task works; UINT32_MAX: the task does not say it.
static uint32_t converter_mode(const struct rknn_program *p, const struct chip *chip,
                               const struct rknn_program_task *t)
{
    uint32_t mode;
    return said_by(p, chip, t, CNA_CVT_CON0, &mode) ? mode & MODE_BITS : UINT32_MAX;
}

static bool set_channel(struct rknn_program *p, const struct chip *chip,
                        const struct rknn_program_task *t, uint32_t channel)
{
    const struct converter_form *form = &converter_forms[chip->generation];
    uint32_t low = form->paired ? channel % 2 * 16 : 16;
    int32_t offset = form->offset_first ? MINUS_128 * (int32_t)ONE : MINUS_128;
    const struct converter_field scale = {rknn_register_at(chip, form->scales[channel]),
                                          0xffffu << low, ONE << low};
    const struct converter_field shift = {rknn_register_at(chip, form->offsets[channel]),
                                          form->paired ? UINT32_MAX : 0xffff, (uint32_t)offset};
    return form->offsets[channel] != UNKNOWN && set_field(p, t, &scale) && set_field(p, t, &shift);
}

// From here on the task takes 128 off, and does nothing else.
static bool set_converter(struct rknn_program *p, const struct chip *chip,
                          const struct rknn_program_task *t, uint32_t channels)
{
    struct converter_field truncate = {rknn_register_at(chip, CNA_CVT_CON0), ~MODE_BITS, 0};
    bool found = true;
    for (uint32_t i = 0; i < channels && found; i++) {
        truncate.value |= ONE_BITS << (TRUNCATE_LOW + TRUNCATE_WIDTH * i);
        found = set_channel(p, chip, t, i);
    }
    return found && set_field(p, t, &truncate);
}

// ---- tasks ----

static bool node_takes(const struct rknn_program *p, uint32_t node, uint32_t tensor)
{
    const struct rknn_node *n = &p->file->nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] >= 0 && (uint32_t)n->inputs[i] == tensor)
            return true;
    return false;
}

static const struct rknn_program_task *task_of(const struct rknn_program *p, uint64_t command)
{
    for (uint32_t i = 0; i < p->n_tasks; i++)
        if (command >= p->tasks[i].first && command < p->tasks[i].first + p->tasks[i].n_commands)
            return &p->tasks[i];
    return NULL;
}

// The task of a patch by which a convolution reads a model's input; NULL: another patch. Files of
// RV1103 and RV1106 do not say whose an address is: the memory of inputs is others', too,
// behind the nodes that take them.
static const struct rknn_program_task *
pixels_reader(const struct rknn_program *p, const struct rknn_patch *patch, uint32_t tensor)
{
    const struct rknn_place *place = &p->places[tensor];
    uint64_t size = p->file->tensors[tensor].size;
    bool inside = patch->part == place->part && patch->offset >= place->offset &&
                  patch->offset - place->offset < size;
    if ((p->commands[patch->command] & 0xffff) >> 12 != CNA_BLOCK ||
        (patch->tensor != tensor && (patch->tensor != RKNN_NO_TENSOR || !inside)))
        return NULL;
    const struct rknn_program_task *t = task_of(p, patch->command);
    return t && (patch->tensor == tensor || node_takes(p, t->node, tensor)) ? t : NULL;
}

// Where programs convert an input otherwise than is known; `mode`: of one that does, with the
// form's own where its element or its factors are what is strange.
static int refuse_converter(const struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                            uint32_t bypassed, uint32_t mode, struct error *e)
{
    const char *name = p->file->tensors[tensor].name;
    if (bypassed)
        return error_set(e, STATUS_MODEL_INVALID,
                         "input %s: some of its programs convert it, and some take it as it is, by "
                         "%s: the software NPU (sim) reads what the file says of it instead",
                         name, rknn_register_name(CNA_CVT_CON0));
    return error_set(e, STATUS_MODEL_INVALID,
                     "input %s: its programs convert it by %s = %#x (with what is set beside it), "
                     "which is not known of %s: the software NPU (sim) reads what the file says of "
                     "it instead",
                     name, rknn_register_name(CNA_CVT_CON0), mode, chip->name);
}

static int set_converters(struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                          struct rknn_memory_layout *layout, struct error *e)
{
    const struct converter_form *form = &converter_forms[chip->generation];
    uint32_t working = 0, bypassed = 0, strange = form->converts;
    bool known = layout->element == 1;
    for (uint64_t i = 0; i < p->n_patches; i++) {
        const struct rknn_program_task *t = pixels_reader(p, &p->patches[i], tensor);
        uint32_t mode = t ? converter_mode(p, chip, t) : 0;
        if (form->paired && !form->offset_first && layout->element == 2 && mode == HALVES_BYPASS)
            mode = form->bypass;
        bypassed += t && mode == form->bypass;
        if (!t || mode == form->bypass)
            continue;
        working++;
        strange = mode == form->converts ? strange : mode;
        known = known && mode == form->converts && set_converter(p, chip, t, layout->c);
    }
    if (working && (!known || bypassed))
        return refuse_converter(p, chip, tensor, bypassed, strange, e);
    layout->flipped = working != 0;
    return 0;
}

// ---- lines ----

// Bytes from a line to the next one, as the task says it: in pixels, or in atoms; on RK3562, RV1103
// and RV1106 of all its rows together, but in one mode of packed pixels. 0: it does not say it.
static uint64_t said_line(const struct rknn_program *p, const struct chip *chip,
                          const struct rknn_program_task *t, const struct rknn_memory_layout *l)
{
    uint32_t stride, size, rows;
    if (!said_by(p, chip, t, CNA_LINE_STRIDE, &stride))
        return 0;
    switch (chip->generation) {
    case CHIP_GEN_RK3588:
        return stride * l->column * l->element;
    case CHIP_GEN_RK3566:
        return (uint64_t)stride * (ATOM / 2);
    case CHIP_GEN_RK3576:
        return (uint64_t)stride * ATOM;
    default:
        if (!said_by(p, chip, t, CNA_DATA_SIZE0, &size))
            return 0;
        rows = chip->generation == CHIP_GEN_RK3562 ? size & 0xffff : size & 0x7ff;
        if (!rows || stride % rows || stride / rows * ATOM < l->w * l->column * l->element)
            return (uint64_t)stride * ATOM;
        return (uint64_t)stride / rows * ATOM;
    }
}

// Lines lie as the tasks that read them say, be it otherwise than the file's stride would have it.
static int set_lines(const struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                     struct rknn_memory_layout *l, struct error *e)
{
    uint64_t line = 0, tight = l->w * l->column * l->element;
    for (uint64_t i = 0; i < p->n_patches; i++) {
        const struct rknn_program_task *t = pixels_reader(p, &p->patches[i], tensor);
        uint64_t said = t ? said_line(p, chip, t, l) : 0;
        if (!said)
            continue;
        if (said < tight || said % l->element || (line && said != line))
            return error_set(e, STATUS_MODEL_INVALID,
                             "input %s: its lines have %llu bytes, and a program reads lines of "
                             "%llu (register %#x)",
                             p->file->tensors[tensor].name,
                             (unsigned long long)(line ? line : tight), (unsigned long long)said,
                             rknn_register_at(chip, CNA_LINE_STRIDE));
        line = said;
    }
    if (line)
        rknn_layout_set_line(l, line);
    if (!l->size || l->size > p->arena_size - p->places[tensor].offset)
        return error_set(e, STATUS_MODEL_INVALID,
                         "input %s: lines of %llu bytes end behind the NPU's memory",
                         p->file->tensors[tensor].name, (unsigned long long)line);
    return 0;
}

// Programs that begin at a later line of an input of pixels have its address for lines that are
// padded to the file's stride, although what they read has none (the vendor's runtime changes both
// to the stride that a program chooses; graph slot 8), or another one. So such addresses are moved.
static int shift_lines(struct rknn_program *p, uint32_t tensor, const struct rknn_memory_layout *l,
                       struct error *e)
{
    const struct rknn_tensor *t = &p->file->tensors[tensor];
    uint64_t start = p->places[tensor].offset, line = l->row * l->element;
    uint64_t padded =
        t->stride_align ? align_up(l->w, t->stride_align) * l->column * l->element : line;
    if (padded == line)
        return 0;
    for (uint64_t i = 0; i < p->n_patches; i++) {
        struct rknn_patch *patch = &p->patches[i];
        if (!pixels_reader(p, patch, tensor))
            continue;
        if ((patch->offset - start) % padded)
            return error_set(e, STATUS_MODEL_INVALID,
                             "a program reads input %s from byte %llu on, where no line begins",
                             t->name, (unsigned long long)(patch->offset - start));
        patch->offset = start + (patch->offset - start) / padded * line;
    }
    return 0;
}

int rknn_pixels_set(struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                    struct rknn_memory_layout *layout, struct error *e)
{
    if (layout->block != layout->c || layout->c > MAX_CHANNELS)
        return 0; // in blocks of channels
    int s = set_converters(p, chip, tensor, layout, e);
    if (s == 0)
        s = set_lines(p, chip, tensor, layout, e);
    return s < 0 ? s : shift_lines(p, tensor, layout, e);
}
