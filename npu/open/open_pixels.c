// Facts: docs/rknn-format.md. Bypassed, the converter lets values through as they are. Else it
// makes (x + offset) * scale / 2^truncate of each channel's bytes: with -128, and a scale that is
// 2^truncate, int8 of bytes from 0 on.
#include "npu/open/open_pixels.h"

#include "npu/model/rknn/regs/rknn_registers.h"

#define CNA_BLOCK    1
#define MAX_CHANNELS 4
#define MINUS_128    (-128)

// Registers of a chip, and which bits of CVT_CON0 mean bypass.
struct converter_form {
    uint32_t con0, first; // first: of four registers, or of two and four
    uint32_t bypass;      // the low four bits
    bool apart;           // scales and offsets have registers of their own
};

struct converter {
    uint32_t con0, words[6];
    bool read;
};

// False: it is not known well enough.
static bool converter_form_of(const struct chip *chip, struct converter_form *ret)
{
    static const uint8_t bypass[CHIP_N_GENERATIONS] = {[CHIP_GEN_RK3588] = 0xb,
                                                       [CHIP_GEN_RK3566] = 0xa,
                                                       [CHIP_GEN_RK3562] = 0xb,
                                                       [CHIP_GEN_RK3576] = 0xb};
    uint32_t together = rknn_register_at(chip, CNA_CVT_CON1);
    *ret = (struct converter_form){
        .con0 = rknn_register_at(chip, CNA_CVT_CON0),
        .first = together ? together : rknn_register_at(chip, CNA_CVT_SCALES),
        .bypass = bypass[chip->generation],
        .apart = !together,
    };
    return ret->bypass != 0;
}

static uint32_t converter_truncate(const struct converter *c, uint32_t channel)
{
    return c->con0 >> (4 + 6 * channel) & 0x3f;
}

static uint32_t converter_scale(const struct converter_form *form, const struct converter *c,
                                uint32_t channel)
{
    return form->apart ? c->words[channel / 2] >> (16 * (channel % 2)) & 0xffff
                       : c->words[channel] >> 16;
}

static int32_t converter_offset(const struct converter_form *form, const struct converter *c,
                                uint32_t channel)
{
    return form->apart ? (int32_t)c->words[2 + channel] : (int16_t)c->words[channel];
}

// Takes what a program sets.
static void read_task(const struct rknn_program *p, const struct rknn_program_task *t,
                      const struct converter_form *form, struct converter *c)
{
    for (uint64_t i = t->first; i < t->first + t->n_commands; i++) {
        uint32_t reg = p->commands[i] & 0xffff, value = rknn_command_value(p->commands[i]);
        if (reg == form->con0) {
            c->con0 = value;
            c->read = true;
        } else if (reg >= form->first && reg < form->first + 4u * 6) {
            c->words[(reg - form->first) / 4] = value;
        }
    }
}

static int judge_converter(const struct converter_form *form, const struct converter *c,
                           const char *name, struct open_layout *layout, struct error *e)
{
    bool bypassed = (c->con0 & 0xf) == form->bypass, same = layout->element == 1;
    for (uint32_t i = 0; i < layout->c && i < MAX_CHANNELS; i++)
        same = same && converter_offset(form, c, i) == MINUS_128 &&
               converter_scale(form, c, i) == 1u << converter_truncate(c, i);
    if (!c->read || (!bypassed && !same))
        return error_set(
            e, STATUS_MODEL_INVALID,
            "input %s: the chip converts its pixels (register %#x is %#x, %#x is %#x), "
            "and only values as the model stores them can be given to it",
            name, form->con0, c->con0, form->first, c->words[0]);
    layout->flipped = !bypassed;
    return 0;
}

// Whether the command is one by which a convolution reads the tensor.
static bool reads_pixels(const struct rknn_program *p, const struct rknn_patch *patch,
                         uint32_t tensor)
{
    return patch->tensor == tensor && (p->commands[patch->command] & 0xffff) >> 12 == CNA_BLOCK;
}

static const struct rknn_program_task *task_of(const struct rknn_program *p, uint64_t command)
{
    for (uint32_t i = 0; i < p->n_tasks; i++)
        if (command >= p->tasks[i].first && command < p->tasks[i].first + p->tasks[i].n_commands)
            return &p->tasks[i];
    return NULL;
}

int open_pixels_read(const struct rknn_program *p, const struct chip *chip, uint32_t tensor,
                     struct open_layout *layout, struct error *e)
{
    struct converter_form form;
    const char *name = p->file->tensors[tensor].name;
    int s = 0;
    if (layout->block != layout->c || layout->c > MAX_CHANNELS)
        return 0;
    if (!converter_form_of(chip, &form))
        return error_set(e, STATUS_MODEL_INVALID,
                         "input %s: how %s takes pixels is not known well enough", name,
                         chip->name);
    for (uint64_t i = 0; i < p->n_patches && s == 0; i++) {
        struct converter c = {0};
        const struct rknn_program_task *t =
            reads_pixels(p, &p->patches[i], tensor) ? task_of(p, p->patches[i].command) : NULL;
        if (!t)
            continue;
        read_task(p, t, &form, &c);
        s = judge_converter(&form, &c, name, layout, e);
    }
    return s;
}
