// Buffers: what may be asked for, what is chosen, what they are. Kinds that need the kernel's help
// are tested in a guest (tests/vm).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "npu/buffer/buffer.h"

static void only_known_kinds(void **state)
{
    static const char *const good[] = {"auto",    "drm",   "drm:/dev/dri/card1", "dma_heap",
                                       "udmabuf", "memfd", "dma_heap:cma"};
    static const char *const bad[] = {
        "", "dr", "drms", "drm:", "memfd:x", "udmabuf:x", "dma_heap:", "auto:memfd"};
    struct npu_buffers b = {0};
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(npu_buffers_check(good[i], NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(npu_buffers_check(bad[i], &e), STATUS_PARAM_INVALID);
        assert_non_null(strstr(e.text, "dma_heap[:NAME]"));
        assert_int_equal(npu_buffers_open(&b, bad[i], true, NULL), STATUS_PARAM_INVALID);
    }
}

static void memory_is_zeroed_and_keeps_its_size(void **state)
{
    struct npu_buffers from = {0};
    struct npu_buffer b;
    (void)state;
    assert_int_equal(npu_buffers_open(&from, "memfd", true, NULL), 0);
    assert_string_equal(from.name, "memfd");
    assert_int_equal(npu_buffer_new(&from, 70000, &b, NULL), 0);
    assert_cmp(b.size, >=, 70000);
    for (size_t i = 0; i < b.size; i++)
        assert_int_equal(b.map[i], 0);
    assert_int_equal(ftruncate(b.fd, 100), -1);
    npu_buffer_done(&b);
    assert_int_equal(b.fd, -1);
    assert_false(b.map);
    npu_buffer_done(&b);
    npu_buffers_close(&from);
    npu_buffers_close(&from);
}

static void a_cpu_takes_memfds(void **state)
{
    struct npu_buffers from = {0};
    (void)state;
    assert_int_equal(npu_buffers_open(&from, "auto", false, NULL), 0);
    assert_string_equal(from.name, "memfd");
    npu_buffers_close(&from);
}

// Whatever this machine has.
static void a_device_takes_what_works(void **state)
{
    struct npu_buffers from = {0};
    struct npu_buffer b;
    (void)state;
    assert_int_equal(npu_buffers_open(&from, "auto", true, NULL), 0);
    assert_int_equal(npu_buffer_new(&from, 5000, &b, NULL), 0);
    b.map[4999] = 1;
    void *again = mmap(NULL, 5000, PROT_READ, MAP_SHARED, b.fd, 0);
    assert_ptr_not_equal(again, MAP_FAILED);
    assert_int_equal(((const uint8_t *)again)[4999], 1);
    munmap(again, 5000);
    npu_buffer_done(&b);
    npu_buffers_close(&from);
}

static void a_kind_that_is_named_has_to_work(void **state)
{
    static const struct {
        const char *wanted, *word;
    } cases[] = {{"drm:/dev/dri/nothing", "/dev/dri/nothing"},
                 {"drm:/dev/null", "dumb buffer"},
                 {"dma_heap:nothing", "/dev/dma_heap/nothing"},
                 {"dma_heap:../zero", "not the name of a dma_heap"}};
    struct npu_buffers b = {0};
    struct error e;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_cmp(npu_buffers_open(&b, cases[i].wanted, true, &e), <, 0);
        assert_non_null(strstr(e.text, cases[i].word));
        assert_null(b.kind);
    }
}

static void impossible_sizes_are_errors(void **state)
{
    struct npu_buffers from = {0};
    struct npu_buffer b = {.fd = -7};
    (void)state;
    assert_int_equal(npu_buffers_open(&from, "auto", true, NULL), 0);
    assert_cmp(npu_buffer_new(&from, UINT64_MAX, &b, NULL), <, 0);
    assert_cmp(npu_buffer_new(&from, UINT64_MAX / 4, &b, NULL), <, 0);
    assert_int_equal(b.fd, -7);
    npu_buffers_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_known_kinds),
        cmocka_unit_test(memory_is_zeroed_and_keeps_its_size),
        cmocka_unit_test(a_cpu_takes_memfds),
        cmocka_unit_test(a_device_takes_what_works),
        cmocka_unit_test(a_kind_that_is_named_has_to_work),
        cmocka_unit_test(impossible_sizes_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
