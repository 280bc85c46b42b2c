// large_pages_ask(): what of memory it is asked for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/process/large_pages.h"

#define MAPPED (8 * LARGE_PAGE)

// Bytes from `memory` on whose mappings have the kernel's mark for large pages ("hg").
static size_t marked(const uint8_t *memory, size_t size)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long begin = 0, end = 0, a, b, from = (unsigned long)memory;
    size_t sum = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
            begin = a;
            end = b;
        }
        bool inside = begin >= from && end <= from + size;
        if (inside && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg"))
            sum += end - begin;
    }
    fclose(f);
    return sum;
}

static void test_whole_pages_alone(void **state)
{
    static const struct {
        size_t before, size, marked;
    } cases[] = {
        {0, LARGE_PAGE, LARGE_PAGE},
        {0, LARGE_PAGE - 1, 0},
        {4096, LARGE_PAGE, 0},
        {64, 2 * LARGE_PAGE, LARGE_PAGE},
        {4096, 3 * LARGE_PAGE + 4096, 2 * LARGE_PAGE},
        {0, 3 * LARGE_PAGE + 64, 3 * LARGE_PAGE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *all =
            mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(all != MAP_FAILED);
        uint8_t *first = (uint8_t *)align_up((uintptr_t)all, LARGE_PAGE);
        if (madvise(all, MAPPED, MADV_NOHUGEPAGE) < 0)
            skip(); // a kernel without them
        large_pages_ask(first + cases[i].before, cases[i].size);
        assert_int_equal(marked(all, MAPPED), cases[i].marked);
        munmap(all, MAPPED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_pages_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
