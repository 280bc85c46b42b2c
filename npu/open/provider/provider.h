// What gives npu/open an NPU: memory that the NPU sees, and cores that work off tasks in it. Each
// provider is one table: a kernel driver, or the emulator in this process.
//
// Memory has an address for the NPU and is mapped here. What is written here is the NPU's only
// after a sync to the device, what that has written is here only after one from it.
//
// Threads: all calls, at any time, but those about one memory one at a time.
#pragma once

#include <stdatomic.h>

#include "npu/npu.h"

#define PROVIDER_MAX_CORES 3

// A task record, as drivers have it (little-endian): 40 bytes.
enum {
    TASK_NODE = 4,        // u32, for words; drivers do not look at it
    TASK_ENABLE = 8,      // u32 blocks
    TASK_INTERRUPTS = 12, // u32
    TASK_CLEAR = 16,      // u32
    TASK_AMOUNT = 24,     // u32 commands, without the trailer
    TASK_ADDRESS = 32,    // u64 of the first, for the NPU
    TASK_BYTES = 40,
};
#define TASK_CLEAR_ALL 0x1ffffu

// A provider's own struct begins with it.
struct provider_memory {
    uint8_t *map;
    uint64_t size;
    uint64_t address; // for the NPU, below 4 GB
};

enum provider_use {
    PROVIDER_DATA,
    PROVIDER_ARENA, // what is computed: may lie in the chip's own memory
    PROVIDER_TASKS, // task records: the driver reads them, too
};

enum provider_way { PROVIDER_TO_DEVICE = 1, PROVIDER_FROM_DEVICE = 2 };

struct provider_info {
    char chip[32];    // "rk3588"; never empty
    char driver[128]; // for people
    uint32_t n_cores;
    uint64_t sram_size; // 0: none, or not known
    enum npu_timing timing;
    bool one_core_jobs;    // the driver chooses the core of a job, which is one
    const char *no_import; // why dma-bufs of others are not used where they are; NULL: they can be
};

// Consecutive task records.
struct provider_range {
    uint32_t first, n;
};

// What is to be worked off: each core's tasks, which their trailers link together. Cores wait for
// each other as their tasks say, so those that share nodes are started together.
struct provider_job {
    const struct provider_memory *tasks;
    uint32_t core_mask;
    struct provider_range ranges[PROVIDER_MAX_CORES]; // [i]: of the i-th core of the mask
    uint32_t timeout_ms;
    const atomic_bool *stop; // as npu_job's: looked at between tasks, where that can be
    uint32_t failed;         // result: the record at which it failed; those before are done
};

// A task of a file, for providers whose drivers need more of it than a record. Commands [first,
// first + n_commands), then the trailer.
struct provider_task {
    uint64_t first;
    uint32_t n_commands, enable;
    uint32_t record;    // its number among the task records
    const char *unable; // why this provider cannot run it; NULL: it can
};

struct provider_chain {
    const uint64_t *commands;
    const struct provider_task *tasks;
    uint32_t n;
    struct provider_memory *const *memories; // that tasks read; the first is written, too
    uint32_t n_memories;
};

struct provider;

struct provider_ops {
    const char *name;

    /// As npu_backend's.
    int (*list_paths)(const char *options, npu_add_path *add, void *owner, struct error *e);

    int (*open)(const char *options, struct provider **ret, struct error *e);
    void (*free)(struct provider *p); // after all memory
    const struct provider_info *(*info)(const struct provider *p);

    /// Zeroed; begins at a page.
    int (*memory_new)(struct provider *p, uint64_t size, enum provider_use use,
                      struct provider_memory **ret, struct error *e);
    void (*memory_free)(struct provider *p, struct provider_memory *m); // not while it is used
    int (*memory_sync)(struct provider *p, struct provider_memory *m, uint64_t offset,
                       uint64_t size, enum provider_way way, struct error *e);

    /// Memory of others where it is: a dma-buf, mapped at b->map; both stay the caller's, and until
    /// memory_free(). One may be imported several times. What is refused, with words, can still be
    /// copied. Not called with info->no_import, and NULL where that is always so.
    int (*memory_import)(struct provider *p, const struct npu_buffer *b,
                         struct provider_memory **ret, struct error *e);

    /// Says of each task of one chain, in its order, whether it can be run (`unable`, static text);
    /// what cannot is not submitted. `commands` have no addresses yet. NULL: all can be.
    int (*judge)(const struct provider *p, const uint64_t *commands, struct provider_task *tasks,
                 uint32_t n, struct error *e);

    /// The same chain, with the memory that its tasks use, before the first submit; `commands` have
    /// their addresses, and may be taken back when it returns. NULL: records are enough.
    int (*prepare)(struct provider *p, struct provider_memory *records,
                   const struct provider_chain *chain, struct error *e);

    /// Returns when all is done. STATUS_TIMEOUT when it takes longer, STATUS_FAIL when it was
    /// stopped. After a failure the NPU is as after a reset.
    int (*submit)(struct provider *p, struct provider_job *job, struct error *e);
};

struct provider {
    const struct provider_ops *ops;
};

extern const struct provider_ops provider_emu, provider_rknpu, provider_rocket;

/// The provider that `text` ("emu:rk3588") begins with; *options: what follows its name.
int provider_find(const char *text, const struct provider_ops **ret, const char **options,
                  struct error *e);
