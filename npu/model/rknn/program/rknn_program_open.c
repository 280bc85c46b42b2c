// Reads the programs of a file. In this order:
//
//     commands and tasks -> patches, by tensor -> places of tensors -> patches, by part
//                        -> schedules -> links
//
// The file is untrusted. What is not accounted for is refused: a program that is patched in part
// would have the NPU write to memory of others.
#include "npu/model/rknn/program/rknn_program.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/model/rknn/program/rknn_program_parts.h"
#include "npu/model/rknn/regs/rknn_registers.h"

// What programs may write behind the last tensor: in files that say nothing of it, and for those
// whose last line is longer than its tensor.
#define ARENA_SPARE 65536

// ---- registers ----

// Registers of addresses. The table of registers says which chips have them, and where.
static const struct {
    enum rknn_register reg;
    bool writes;
} addresses[] = {
    {CNA_FEATURE_BASE, false}, {CNA_DCOMP_ADDR0, false},   {DPU_DST_BASE, true},
    {RDMA_SRC_BASE, false},    {RDMA_BS_BASE, false},      {RDMA_BS_CONFIG_BASE, false},
    {RDMA_BN_BASE, false},     {RDMA_BN_DATA_BASE, false}, {RDMA_EW_BASE, false},
    {PPU_DST_BASE, true},      {PPU_RDMA_SRC_BASE, false},
};

bool program_is_address(const struct chip *chip, uint32_t reg, bool *writes)
{
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (reg && rknn_register_at(chip, addresses[i].reg) == reg) {
            *writes = addresses[i].writes;
            return true;
        }
    return false;
}

// ---- patches ----

int program_patch(struct program_reader *r, const struct rknn_patch *patch, struct error *e)
{
    struct rknn_program *p = r->p;
    bool writes;
    if (patch->command >= p->n_commands || !(r->marks[patch->command] & MARK_TASK))
        return error_set(e, STATUS_MODEL_INVALID, "register command %" PRIu64 " is of no task",
                         patch->command);
    uint32_t reg = p->commands[patch->command] & 0xffff;
    if (!program_is_address(r->chip, reg, &writes))
        return error_set(e, STATUS_MODEL_INVALID,
                         "register command %" PRIu64 " sets %#x, which holds no address",
                         patch->command, reg);
    if (r->marks[patch->command] & MARK_PATCHED)
        return error_set(e, STATUS_MODEL_INVALID,
                         "register command %" PRIu64 " takes two addresses", patch->command);
    if (!pool_reserve(&p->pool, p->patches, p->n_patches, r->patch_room, p->n_patches + 1))
        return error_no_memory(e, "the model's programs", 0);
    r->marks[patch->command] |= MARK_PATCHED;
    p->patches[p->n_patches++] = *patch;
    return 0;
}

// Marks tensors that programs take (1), and those whose bytes they write (3).
static void mark_taken(const struct program_reader *r, uint8_t *taken)
{
    for (uint64_t i = 0; i < r->p->n_patches; i++) {
        const struct rknn_patch *patch = &r->p->patches[i];
        bool writes = false;
        program_is_address(r->chip, r->p->commands[patch->command] & 0xffff, &writes);
        if (patch->tensor != RKNN_NO_TENSOR)
            taken[patch->tensor] |= writes ? 3 : 1;
    }
}

// Whether the command is of a task of the graph's ends.
static bool is_of_end(const struct program_reader *r, uint64_t command)
{
    const struct rknn_program *p = r->p;
    for (uint32_t i = 0; i < p->n_tasks; i++)
        if (command >= p->tasks[i].first && command - p->tasks[i].first < p->tasks[i].n_commands)
            return rknn_node_is_end(&r->f->nodes[p->tasks[i].node]);
    return false;
}

// Tasks of OutputOperator make what a program asks for, in memory that the vendor's runtime has
// behind the arena (files of RV1103): such memory is added, for one of the file's tensors.
static bool make_room(struct program_reader *r, const struct rknn_patch *patch)
{
    struct rknn_program *p = r->p;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < r->f->n_tensors; i++)
        if (p->places[i].part == RKNN_PART_ARENA && r->f->tensors[i].size > largest)
            largest = r->f->tensors[i].size;
    if (patch->part != RKNN_PART_ARENA || patch->offset - p->arena_size >= largest ||
        !is_of_end(r, patch->command))
        return false;
    p->arena_size = patch->offset + largest;
    return true;
}

// From an offset in a tensor to one in a part. It may lie behind the tensor's end, as long as it is
// in the arena.
static int resolve_patch(struct program_reader *r, struct rknn_patch *patch, struct error *e)
{
    struct rknn_program *p = r->p;
    const uint64_t sizes[RKNN_N_PARTS] = {p->n_commands * 8, p->constants_size, p->arena_size};
    const char *name = "the memory";
    if (patch->tensor != RKNN_NO_TENSOR) {
        const struct rknn_place *place = &p->places[patch->tensor];
        name = r->f->tensors[patch->tensor].name;
        if (place->part == RKNN_N_PARTS)
            return error_set(e, STATUS_MODEL_INVALID,
                             "register command %" PRIu64
                             " takes the address of %s, which has no memory",
                             patch->command, name);
        patch->part = place->part;
        if (__builtin_add_overflow(patch->offset, place->offset, &patch->offset))
            patch->offset = UINT64_MAX;
    }
    if (patch->offset >= sizes[patch->part] && !make_room(r, patch))
        return error_set(e, STATUS_MODEL_INVALID,
                         "register command %" PRIu64 " takes an address behind the end of %s",
                         patch->command, name);
    return 0;
}

// Every write to a register of addresses is a patch, or zero.
static int check_patched(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    bool writes;
    for (uint64_t i = 0; i < p->n_commands; i++) {
        uint32_t reg = p->commands[i] & 0xffff;
        if (!(r->marks[i] & MARK_TASK) || !program_is_address(r->chip, reg, &writes))
            continue;
        p->counts.addresses++;
        p->counts.patched += (r->marks[i] & MARK_PATCHED) != 0;
        if (!(r->marks[i] & MARK_PATCHED) && rknn_command_value(p->commands[i]))
            return error_set(
                e, STATUS_MODEL_INVALID,
                "register command %" PRIu64
                " sets %#x to the address %#x, and the file does not say whose that is",
                i, reg, rknn_command_value(p->commands[i]));
    }
    return 0;
}

// ---- places ----

// Adds a tensor to the end of a part.
static int append_bytes(uint64_t *size, uint64_t bytes, uint64_t *ret, struct error *e)
{
    *ret = align_up(*size, RKNN_PART_ALIGN);
    if (__builtin_add_overflow(*ret, bytes, size) || *size > UINT32_MAX)
        return error_set(e, STATUS_MODEL_INVALID, "the model takes more than 4 GB of the NPU");
    return 0;
}

static bool in_arena(const struct rknn_tensor *t)
{
    return (t->kind >= RKNN_KIND_INPUT && t->kind <= RKNN_KIND_ACTIVATION) ||
           (t->kind == RKNN_KIND_SUBTASK_CONSTANT && !t->data.size);
}

// The arena as the file plans it: its own size, and no tensor behind its end.
static void plan_arena(struct program_reader *r)
{
    struct rknn_program *p = r->p;
    p->arena_size = r->f->internal_size;
    for (uint32_t i = 0; i < r->f->n_tensors; i++) {
        const struct rknn_tensor *t = &r->f->tensors[i];
        uint64_t end = (uint64_t)t->offset + t->size;
        p->places[i] = (struct rknn_place){.part = RKNN_N_PARTS};
        if (!in_arena(t))
            continue;
        p->places[i] = (struct rknn_place){RKNN_PART_ARENA, t->offset};
        p->arena_size = end > p->arena_size ? end : p->arena_size;
    }
    p->arena_size += ARENA_SPARE;
}

// Constants that programs take: with the constants, or in the arena where a program writes them.
static int place_constants(struct program_reader *r, const uint8_t *taken, struct error *e)
{
    struct rknn_program *p = r->p;
    for (uint32_t i = 0; i < r->f->n_tensors; i++) {
        const struct rknn_tensor *t = &r->f->tensors[i];
        struct rknn_place *place = &p->places[i];
        if (!taken[i] || place->part != RKNN_N_PARTS || !t->data.size)
            continue;
        if (t->compressed)
            return error_set(e, STATUS_MODEL_INVALID,
                             "weight %s is compressed, which is not understood: export the model "
                             "again without weight compression",
                             t->name);
        place->part = taken[i] > 1 ? RKNN_PART_ARENA : RKNN_PART_CONSTANTS;
        int s = append_bytes(place->part == RKNN_PART_ARENA ? &p->arena_size : &p->constants_size,
                             t->data.size, &place->offset, e);
        if (s < 0)
            return s;
    }
    return 0;
}

static int place_tensors(struct program_reader *r, struct error *e)
{
    struct rknn_program *p = r->p;
    cleanup(free_p) uint8_t *taken = calloc(r->f->n_tensors + 1, 1);
    p->places = pool_alloc(&p->pool, r->f->n_tensors, sizeof *p->places);
    if (!taken || !p->places)
        return error_no_memory(e, "the model's programs", 0);
    if (r->f->container.kind == RKNN_LITE)
        return program_place_lite(r, e);
    mark_taken(r, taken);
    plan_arena(r);
    return place_constants(r, taken, e);
}

// ---- the whole ----

static int read_patches(struct program_reader *r, struct error *e)
{
    int s = r->f->container.kind == RKNN_LITE ? program_patch_lite(r, e)
            : r->f->container.blobs           ? program_patch_blobs(r, e)
                                              : program_patch_named(r, e);
    if (s == 0)
        s = place_tensors(r, e);
    for (uint64_t i = 0; i < r->p->n_patches && s == 0; i++)
        s = resolve_patch(r, &r->p->patches[i], e);
    return s == 0 ? check_patched(r, e) : s;
}

static int read_program(struct program_reader *r, struct error *e)
{
    struct fb_table root = fb_root(&r->fb, "RKNN");
    struct fb_list graphs = fb_tables(&root, 2);
    r->graph = fb_list_get(&graphs, 0);
    int s = r->f->container.blobs ? program_read_blobs(r, e) : program_read_records(r, e);
    if (s == 0)
        s = read_patches(r, e);
    if (s == 0 && !r->f->container.blobs)
        s = program_schedule(r, e);
    if (s == 0)
        s = program_link(r, e);
    if (s == 0)
        s = program_find_paddings(r, e);
    // Words about damage say more than those of what followed from it.
    if (fb_error(&r->fb))
        s = error_set(e, STATUS_MODEL_INVALID, "the file is damaged: %s", fb_error(&r->fb));
    return s;
}

int rknn_program_open(struct rknn_program *p, const struct rknn_file *f, const struct chip *chip,
                      struct error *e)
{
    *p = (struct rknn_program){.file = f};
    struct program_reader r = {.p = p, .f = f, .chip = chip, .fb.all = f->container.meta};
    int s = read_program(&r, e);
    free(r.marks);
    if (s < 0)
        rknn_program_done(p);
    return s < 0 ? error_prefix(e, "the model's programs") : 0;
}

void rknn_program_done(struct rknn_program *p)
{
    pool_done(&p->pool);
    *p = (struct rknn_program){0};
}

// ---- for those who run it ----

static bool is_constant_of(const struct rknn_program *p, uint32_t tensor, enum rknn_part part)
{
    return p->places[tensor].part == part && p->file->tensors[tensor].data.size;
}

static void write_part(const struct rknn_program *p, enum rknn_part part, uint8_t *to)
{
    for (uint32_t i = 0; i < p->file->n_tensors; i++) {
        const struct rknn_tensor *t = &p->file->tensors[i];
        if (is_constant_of(p, i, part))
            memcpy(to + p->places[i].offset, t->data.data, t->data.size);
    }
}

void rknn_program_constants(const struct rknn_program *p, uint8_t *constants)
{
    write_part(p, RKNN_PART_CONSTANTS, constants);
    program_fill_paddings(p, constants);
}

void rknn_program_arena(const struct rknn_program *p, uint8_t *arena)
{
    write_part(p, RKNN_PART_ARENA, arena);
}

bool rknn_program_arena_part(const struct rknn_program *p, uint32_t *tensor, uint64_t *offset,
                             uint64_t *size)
{
    for (; *tensor < p->file->n_tensors; ++*tensor)
        if (is_constant_of(p, *tensor, RKNN_PART_ARENA)) {
            *offset = p->places[*tensor].offset;
            *size = p->file->tensors[*tensor].data.size;
            return true;
        }
    return false;
}

int rknn_program_relocate(const struct rknn_program *p, const uint64_t bases[RKNN_N_PARTS],
                          uint64_t *commands, struct error *e)
{
    const uint64_t sizes[RKNN_N_PARTS] = {p->n_commands * 8, p->constants_size, p->arena_size};
    for (int i = 0; i < RKNN_N_PARTS; i++)
        if (bases[i] > UINT32_MAX || sizes[i] > UINT32_MAX - bases[i])
            return error_set(e, STATUS_PARAM_INVALID,
                             "memory of the NPU at %#" PRIx64
                             " lies above 4 GB, where its registers do not reach",
                             bases[i]);
    if (p->n_commands)
        memcpy(commands, p->commands, p->n_commands * 8);
    for (uint64_t i = 0; i < p->n_patches; i++) {
        const struct rknn_patch *patch = &p->patches[i];
        uint64_t *command = &commands[patch->command];
        *command = rknn_command_with(*command, (uint32_t)(bases[patch->part] + patch->offset));
    }
    return 0;
}
