// test_sim_bounds FOLDER: no step writes where it may not. Every model file below the folder, and
// of the shared folder if it is there, runs with random inputs. After each step the arena is
// compared with what it was: the step's outputs alone may have changed. Behind the arena, and
// behind the scratch memory that the step has asked for, are known bytes.
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "npu/model/onnx/onnx_graph.h"
#include "npu/model/rknn/rknn_graph.h"
#include "npu/sim/exec/plan.h"
#include "npu/sim/exec/run.h"
#include "npu/sim/sim_executor.h"
#include "tests/support/sim_support.h"

#define GUARD      (64 << 10) // bytes
#define GUARD_BYTE 0xa5
#define MOST_ARENA (64 << 20) // larger models take too long
#define LEAST_RUN  1000       // of the cases' files

struct model {
    struct sim_file bytes;
    struct rknn_file file;
    struct graph graph;
};

static const char *folder, *path_now;
static unsigned n_run, n_shared;

// ---- around a step ----

struct watch {
    uint8_t *arena;     // as it was before the step
    uint64_t n_written; // bytes of scratch memory that steps before this one were allowed to write
};

static int watch_before(void *user, const struct run *r, const struct step *s, struct error *e)
{
    struct watch *w = user;
    (void)e;
    if (w->n_written > s->scratch)
        memset(r->scratch + s->scratch, GUARD_BYTE, w->n_written - s->scratch);
    w->n_written = s->scratch;
    return s->node->op == GRAPH_CUSTOM; // which nobody computes here
}

// How many bytes are equal before the first that is not. Most often all are, which memcmp() sees
// several times faster than a loop does.
static uint64_t n_equal(const uint8_t *one, const uint8_t *other, uint64_t n)
{
    uint64_t i = 0;
    if (memcmp(one, other, n) == 0)
        return n;
    while (one[i] == other[i])
        i++;
    return i;
}

// Where the first byte is that is not as it was and is beside the step's outputs; the arena's size
// if there is none. What the step may write is taken over.
static uint64_t first_change(struct watch *w, const struct run *r, const struct step *s)
{
    const struct plan *p = r->plan;
    for (uint32_t i = 0; i < s->node->n_outputs; i++) {
        const struct graph_tensor *t = step_output(s, i);
        uint64_t at = t ? p->offsets[s->node->outputs[i]] : 0;
        if (t)
            memcpy(w->arena + at, r->arena + at, t->size);
    }
    return n_equal(r->arena, w->arena, p->arena_size);
}

static int watch_after(void *user, const struct run *r, const struct step *s, struct error *e)
{
    struct watch *w = user;
    const struct plan *p = r->plan;
    uint64_t changed = first_change(w, r, s);
    if (changed < p->arena_size)
        return error_set(e, STATUS_FAIL, "node %s (%s) writes byte %llu of the arena",
                         s->node->name, s->node->type, (unsigned long long)changed);
    // The bytes are known: each equals the one before it, and the first is it.
    const uint8_t *rest = r->scratch + s->scratch;
    uint64_t n = p->scratch_size - s->scratch; // GUARD at least
    uint64_t good = *rest == GUARD_BYTE ? 1 + n_equal(rest + 1, rest, n - 1) : 0;
    if (good < n)
        return error_set(e, STATUS_FAIL, "node %s (%s) writes byte %llu of %llu of scratch",
                         s->node->name, s->node->type, (unsigned long long)s->scratch + good,
                         (unsigned long long)s->scratch);
    return 0;
}

// ---- one model ----

// Any bytes for 8-bit integers; else small numbers, which no operator refuses.
static void fill(const struct graph_tensor *t, uint8_t *data)
{
    size_t each = tensor_type_size(t->type);
    for (size_t i = 0; i < t->size / each; i++) {
        uint64_t whole = (uint64_t)rand() % 2;
        float real = (float)(rand() % 4096) / 1024 - 2;
        uint16_t half = (uint16_t)(0x3000 + rand() % 0x1000);
        if (t->type == TENSOR_FLOAT32)
            memcpy(data + i * each, &real, each);
        else if (t->type == TENSOR_FLOAT16)
            memcpy(data + i * each, &half, each);
        else if (each == 1 && t->type != TENSOR_BOOL)
            data[i] = (uint8_t)rand();
        else
            memcpy(data + i * each, &whole, each);
    }
}

static void run_watched(struct run *r, const struct plan *p)
{
    struct error e = {0};
    struct watch w = {.arena = malloc(p->arena_size), .n_written = p->scratch_size};
    assert_non_null(w.arena);
    memset(r->arena + p->arena_size - GUARD, GUARD_BYTE, GUARD);
    for (uint32_t i = 0; i < p->graph->n_inputs; i++)
        fill(&p->graph->tensors[p->graph->inputs[i]], run_tensor(r, p->graph->inputs[i]));
    memcpy(w.arena, r->arena, p->arena_size);
    r->before = (struct run_hook){watch_before, &w};
    r->after = (struct run_hook){watch_after, &w};
    if (run_steps(r, &e) < 0)
        fail_msg("%s: %s", path_now, e.text);
    free(w.arena);
}

static void run_graph(const struct graph *g)
{
    struct plan p;
    struct run r;
    struct error e;
    if (plan_init(&p, g, &e) < 0)
        return;
    p.arena_size += GUARD;
    p.scratch_size += GUARD;
    if (p.arena_size <= MOST_ARENA) {
        assert_int_equal(run_init(&r, &p, &e), 0);
        run_watched(&r, &p);
        run_done(&r);
        n_run++;
    }
    plan_done(&p);
}

static int open_model(struct model *m, const char *path, struct error *e)
{
    struct load_options options = {0};
    *m = (struct model){0};
    assert_true(sim_file_read(&m->bytes, "%s", path));
    struct bytes all = {m->bytes.data, m->bytes.size};
    if (onnx_is_model(all))
        return onnx_graph(&m->graph, all, &options, 0, &sim_executor, e);
    int r = rknn_file_open(&m->file, all, e);
    return r < 0 ? r : rknn_graph(&m->graph, &m->file, chip_find(m->file.chip), e);
}

// Files that are refused are other tests' matter.
static int visit(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    struct model m;
    struct error e;
    const char *end = strrchr(path, '.');
    (void)st;
    (void)at;
    if (kind != FTW_F || !end || (strcmp(end, ".rknn") != 0 && strcmp(end, ".onnx") != 0))
        return 0;
    path_now = path;
    if (open_model(&m, path, &e) == 0)
        run_graph(&m.graph);
    graph_done(&m.graph);
    rknn_file_done(&m.file);
    sim_file_free(&m.bytes);
    return 0;
}

static void cases_stay_within_bounds(void **state)
{
    (void)state;
    assert_int_equal(nftw(folder, visit, 16, FTW_PHYS), 0);
    assert_in_range(n_run, LEAST_RUN, UINT32_MAX);
}

static void shared_files_stay_within_bounds(void **state)
{
    (void)state;
    char models[512];
    const char *shared = sim_shared_folder();
    if (!shared)
        skip();
    unsigned before = n_run;
    snprintf(models, sizeof models, "%s/models", shared);
    assert_int_equal(nftw(models, visit, 16, FTW_PHYS), 0);
    n_shared = n_run - before;
    print_message("%u shared files\n", n_shared);
    assert_in_range(n_shared, 1, UINT32_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases_stay_within_bounds),
                                       cmocka_unit_test(shared_files_stay_within_bounds)};
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
