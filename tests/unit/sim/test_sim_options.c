// The software NPU's options: what they may be, jobs that take the chip's time, injected faults.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "npu/sim/sim_options.h"
#include "tests/support/sim_run.h"

#define IMAGE_SIZE  1024
#define OUTPUT_SIZE 64

// ---- the text ----------------------------------------------------------------------------------

static void reads_options(void **state)
{
    struct sim_options o;
    struct error e;
    (void)state;
    assert_int_equal(sim_options_parse("", &o, &e), 0);
    assert_null(o.chip);
    assert_false(o.paced);
    assert_int_equal(
        sim_options_parse(
            "RK3576,speed=2.5,programs=Conv*,strict,crash@3,hang%0.5:noisy*,slow@1:a b", &o, &e),
        0);
    assert_string_equal(o.chip->name, "rk3576");
    assert_true(o.paced);
    assert_cmp(o.speed, >, 2.4999);
    assert_cmp(o.speed, <, 2.5001);
    assert_string_equal(o.programs, "Conv*");
    assert_true(o.strict);
    assert_int_equal(o.n_faults, 3);
    assert_int_equal(o.faults[0].kind, FAULT_CRASH);
    assert_int_equal(o.faults[0].at_job, 3);
    assert_string_equal(o.faults[0].models, "*");
    assert_int_equal(o.faults[1].kind, FAULT_HANG);
    assert_cmp(o.faults[1].chance, >, 0.00499);
    assert_cmp(o.faults[1].chance, <, 0.00501);
    assert_string_equal(o.faults[1].models, "noisy*");
    assert_string_equal(o.faults[2].models, "a b");
}

static void refuses_what_is_not_an_option(void **state)
{
    static const char *const bad[] = {
        "rk9999",
        "rk3588,",
        "any,fast",
        "any,speed=",
        "any,speed=0",
        "any,speed=x",
        "any,speed=1e9",
        "any,crash",
        "any,crash@",
        "any,crash@0",
        "any,@3",
        "any,crash@1.5",
        "any,crash%101",
        "any,hang%-1",
        "any,crash@3:",
        "any,crash@ 3",
        "any,boom@3",
        "any,hang@3x",
        "any,wrong%nan",
        "any,programs=",
        "any,programs=0123456789012345678901234567890123456789012345678901234567890123",
    };
    struct sim_options o;
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sim_options_parse(bad[i], &o, &e) != STATUS_PARAM_INVALID)
            fail_msg("\"%s\" was taken", bad[i]);
}

// ---- running -----------------------------------------------------------------------------------

struct digits {
    struct sim_run run;
    uint8_t image[IMAGE_SIZE], output[OUTPUT_SIZE];
};

static void open_digits(struct digits *d, const char *options)
{
    struct error e;
    if (sim_run_init_with(&d->run, options, DIGITS_FILE, &e) < 0)
        fail_msg("%s", e.text);
    assert_cmp(d->run.info->inputs[0].logical.size, <=, IMAGE_SIZE);
    assert_cmp(d->run.info->outputs[0].logical.size, <=, OUTPUT_SIZE);
    memset(d->image, 0, sizeof d->image);
}

static int run_digits(struct digits *d)
{
    struct npu_input in = {
        .data = d->image, .size = d->run.info->inputs[0].logical.size, .converted = true};
    struct npu_output out = {.data = d->output, .size = d->run.info->outputs[0].logical.size};
    struct error e;
    memset(d->output, 0, sizeof d->output);
    return sim_run_once(&d->run, &in, &out, &e);
}

// What it has computed before it knows, and only that.
static void paced_outputs_are_computed_ones(void **state)
{
    static const uint8_t grey[] = {0, 0, 90, 90, 0, 90};
    struct digits plain, paced;
    (void)state;
    open_digits(&plain, "");
    open_digits(&paced, "rk3588,paced,speed=1000");
    for (size_t i = 0; i < sizeof grey; i++) {
        memset(plain.image, grey[i], IMAGE_SIZE / 2);
        memset(paced.image, grey[i], IMAGE_SIZE / 2);
        assert_int_equal(run_digits(&plain), 0);
        assert_int_equal(run_digits(&paced), 0);
        assert_memory_equal(plain.output, paced.output, OUTPUT_SIZE);
    }
    sim_run_done(&plain.run);
    sim_run_done(&paced.run);
}

// The network has 88,000 products: no chip does it in a microsecond. At a thousandth of its speed:
static void paced_jobs_take_their_time(void **state)
{
    struct digits d;
    (void)state;
    open_digits(&d, "rk3588,speed=0.001");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_digits(&d), 0);
        assert_cmp(d.run.run_us, >=, 1000);
    }
    sim_run_done(&d.run);
}

static uint64_t sum_of_layers(const struct digits *d, uint64_t *ret_estimate_ns)
{
    size_t n;
    uint64_t us = 0;
    const struct npu_layer *layers = npu_backend.context_layers(d->run.context, &n);
    assert_cmp(n, >, 3);
    *ret_estimate_ns = 0;
    for (size_t i = 0; i < n; i++) {
        us += layers[i].time_us;
        *ret_estimate_ns += layers[i].estimate_ns;
        assert_cmp(layers[i].estimate_ns, >=, layers[i].total_cycles); // at 1000 MHz
        assert_cmp(layers[i].estimate_ns, <=, layers[i].total_cycles + 1);
    }
    return us;
}

// Whether the CPU computes (the first time) or not, layers have what the run took, and the chip's
// time stays what it is at every pace.
static void paced_layers_add_up_to_the_run(void **state)
{
    struct digits d;
    uint64_t estimate_ns, first_ns = 0;
    (void)state;
    open_digits(&d, "rk3588,speed=0.001");
    d.run.collect_perf = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_digits(&d), 0);
        assert_int_equal(sum_of_layers(&d, &estimate_ns), d.run.run_us);
        first_ns = i ? first_ns : d.run.estimate_ns;
        assert_int_equal(d.run.estimate_ns, first_ns);
        assert_cmp(estimate_ns + 10, >, first_ns);
        assert_cmp(estimate_ns, <, first_ns + 10);
        assert_cmp(d.run.run_us + 1, >=, first_ns); // a thousand times as long
    }
    sim_run_done(&d.run);
}

static void models_say_what_their_estimate_is_for(void **state)
{
    static const struct {
        const char *options, *chip;
    } cases[] = {{"", "rk3588"}, {"rk3588", "rk3588"}};
    struct digits d;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_digits(&d, cases[i].options);
        assert_string_equal(d.run.info->estimate_chip, cases[i].chip);
        assert_false(d.run.info->estimate_assumed); // the file says which
        assert_int_equal(npu_backend.device_info(d.run.device)->timing, NPU_TIMING_MACHINE);
        sim_run_done(&d.run);
    }
}

static void faults_come_when_they_should(void **state)
{
    struct digits d;
    uint8_t right[OUTPUT_SIZE];
    (void)state;
    open_digits(&d, "any,memory@2,wrong@3,memory@1:other*");
    assert_int_equal(run_digits(&d), 0);
    memcpy(right, d.output, sizeof right);
    assert_int_equal(run_digits(&d), STATUS_MALLOC_FAIL);
    assert_int_equal(run_digits(&d), 0);
    assert_memory_not_equal(d.output, right, OUTPUT_SIZE);
    assert_int_equal(run_digits(&d), 0);
    assert_memory_equal(d.output, right, OUTPUT_SIZE);
    sim_run_done(&d.run);
}

static void chance_of_a_hundred_is_always(void **state)
{
    struct digits d;
    (void)state;
    open_digits(&d, "any,memory%100:*/digits.rknn");
    for (int i = 0; i < 20; i++)
        assert_int_equal(run_digits(&d), STATUS_MALLOC_FAIL);
    sim_run_done(&d.run);
}

static void crash_ends_the_process(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    assert_cmp(child, >=, 0);
    if (child == 0) {
        struct digits d;
        open_digits(&d, "any,crash@1");
        run_digits(&d);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_options),
        cmocka_unit_test(refuses_what_is_not_an_option),
        cmocka_unit_test(paced_outputs_are_computed_ones),
        cmocka_unit_test(paced_jobs_take_their_time),
        cmocka_unit_test(paced_layers_add_up_to_the_run),
        cmocka_unit_test(models_say_what_their_estimate_is_for),
        cmocka_unit_test(faults_come_when_they_should),
        cmocka_unit_test(chance_of_a_hundred_is_always),
        cmocka_unit_test(crash_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
