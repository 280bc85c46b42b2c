// Nodes of .rknn files by their own register programs (npu/sim/program): whatever the bytes, a run
// or words.
#include <stdlib.h>

#include "npu/model/rknn/rknn_chip.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/program/program.h"

// What is run must be small: the search is for damage, not for speed.
#define MAX_MEMORY (1 << 20)
#define MAX_TASKS  64
#define MAX_NODES  16
#define MAX_WORK   (1 << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void run(const struct graph *g)
{
    struct plan p;
    struct run r;
    struct error e = {0};
    if (plan_init(&p, g, &e) < 0) {
        check(e.text[0]);
        return;
    }
    if (p.arena_size + p.scratch_size <= MAX_MEMORY) {
        check(run_init(&r, &p, &e) == 0);
        check(run_steps(&r, &e) == 0 || e.text[0]);
        run_done(&r);
    }
    plan_done(&p);
}

static void try_programs(const struct rknn_file *f, const struct chip *chip)
{
    struct graph_programs *programs;
    struct graph g;
    struct error e = {0};
    bool all[MAX_NODES];
    for (int i = 0; i < MAX_NODES; i++)
        all[i] = true;
    if (f->n_nodes > MAX_NODES || program_new(f, chip, &programs, &e) < 0)
        return;
    programs->limit = MAX_WORK;
    const struct rknn_program *p = &programs->program;
    const struct rknn_graph_choice choice = {.programs = programs, .by_program = all};
    if (p->arena_size + p->constants_size <= MAX_MEMORY && p->n_tasks <= MAX_TASKS &&
        rknn_graph_of(&g, f, chip, &choice, &e) == 0) {
        run(&g);
        graph_done(&g);
    }
    program_free(programs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rknn_file f;
    struct error e = {0};
    const struct chip *chip;
    if (rknn_file_open(&f, (struct bytes){data, size}, &e) < 0)
        return 0;
    if (rknn_find_chip(NULL, &f, &chip, &e) == 0)
        try_programs(&f, chip);
    rknn_file_done(&f);
    return 0;
}
