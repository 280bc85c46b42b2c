// Register programs on the emulator, node by node.
//
// A program may say only what differs from those before it, so that all of the file's programs up
// to the node's are passed: they set registers and load tables, and nothing works. Their order, and
// what is left out of them, are those of npu/open.
#include "npu/sim/program/program.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/emu/emu_job.h"
#include "npu/model/rknn/program/rknn_pixels.h"
#include "npu/stop.h"

#define PAGE          4096u
#define FIRST_ADDRESS 0x10000u

// Some ten seconds. A task of a file takes what the chip's buffers hold, which is far less.
#define DEFAULT_LIMIT ((uint64_t)1 << 34)

void program_free(struct graph_programs *p)
{
    if (!p)
        return;
    rknn_program_done(&p->program);
    pool_done(&p->pool);
    free(p->commands);
    free(p->constants);
    free(p);
}

CLEANUP_DEFINE(struct graph_programs, program_free)

// ---- loading ----

// An input whose form is not known is no matter if no program of interest reads it.
static int find_inputs(struct graph_programs *p, struct error *e)
{
    p->inputs = pool_alloc(&p->pool, p->file->n_inputs, sizeof *p->inputs);
    if (!p->inputs)
        return error_no_memory(e, "programs", 0);
    for (uint32_t i = 0; i < p->file->n_inputs; i++) {
        struct program_input *in = &p->inputs[i];
        uint32_t tensor = p->file->inputs[i];
        struct error why = {0};
        int r = rknn_layout_of(&in->layout, &p->file->tensors[tensor], p->chip, &why);
        if (r == 0)
            r = rknn_pixels_set(&p->program, p->chip, tensor, &in->layout, &why);
        if (r == 0)
            continue;
        struct bytes words = {(const uint8_t *)why.text, strlen(why.text)};
        in->unknown = pool_text(&p->pool, words);
        if (!in->unknown)
            return error_no_memory(e, "programs", 0);
    }
    return 0;
}

// One part behind the other, with a page between them that is nobody's.
static int place_parts(struct graph_programs *p, struct error *e)
{
    const struct rknn_program *program = &p->program;
    const uint64_t sizes[RKNN_N_PARTS] = {[RKNN_PART_COMMANDS] = program->n_commands * 8,
                                          [RKNN_PART_CONSTANTS] = program->constants_size,
                                          [RKNN_PART_ARENA] = program->arena_size};
    uint64_t at = FIRST_ADDRESS;
    for (int part = 0; part < RKNN_N_PARTS; part++) {
        if (sizes[part] > UINT32_MAX - at)
            return error_set(e, STATUS_MODEL_INVALID, "programs that need more than 4 GB");
        p->bases[part] = at;
        at = align_up(at + sizes[part], PAGE) + PAGE;
    }
    p->commands = malloc((size_t)sizes[RKNN_PART_COMMANDS] + 1);
    p->constants = calloc(1, (size_t)sizes[RKNN_PART_CONSTANTS] + 1);
    return p->commands && p->constants ? 0 : error_no_memory(e, "programs", (size_t)at);
}

static int write_commands(struct graph_programs *p, struct error *e)
{
    uint64_t *words = (uint64_t *)(void *)p->commands;
    int r = rknn_program_relocate(&p->program, p->bases, words, e);
    for (uint64_t i = 0; i < p->program.n_commands && r == 0; i++)
        write_le64(p->commands + 8 * i, words[i]); // as the NPU reads them, on any machine
    return r;
}

int program_new(const struct rknn_file *f, const struct chip *chip, struct graph_programs **ret,
                struct error *e)
{
    cleanup(program_free_p) struct graph_programs *p = calloc(1, sizeof *p);
    if (!p)
        return error_no_memory(e, "programs", sizeof *p);
    p->file = f;
    p->chip = chip;
    p->limit = DEFAULT_LIMIT;
    int r = rknn_program_open(&p->program, f, chip, e);
    if (r == 0)
        r = find_inputs(p, e);
    if (r == 0)
        r = place_parts(p, e);
    if (r == 0)
        r = write_commands(p, e);
    if (r < 0)
        return r;
    rknn_program_constants(&p->program, p->constants);
    *ret = steal_ptr(p);
    return 0;
}

size_t program_size(const struct graph_programs *p)
{
    return p ? p->program.pool.total + p->pool.total + p->program.constants_size +
                   8 * p->program.n_commands
             : 0;
}

// ---- tensors ----

static int find_layout(const struct graph_programs *p, uint32_t tensor,
                       struct rknn_memory_layout *ret, struct error *e)
{
    const struct rknn_file *f = p->file;
    for (uint32_t i = 0; i < f->n_inputs; i++)
        if (f->inputs[i] == tensor) {
            *ret = p->inputs[i].layout;
            return p->inputs[i].unknown
                       ? error_set(e, STATUS_MODEL_INVALID, "%s", p->inputs[i].unknown)
                       : 0;
        }
    return rknn_layout_of(ret, &f->tensors[tensor], p->chip, e);
}

int program_port(const struct graph_programs *p, const struct graph_tensor *t, uint32_t tensor,
                 struct program_port *ret, struct error *e)
{
    struct program_port port = {.tensor = tensor, .nhwc = t->channels_last};
    if (tensor >= p->file->n_tensors || p->program.places[tensor].part != RKNN_PART_ARENA)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s is not in the NPU's memory", t->name);
    int r = find_layout(p, tensor, &port.layout, e);
    if (r < 0)
        return r;
    const struct rknn_memory_layout *l = &port.layout;
    port.offset = p->program.places[tensor].offset;
    port.size = (size_t)l->n * l->c * l->h * l->w * l->element;
    if (port.offset > p->program.arena_size || l->size > p->program.arena_size - port.offset)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s ends behind the NPU's memory",
                         t->name);
    if (port.size * p->file->batch != t->size)
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s: %zu bytes in the NPU's memory, %zu",
                         t->name, port.size, t->size);
    *ret = port;
    return 0;
}

// ---- running ----

struct program_machine {
    struct emu_memory memory;
    struct emu_npu *npu;
    uint8_t *arena;
};

static void machine_done(struct program_machine *m)
{
    emu_npu_free(m->npu);
    emu_memory_done(&m->memory);
    free(m->arena);
}

static int machine_map(struct program_machine *m, const struct graph_programs *p, struct error *e)
{
    const struct rknn_program *program = &p->program;
    const struct {
        void *host;
        uint64_t size;
    } parts[RKNN_N_PARTS] = {[RKNN_PART_COMMANDS] = {p->commands, program->n_commands * 8},
                             [RKNN_PART_CONSTANTS] = {p->constants, program->constants_size},
                             [RKNN_PART_ARENA] = {m->arena, program->arena_size}};
    for (int part = 0; part < RKNN_N_PARTS; part++) {
        int r = parts[part].size ? emu_memory_map(&m->memory, p->bases[part], parts[part].host,
                                                  (size_t)parts[part].size, e)
                                 : 0;
        if (r < 0)
            return r;
        if (part != RKNN_PART_ARENA)
            emu_memory_protect(&m->memory, p->bases[part]);
    }
    return 0;
}

static int machine_init(struct program_machine *m, const struct program_run *r, struct error *e)
{
    const struct rknn_program *program = &r->p->program;
    size_t size = (size_t)program->arena_size;
    *m = (struct program_machine){.arena = calloc(1, size + 1)};
    if (!m->arena)
        return error_no_memory(e, "a node's memory", size);
    for (size_t i = 0; i < size && r->fill; i++) // no float of any width is infinite
        m->arena[i] = (uint8_t)((i * 37 + r->fill) & 0xbf);
    rknn_program_arena(program, m->arena);
    int s = machine_map(m, r->p, e);
    if (s == 0)
        s = emu_npu_new(r->p->chip->name, &m->memory, &m->npu, e);
    if (s == 0)
        emu_npu_limit(m->npu, r->p->limit);
    for (unsigned i = 0; i < CHIP_N_SWITCHES && s == 0; i++)
        emu_npu_choose(m->npu, (enum chip_switch)i,
                       chip_switch_taken(r->p->chip, (enum chip_switch)i));
    return s;
}

static int run_task(const struct program_machine *m, const struct graph_programs *p, uint32_t task,
                    bool pass, struct error *e)
{
    const struct rknn_program_task *t = &p->program.tasks[task];
    const struct emu_task one = {.commands = p->bases[RKNN_PART_COMMANDS] + 8 * t->first,
                                 .words = t->n_commands,
                                 .interrupt = t->interrupts};
    const struct emu_job job = {.tasks = &one, .n = 1, .pass = pass};
    struct emu_result result;
    return emu_job_run(m->npu, &job, &result, e);
}

// Ends of the graph in front of all other nodes are left out: inputs are in the form that these
// give.
static int run_tasks(const struct program_machine *m, const struct program_run *r, struct error *e)
{
    const struct rknn_range *tasks = r->p->program.one[0].tasks;
    bool begun = false;
    for (uint32_t node = 0; node <= r->node; node++) {
        begun = begun || (tasks[node].n && !rknn_node_is_end(&r->p->file->nodes[node]));
        for (uint32_t i = 0; i < tasks[node].n && begun; i++) {
            int s = npu_stop_check(r->stop, e);
            if (s < 0)
                return s;
            s = run_task(m, r->p, tasks[node].first + i, node != r->node, e);
            if (s < 0)
                return s == STATUS_MALLOC_FAIL ? s : error_recode(e, STATUS_MODEL_INVALID);
        }
    }
    return 0;
}

int program_run(const struct program_run *r, struct error *e)
{
    struct program_machine m;
    int s = machine_init(&m, r, e);
    for (uint32_t i = 0; i < r->n_inputs && s == 0; i++)
        rknn_layout_put(&r->inputs[i].layout, r->inputs[i].nhwc, r->from[i],
                        m.arena + r->inputs[i].offset);
    if (s == 0)
        s = run_tasks(&m, r, e);
    for (uint32_t i = 0; i < r->n_outputs && s == 0; i++)
        rknn_layout_get(&r->outputs[i].layout, r->outputs[i].nhwc, m.arena + r->outputs[i].offset,
                        r->to[i]);
    machine_done(&m);
    return s;
}
