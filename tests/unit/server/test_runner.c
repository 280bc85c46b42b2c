// Runners of both kinds keep the same promises.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "base/fd.h"
#include "server/runner/runner_query.h"
#include "tests/support/runner_rig.h"
#include "worker/worker.h"

static bool in_threads(void **state)
{
    return *(bool *)*state;
}

static void run_models(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "100:250");
    rig_load(&r);
    const struct model_info *info = runner_info(r.runner);
    assert_int_equal(info->n_inputs, 1);
    assert_int_equal(info->n_outputs, 1);
    assert_int_equal(info->tensors[1].logical.size, 250);
    assert_int_equal(info->tensors[1].logical.n_elems, 250);
    assert_int_equal(info->weight_size, r.model.size);
    assert_int_equal(info->device.n_cores, 3);
    assert_string_equal(info->device.chip, "null");
    struct runner_context *a = rig_open(&r), *b = rig_open(&r);
    for (int i = 0; i < 50; i++)
        rig_run(&r, i % 2 ? a : b, (uint8_t)i);
    runner_context_free(a);
    runner_context_free(b);
    rig_free(&r);
    rig_done(&r);
}

static void many_jobs_at_once_keep_their_order(void **state)
{
    struct rig r;
    struct runner_context *c[6];
    struct rig_job jobs[6][8];
    rig_init(&r, in_threads(state), "64:64,delay_us=200");
    rig_load(&r);
    for (int i = 0; i < 6; i++)
        c[i] = rig_open(&r);
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 6; i++)
            rig_submit(&r, &jobs[i][k], c[i], (uint8_t)(10 * i + k));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 8; k++) {
            rig_wait(&r, &jobs[i][k]);
            rig_check(&r, &jobs[i][k], (uint8_t)(10 * i + k));
            assert_int_equal(jobs[i][k].job.attempts, 1);
            assert_true(k == 0 || jobs[i][k].order > jobs[i][k - 1].order);
            assert_cmp(jobs[i][k].job.run_us, >=, 200);
        }
        runner_context_free(c[i]);
    }
    rig_free(&r);
    rig_done(&r);
}

// What the null backend refuses, it refuses with words; the context can go on.
static void a_refused_job_is_the_jobs_problem(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "64:64");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    struct rig_job good, bad;
    rig_submit(&r, &good, c, 1);
    rig_wait(&r, &good);
    bad = good;
    bad.done = false;
    bad.input.size = 63;
    bad.job.inputs = &bad.input;
    runner_submit(&bad.job);
    rig_wait(&r, &bad);
    assert_int_equal(bad.error.code, STATUS_INPUT_INVALID);
    assert_non_null(strstr(bad.error.text, "63"));
    rig_check(&r, &good, 1);
    rig_run(&r, c, 2);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// ---- loading -----------------------------------------------------------------------------------

static void load_fails(bool threads, const char *backend, const char *options, uint64_t size,
                       int code, const char *word)
{
    struct rig r;
    rig_init(&r, threads, options);
    r.options.backend = backend;
    r.model.size = size;
    rig_start(&r);
    rig_wait_for(&r, &r.loaded);
    assert_int_equal(r.error.code, code);
    if (!strstr(r.error.text, word))
        fail_msg("\"%s\" is not in: %s", word, r.error.text);
    struct runner_context *c;
    struct error e;
    assert_int_equal(runner_context_new(r.runner, NULL, NULL, &c, &e), code);
    rig_free(&r);
    rig_done(&r);
}

static void load_fails_with_words(void **state)
{
    bool t = in_threads(state);
    load_fails(t, "absent", "", 5000, STATUS_DEVICE_UNAVAILABLE, "npu-absent.so");
    load_fails(t, "../null", "", 5000, STATUS_PARAM_INVALID, "../null");
    load_fails(t, "null", "nonsense", 5000, STATUS_PARAM_INVALID, "nonsense");
    load_fails(t, "null", "", 5001, STATUS_MODEL_INVALID, "5001");
    load_fails(t, "null", "", 0, STATUS_MODEL_INVALID, "test");
}

static void options_that_are_too_long(void **state)
{
    struct rig r;
    struct error e;
    char text[400];
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = 0;
    rig_init(&r, in_threads(state), "");
    r.options.backend_options = text;
    if (in_threads(state)) { // the backend itself is asked
        rig_start(&r);
        rig_wait_for(&r, &r.loaded);
        assert_int_equal(r.error.code, STATUS_PARAM_INVALID);
        rig_free(&r);
    } else {
        const struct runner_events none = {0};
        assert_int_equal(runner_new(&r.options, &r.model, &none, NULL, &r.runner, &e),
                         STATUS_PARAM_INVALID);
        assert_int_equal(runner_probe(&r.options, NULL, NULL, &e), STATUS_PARAM_INVALID);
    }
    rig_done(&r);
}

static void freed_while_it_loads(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "");
    for (int turns = 0; turns < 6; turns++) {
        rig_start(&r);
        for (int i = 0; i < turns && !r.loaded; i++)
            uv_run(&r.loop, UV_RUN_ONCE);
        rig_free(&r);
    }
    r.loaded = false;
    rig_done(&r);
    assert_false(r.loaded); // no call after runner_free()
}

static void must_not_come(void *owner, const struct error *e)
{
    (void)owner;
    fail_msg("opened() after runner_context_free(): %s", e ? e->text : "no error");
}

static void contexts_wait_for_the_model(void **state)
{
    struct rig r;
    struct runner_context *c;
    struct error e;
    rig_init(&r, in_threads(state), "");
    rig_start(&r);
    assert_int_equal(runner_context_new(r.runner, must_not_come, NULL, &c, &e), 0);
    runner_context_free(c);
    c = rig_open(&r);
    assert_true(r.loaded);
    rig_run(&r, c, 7);
    runner_context_free(c);
    assert_int_equal(runner_context_new(r.runner, must_not_come, NULL, &c, &e), 0);
    runner_context_free(c); // while it is being opened
    rig_free(&r);
    rig_done(&r);
}

// ---- cancelling --------------------------------------------------------------------------------

static void cancel_in_flight(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "64:64,delay_us=20000");
    rig_load(&r);
    struct runner_context *a = rig_open(&r), *b = rig_open(&r);
    struct rig_job runs, waits, other;
    rig_submit(&r, &runs, a, 1);
    rig_submit(&r, &waits, a, 2);
    rig_submit(&r, &other, b, 3);
    runner_job_cancel(&waits.job);
    runner_job_cancel(&runs.job);
    rig_drop(&runs);
    rig_drop(&waits);
    memset(&runs.input, 0xff, sizeof runs.input); // the caller's memory is his again
    runner_context_free(a);
    rig_wait(&r, &other);
    rig_check(&r, &other, 3);
    rig_submit(&r, &runs, b, 4);
    runner_job_cancel(&runs.job);
    rig_drop(&runs);
    rig_run(&r, b, 5); // after the cancelled one
    runner_context_free(b);
    rig_free(&r);
    rig_done(&r);
    assert_false(runs.done || waits.done);
}

// Each would take a minute.
static void free_stops_what_runs(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "64:64,delay_us=60000000");
    r.options.job_timeout_ms = 600000;
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    for (int i = 0; i < 3; i++) { // at once, or when it has begun
        struct rig_job runs, waits;
        rig_submit(&r, &runs, c, 1);
        rig_submit(&r, &waits, c, 2);
        for (int k = 0; k < i; k++)
            uv_run(&r.loop, UV_RUN_NOWAIT);
        runner_job_stop(&waits.job);
        runner_job_stop(&runs.job);
        rig_wait(&r, &runs);
        rig_wait(&r, &waits);
        assert_int_equal(runs.error.code, STATUS_FAIL);
        assert_int_equal(waits.error.code, STATUS_FAIL);
        rig_drop(&runs);
        rig_drop(&waits);
    }
    assert_int_equal(r.counters.worker_deaths, 0);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

static void host_freed_with_cancelled_job(void **state)
{
    struct rig r;
    struct rig_job j;
    rig_init(&r, in_threads(state), "64:64,delay_us=20000");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_submit(&r, &j, c, 1);
    runner_job_cancel(&j.job);
    runner_context_free(c);
    rig_free(&r);
    rig_drop(&j); // the pool outlives the runner
    rig_done(&r);
}

static void free_context(struct runner_job *job, const struct error *e)
{
    struct rig_job *j = container_of(job, struct rig_job, job);
    assert_null(e);
    j->done = true;
    runner_context_free(job->context);
}

static void context_freed_in_done(void **state)
{
    struct rig r;
    struct rig_job j, again;
    rig_init(&r, in_threads(state), "");
    rig_load(&r);
    rig_submit(&r, &j, rig_open(&r), 1);
    rig_wait(&r, &j);
    again = j;
    again.done = false;
    again.job.done = free_context;
    again.job.inputs = &again.input;
    runner_submit(&again.job);
    rig_wait(&r, &again);
    rig_drop(&j);
    rig_free(&r);
    rig_done(&r);
}

// ---- profiles ----------------------------------------------------------------------------------

struct profile {
    bool done;
    uint32_t n_layers;
    rknnd_Layer layer;
};

static void on_profile(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                       struct bytes layers)
{
    struct profile *p = owner;
    assert_null(e);
    p->done = true;
    p->n_layers = reply->n_layers;
    if (p->n_layers > 0)
        assert_int_equal(message_delimited_take(rknnd_Layer_fields, &layers, &p->layer, NULL), 0);
    assert_int_equal(layers.size, 0);
}

static void must_not_profile(void *owner, const struct error *e, const rknnd_ProfileReply *reply,
                             struct bytes layers)
{
    (void)owner, (void)e, (void)reply, (void)layers;
    fail_msg("a profile that nobody waits for");
}

static void layers_of_a_profiled_run(void **state)
{
    struct rig r;
    rig_init(&r, in_threads(state), "");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    struct profile none = {0}, one = {0}, two = {0};
    rig_run(&r, c, 1);
    runner_profile(c, on_profile, &none);
    rig_wait_for(&r, &none.done);
    assert_int_equal(none.n_layers, 0);
    r.collect_perf = true;
    rig_run(&r, c, 2);
    runner_profile(c, on_profile, &one);
    runner_profile(c, on_profile, &two);
    rig_wait_for(&r, &two.done);
    assert_int_equal(one.n_layers, 1);
    assert_int_equal(two.n_layers, 1);
    assert_string_equal(two.layer.name, "Repeat:output");
    assert_int_equal(two.layer.core_mask, 1);
    if (!in_threads(state)) { // a thread's answer comes from inside
        runner_profile(c, must_not_profile, NULL);
        runner_profile(c, must_not_profile, NULL);
    }
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// One that waits for a run, and (of a worker) one that is on its way.
static void profiles_are_cancelled(void **state)
{
    struct rig r;
    struct rig_job runs, waits;
    rig_init(&r, in_threads(state), "64:64,delay_us=20000");
    rig_load(&r);
    struct runner_context *c = rig_open(&r);
    rig_submit(&r, &runs, c, 1);
    rig_submit(&r, &waits, c, 2);
    runner_profile(c, must_not_profile, NULL);
    runner_profile_cancel(c);
    rig_wait(&r, &runs);
    rig_check(&r, &runs, 1);
    rig_wait(&r, &waits);
    rig_check(&r, &waits, 2);
    if (!in_threads(state))
        runner_profile(c, must_not_profile, NULL);
    rig_submit(&r, &runs, c, 3);
    runner_profile_cancel(c);
    rig_wait(&r, &runs);
    rig_check(&r, &runs, 3);
    runner_profile_cancel(NULL);
    runner_context_free(c);
    rig_free(&r);
    rig_done(&r);
}

// ---- questions ---------------------------------------------------------------------------------

struct answer {
    bool done;
    struct error error;
    struct npu_device_info info;
    char json[200];
};

static void on_probed(void *owner, const struct error *e, const struct npu_device_info *info)
{
    struct answer *a = owner;
    a->done = true;
    if (e)
        a->error = *e;
    else
        a->info = *info;
}

static void on_described(void *owner, const struct error *e, struct bytes json)
{
    struct answer *a = owner;
    a->done = true;
    if (e) {
        a->error = *e;
        return;
    }
    assert_cmp(json.size, <, sizeof a->json);
    memcpy(a->json, json.data, json.size);
}

static void probe_and_describe(void **state)
{
    struct rig r;
    struct answer probe = {0}, description = {0}, bad = {0};
    struct error e;
    rig_init(&r, in_threads(state), "3:4,cores=2");
    struct runner_options no_backend = r.options;
    no_backend.backend = "absent";
    assert_int_equal(runner_probe(&r.options, on_probed, &probe, &e), 0);
    assert_int_equal(runner_describe(&r.options, &r.model, on_described, &description, &e), 0);
    assert_int_equal(runner_probe(&no_backend, on_probed, &bad, &e), 0);
    rig_wait_for(&r, &probe.done);
    rig_wait_for(&r, &description.done);
    rig_wait_for(&r, &bad.done);
    assert_int_equal(probe.error.code, 0);
    assert_int_equal(probe.info.n_cores, 2);
    assert_string_equal(probe.info.backend, "null");
    assert_int_equal(description.error.code, 0);
    assert_non_null(strstr(description.json, "\"file_size\": 5000"));
    assert_int_equal(bad.error.code, STATUS_DEVICE_UNAVAILABLE);
    assert_non_null(strstr(bad.error.text, "npu-absent.so"));
    rig_done(&r);
}

static void questions_are_cancelled(void **state)
{
    struct rig r;
    struct answer a = {0};
    struct error e;
    rig_init(&r, in_threads(state), "");
    for (int turns = 0; turns < 4; turns++) {
        assert_int_equal(runner_probe(&r.options, on_probed, &a, &e), 0);
        assert_int_equal(runner_describe(&r.options, &r.model, on_described, &a, &e), 0);
        for (int i = 0; i < turns; i++)
            uv_run(&r.loop, UV_RUN_NOWAIT);
        runner_cancel_all(&r.options);
        a.done = false;
    }
    rig_done(&r);
    assert_false(a.done);
}

int main(int argc, char **argv)
{
    static bool kinds[] = {false, true};
    int fd;
    const char *module_dir;
    if (rig_is_worker(argc, argv, &fd, &module_dir))
        return worker_main(fd, module_dir);
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        void *kind = &kinds[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(run_models, kind),
            cmocka_unit_test_prestate(many_jobs_at_once_keep_their_order, kind),
            cmocka_unit_test_prestate(a_refused_job_is_the_jobs_problem, kind),
            cmocka_unit_test_prestate(load_fails_with_words, kind),
            cmocka_unit_test_prestate(options_that_are_too_long, kind),
            cmocka_unit_test_prestate(freed_while_it_loads, kind),
            cmocka_unit_test_prestate(contexts_wait_for_the_model, kind),
            cmocka_unit_test_prestate(cancel_in_flight, kind),
            cmocka_unit_test_prestate(free_stops_what_runs, kind),
            cmocka_unit_test_prestate(host_freed_with_cancelled_job, kind),
            cmocka_unit_test_prestate(context_freed_in_done, kind),
            cmocka_unit_test_prestate(layers_of_a_profiled_run, kind),
            cmocka_unit_test_prestate(profiles_are_cancelled, kind),
            cmocka_unit_test_prestate(probe_and_describe, kind),
            cmocka_unit_test_prestate(questions_are_cancelled, kind),
        };
        print_message("in %s:\n", kinds[i] ? "threads" : "processes");
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
