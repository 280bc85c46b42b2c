// What the parts of rknn_program_open() share. Only they include this.
#pragma once

#include "npu/model/rknn/program/rknn_program.h"

#define TRAILER_WORDS 4

// The words of a trailer: where the next program is, how long, nothing, what is to work.
#define WORD_LINK    0x0101000000000010u
#define WORD_AMOUNT  0x0101000000000014u
#define WORD_BARRIER 0x0041000000000000u
#define WORD_ENABLE  0x0081000000000008u

// Blocks in enable words.
#define ENABLE_DPU (1u << 3)
#define ENABLE_PPU (1u << 5)
#define ENABLE_ALL 0x7fu

// Interrupts of both register groups: what a driver waits for.
#define INTERRUPTS_DPU 0x300u
#define INTERRUPTS_PPU 0xc00u

// What is known of a command.
enum { MARK_TASK = 1, MARK_PATCHED = 2 };

struct program_reader {
    struct rknn_program *p;
    const struct rknn_file *f;
    const struct chip *chip;
    struct fb fb; // of its own: the file's remembers what was wrong with it
    struct fb_table graph;
    uint8_t *marks; // MARK_… of each command
    uint64_t patch_room;
};

/// Whether the register holds an address of the NPU's memory; *writes: whose bytes are written.
bool program_is_address(const struct chip *chip, uint32_t reg, bool *writes);

/// Adds a patch. Refuses a command that no task has, that is no address or that is patched already.
int program_patch(struct program_reader *r, const struct rknn_patch *patch, struct error *e);

// Per kind of container: commands and tasks, then, when tensors have places, patches.
int program_read_records(struct program_reader *r, struct error *e);
int program_read_blobs(struct program_reader *r, struct error *e);
int program_patch_named(struct program_reader *r, struct error *e);
int program_patch_lite(struct program_reader *r, struct error *e);
int program_patch_blobs(struct program_reader *r, struct error *e);

/// Places the tensors of container 0x1004, whose parts are laid out by the file.
int program_place_lite(struct program_reader *r, struct error *e);

/// Which tasks belong to which core of which schedule. Containers 1 and 2 say it with each task.
int program_schedule(struct program_reader *r, struct error *e);

/// Patches the links from program to program.
int program_link(struct program_reader *r, struct error *e);

/// Finds what has to be filled in of the weights of the oldest toolkits.
int program_find_paddings(struct program_reader *r, struct error *e);
void program_fill_paddings(const struct rknn_program *p, uint8_t *constants);
