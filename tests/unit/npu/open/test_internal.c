// Intermediate results in a program's dma-buf (rknn_set_internal_mem), on the emulator and behind
// something that stands in for the kernel, where memory is there twice: outputs are as ever,
// whatever others leave in it between two runs, nothing beside it is written, and what cannot be
// used is not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "npu/open/open_context.h"
#include "tests/support/sim_support.h"
#include "tests/unit/npu/open/digits_case.h"
#include "tests/unit/npu/open/kernel_standin.h"

#define OFFSET 4160 // of the memory in its dma-buf: a multiple of 64, not of a page
#define JUNK   0xc3

// Kernels have dma-bufs in whole pages.
static struct npu_buffer buffer_new(uint64_t wanted)
{
    uint64_t size = (wanted + 4095) / 4096 * 4096;
    struct npu_buffer b = {.fd = memfd_create("internal", MFD_CLOEXEC), .size = size};
    assert_int_equal(ftruncate(b.fd, (off_t)size), 0);
    b.map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
    assert_true(b.map != MAP_FAILED);
    memset(b.map, JUNK, (size_t)size);
    return b;
}

static void buffer_done(struct npu_device *d, struct npu_buffer *b)
{
    npu_backend.buffer_gone(d, b);
    munmap(b->map, (size_t)b->size);
    close(b->fd);
}

static void give(struct npu_context *c, struct npu_buffer *b, uint64_t offset, uint64_t size)
{
    struct error e;
    assert_int_equal(
        npu_backend.context_set_internal(c, b ? b->map + offset : NULL, (size_t)size, b, &e), 0);
}

// ---- on the emulator ---------------------------------------------------------------------------

struct net {
    struct sim_run s;
    uint8_t *in, *out, *wanted;
    size_t n_out;
};

static void net_run(struct net *n, uint8_t *out)
{
    struct npu_input inputs[8] = {0};
    struct npu_output outputs[64] = {0};
    struct error e = {0};
    uint8_t *in = n->in;
    memset(out, 0, n->n_out);
    for (uint32_t i = 0; i < n->s.info->n_inputs; i++) {
        size_t size = n->s.info->inputs[i].logical.size;
        inputs[i] = (struct npu_input){.data = in, .size = size, .converted = true};
        in += size;
    }
    for (uint32_t i = 0; i < n->s.info->n_outputs; i++) {
        size_t size = n->s.info->outputs[i].logical.size;
        outputs[i] = (struct npu_output){.data = out, .size = size};
        out += size;
    }
    if (sim_run_once(&n->s, inputs, outputs, &e) < 0)
        fail_msg("%s", e.text);
}

static void net_init(struct net *n, const char *chip, const char *path)
{
    struct error e = {0};
    char options[32];
    size_t n_in = 1;
    *n = (struct net){0};
    snprintf(options, sizeof options, "emu:%s", chip);
    if (sim_run_init_with(&n->s, options, path, &e) < 0)
        fail_msg("%s: %s", path, e.text);
    for (uint32_t i = 0; i < n->s.info->n_inputs; i++)
        n_in += n->s.info->inputs[i].logical.size;
    for (uint32_t i = 0; i < n->s.info->n_outputs; i++)
        n->n_out += n->s.info->outputs[i].logical.size;
    n->in = malloc(n_in);
    n->out = malloc(n->n_out + 1);
    n->wanted = malloc(n->n_out + 1);
    for (size_t i = 0; i < n_in; i++)
        n->in[i] = (uint8_t)((i * 37 + (i >> 7) * 11) % 23);
    net_run(n, n->wanted);
}

static void net_done(struct net *n)
{
    sim_run_done(&n->s);
    free(n->in);
    free(n->out);
    free(n->wanted);
}

static void net_check(struct net *n, bool outside)
{
    net_run(n, n->out);
    assert_memory_equal(n->out, n->wanted, n->n_out);
    assert_int_equal(n->s.context->own == NULL, outside);
}

static void check_guards(const struct npu_buffer *b, uint64_t from, uint64_t size)
{
    for (uint64_t i = 0; i < b->size; i++)
        if ((i < from || i >= from + size) && b->map[i] != JUNK)
            fail_msg("byte %llu of %llu beside the memory was written", (unsigned long long)i,
                     (unsigned long long)b->size);
}

// The memory is exactly as large as the model says, and full of others' bytes in front of each run.
static void check_net(const char *chip, const char *path)
{
    struct net n;
    net_init(&n, chip, path);
    uint64_t size = n.s.info->internal_size;
    struct npu_buffer b = buffer_new(OFFSET + size + 4096);
    give(n.s.context, &b, OFFSET, size);
    for (int i = 0; i < 2; i++) {
        memset(b.map + OFFSET, JUNK, (size_t)size);
        net_check(&n, true);
        check_guards(&b, OFFSET, size);
    }
    give(n.s.context, NULL, 0, 0);
    buffer_done(n.s.device, &b);
    net_check(&n, false);
    net_done(&n);
}

static void outputs_are_as_ever(void **state)
{
    static const struct {
        const char *chip, *name;
    } files[] = {
        {"rk3588", "multiple_input_demo.rk3588.rknn"}, {"rk3588", "test_conv_c16.rk3588.rknn"},
        {"rk3576", "multiple_input_demo.rk3576.rknn"}, {"rk3566", "lprnet.rk3568.rknn"},
        {"rk3562", "multiple_input_demo.rk3562.rknn"},
    };
    const char *folder = sim_shared_folder();
    (void)state;
    check_net("rk3588", PROJECT_ROOT "/examples/digits/digits.rknn");
    for (size_t i = 0; folder && i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/models/rknn/%s", folder, files[i].name);
        check_net(files[i].chip, path);
    }
}

// Each way in which it cannot be used: results come from memory of the context's own.
static void what_cannot_be_used(void **state)
{
    struct net n;
    (void)state;
    net_init(&n, "rk3588", PROJECT_ROOT "/examples/digits/digits.rknn");
    uint64_t size = n.s.info->internal_size;
    struct npu_buffer b = buffer_new(OFFSET + size + 4096);
    const struct {
        uint64_t offset, size;
    } cases[] = {{OFFSET, size - 1}, {OFFSET + 32, size}, {0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        give(n.s.context, &b, cases[i].offset, cases[i].size);
        net_check(&n, false);
        check_guards(&b, 0, 0);
    }
    struct error e;
    npu_backend.context_set_internal(n.s.context, b.map + OFFSET, (size_t)size, NULL, &e);
    net_check(&n, false);
    check_guards(&b, 0, 0);
    buffer_done(n.s.device, &b);
    net_done(&n);
}

// Contexts of two models take turns in one memory, and one goes on when the other is gone.
static void two_contexts_share_it(void **state)
{
    const char *folder = sim_shared_folder();
    char path[512];
    struct net n;
    struct npu_context *own, *second;
    struct error e;
    (void)state;
    if (!folder)
        skip();
    snprintf(path, sizeof path, "%s/models/rknn/multiple_input_demo.rk3588.rknn", folder);
    net_init(&n, "rk3588", path);
    own = n.s.context;
    struct npu_buffer b = buffer_new(n.s.info->internal_size);
    assert_int_equal(npu_backend.context_new(n.s.model, &second, &e), 0);
    give(own, &b, 0, b.size);
    give(second, &b, 0, b.size);
    for (int i = 0; i < 4; i++) {
        n.s.context = i % 2 ? second : own;
        net_check(&n, true);
    }
    npu_backend.context_free(second);
    n.s.context = own;
    net_check(&n, true);
    give(own, NULL, 0, 0);
    buffer_done(n.s.device, &b);
    net_check(&n, false);
    net_done(&n);
}

// ---- behind a kernel ---------------------------------------------------------------------------

static void check_driver(struct standin_settings set, bool outside)
{
    struct digits_direct d;
    struct error e = {0};
    float scores[DIGITS_SCORES], wanted[DIGITS_SCORES];
    if (digits_direct_init(&d, "emu:rk3588", &e) < 0 || digits_direct_run(&d, NULL, wanted, &e) < 0)
        fail_msg("%s", e.text);
    digits_direct_done(&d);
    standin_begin(&set);
    if (digits_direct_init(&d, "rknpu:,heap=memfd,compatible=", &e) < 0)
        fail_msg("%s", e.text);
    struct npu_buffer b = buffer_new(OFFSET + d.s.info->internal_size);
    give(d.s.context, &b, OFFSET, d.s.info->internal_size);
    for (int i = 0; i < 3; i++) {
        memset(b.map, JUNK, (size_t)b.size);
        if (digits_direct_run(&d, i == 1 ? &d.buffer : NULL, scores, &e) < 0)
            fail_msg("%s", e.text);
        assert_memory_equal(scores, wanted, sizeof wanted);
        assert_int_equal(d.s.context->own == NULL, outside);
        check_guards(&b, OFFSET, d.s.info->internal_size);
    }
    npu_backend.buffer_gone(d.s.device, &d.buffer);
    give(d.s.context, NULL, 0, 0);
    buffer_done(d.s.device, &b);
    if (digits_direct_run(&d, NULL, scores, &e) < 0)
        fail_msg("%s", e.text);
    assert_memory_equal(scores, wanted, sizeof wanted);
    digits_direct_done(&d);
    struct standin_counts c = standin_end();
    assert_int_equal(c.wrong, 0);
    assert_int_equal(c.objects + c.imports + c.maps + c.open_files, 0);
}

static void drivers_have_it(void **state)
{
    static const unsigned versions[] = {800, 809, 905, 906, 908};
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        for (int misc = 0; misc < 2; misc++)
            check_driver((struct standin_settings){.version = versions[i], .misc = misc}, true);
}

// Of the run that ends now: syncs of the arena are one of all of a dma-buf, however small the part.
static unsigned syncs_of_run(struct digits_direct *d)
{
    struct error e = {0};
    float scores[DIGITS_SCORES];
    unsigned before = (unsigned)standin_counts().syncs;
    if (digits_direct_run(d, NULL, scores, &e) < 0)
        fail_msg("%s", e.text);
    return (unsigned)standin_counts().syncs - before;
}

// What moves there is synchronised once; from then on a run has only the syncs of its tensors, as
// one in memory of the context's own: of a dma-buf a sync is two requests.
static void runs_there_sync_their_tensors(void **state)
{
    struct digits_direct d;
    struct error e = {0};
    (void)state;
    standin_begin(&(struct standin_settings){.version = 908});
    if (digits_direct_init(&d, "rknpu:,heap=memfd,compatible=", &e) < 0)
        fail_msg("%s", e.text);
    unsigned first = syncs_of_run(&d), own = syncs_of_run(&d);
    assert_int_equal(own, first);
    struct npu_buffer b = buffer_new(OFFSET + d.s.info->internal_size);
    give(d.s.context, &b, OFFSET, d.s.info->internal_size);
    assert_cmp(syncs_of_run(&d), >, 2 * own); // with the commands', and all of the memory
    for (int i = 0; i < 3; i++)
        assert_int_equal(syncs_of_run(&d), 2 * own);
    give(d.s.context, NULL, 0, 0);
    buffer_done(d.s.device, &b);
    digits_direct_done(&d);
    assert_int_equal(standin_end().wrong, 0);
}

static void drivers_without_imports_have_it_not(void **state)
{
    (void)state;
    check_driver((struct standin_settings){.version = 908, .no_iommu = true}, false);
    check_driver((struct standin_settings){.version = 908, .domain = 3}, false);
    check_driver((struct standin_settings){.version = 908, .ignores_handles = true}, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(outputs_are_as_ever),
                                       cmocka_unit_test(what_cannot_be_used),
                                       cmocka_unit_test(two_contexts_share_it),
                                       cmocka_unit_test(drivers_have_it),
                                       cmocka_unit_test(runs_there_sync_their_tensors),
                                       cmocka_unit_test(drivers_without_imports_have_it_not)};
    return cmocka_run_group_tests(tests, digits_begin, digits_end);
}
