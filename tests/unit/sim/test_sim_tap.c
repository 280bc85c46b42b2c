// Looking into a run of the software NPU through the device contract. (What the tensors hold:
// tests/integration/rknnctl/test_dump.py.)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/list.h"
#include "tests/support/sim_run.h"

#define MAX_SEEN 16

struct watcher {
    struct npu_tap tap;
    const char *only; // NULL: all
    unsigned n_asked, n_seen, stop_at;
    char names[MAX_SEEN][64];
    uint8_t *last; // of the last tensor seen
    size_t last_size;
};

static bool wants(struct npu_tap *tap, const char *name)
{
    struct watcher *w = container_of(tap, struct watcher, tap);
    w->n_asked++;
    return !w->only || strcmp(w->only, name) == 0;
}

static int see(struct npu_tap *tap, const struct npu_tensor *t, struct error *e)
{
    struct watcher *w = container_of(tap, struct watcher, tap);
    assert_cmp(w->n_seen, <, MAX_SEEN);
    assert_int_equal(tensor_attr_check(t->attr, t->attr->name, e), 0);
    snprintf(w->names[w->n_seen++], sizeof *w->names, "%s", t->attr->name);
    w->last = realloc(w->last, t->attr->size);
    w->last_size = t->attr->size;
    memcpy(w->last, t->data, t->attr->size);
    return w->n_seen == w->stop_at ? error_set(e, STATUS_TIMEOUT, "seen enough") : 0;
}

struct outcome {
    int status, calls;
    char text[64];
};

static void done(struct npu_job *job, int status)
{
    struct outcome *o = job->owner;
    o->status = status;
    o->calls++;
    snprintf(o->text, sizeof o->text, "%s", status < 0 ? job->error.text : "");
}

// Runs the digits with a picture of nothing; `output` takes what comes of it.
static struct outcome run(struct sim_run *s, struct watcher *w, uint8_t *output)
{
    struct outcome o = {0};
    struct error e;
    uint8_t image[4096] = {0};
    struct npu_input in = {
        .data = image, .size = s->info->inputs[0].logical.size, .converted = true};
    struct npu_output out = {.data = output, .size = s->info->outputs[0].logical.size};
    struct npu_job job = {
        .inputs = &in, .outputs = &out, .core_mask = 1, .tap = &w->tap, .done = done, .owner = &o};
    assert_cmp(in.size, <=, sizeof image);
    w->tap = (struct npu_tap){wants, see};
    assert_int_equal(npu_backend.context_submit(s->context, &job, &e), 0);
    assert_int_equal(o.calls, 1);
    return o;
}

static int start(void **state)
{
    static struct sim_run s;
    struct error e;
    *state = &s;
    return sim_run_init(&s, DIGITS_FILE, &e);
}

static int end(void **state)
{
    sim_run_done(*state);
    return 0;
}

static void each_tensor_once_and_the_output_last(void **state)
{
    struct sim_run *s = *state;
    struct watcher w = {0};
    uint8_t output[64];
    assert_int_equal(run(s, &w, output).status, 0);
    assert_int_equal(w.n_asked, w.n_seen);
    for (unsigned i = 0; i < w.n_seen; i++)
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(w.names[i], w.names[k]);
    assert_string_equal(w.names[w.n_seen - 1], s->info->outputs[0].logical.name);
    assert_int_equal(w.last_size, s->info->outputs[0].logical.size);
    assert_memory_equal(w.last, output, w.last_size);
    free(w.last);
}

static void only_what_is_wanted(void **state)
{
    struct watcher all = {0}, one = {.only = "relu2"};
    uint8_t output[64];
    assert_int_equal(run(*state, &all, output).status, 0);
    assert_int_equal(run(*state, &one, output).status, 0);
    assert_int_equal(one.n_seen, 1);
    assert_string_equal(one.names[0], "relu2");
    assert_int_equal(one.n_asked, all.n_asked);
    free(all.last);
    free(one.last);
}

static void who_looks_may_end_the_run(void **state)
{
    struct watcher w = {.stop_at = 2}, again = {0};
    uint8_t output[64];
    struct outcome o = run(*state, &w, output);
    assert_int_equal(o.status, STATUS_TIMEOUT);
    assert_string_equal(o.text, "seen enough");
    assert_int_equal(w.n_seen, 2);
    assert_int_equal(run(*state, &again, output).status, 0);
    free(w.last);
    free(again.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tensor_once_and_the_output_last),
        cmocka_unit_test(only_what_is_wanted),
        cmocka_unit_test(who_looks_may_end_the_run),
    };
    return cmocka_run_group_tests(tests, start, end);
}
