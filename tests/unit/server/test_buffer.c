// Buffers of jobs: reuse, limits, and what another process can do to them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "server/jobs/buffer.h"
#include "tests/support/fds.h"

static struct buffer *get(struct buffer_pool *p, uint64_t in, uint64_t out)
{
    struct error e;
    struct buffer *b = NULL;
    if (buffer_get(p, in, out, &b, &e) < 0)
        fail_msg("%s", e.text);
    assert_cmp(b->input_size, >=, in);
    assert_cmp(b->output_size, >=, out);
    return b;
}

static void reuses_the_last_one(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    struct buffer_pool *p = buffer_pool_new(true, &totals);
    struct buffer *a = get(p, 100000, 3000), *b = get(p, 100000, 3000);
    assert_int_not_equal(a->id, b->id);
    buffer_unref(a);
    buffer_unref(b);
    struct buffer *c = get(p, 99990, 2000);
    assert_ptr_equal(c, b);
    assert_int_equal(c->refs, 1);
    struct buffer *d = get(p, 5000000, 0);
    assert_ptr_not_equal(d, a);
    assert_non_null(d->output);
    buffer_unref(c);
    buffer_unref(d);
    buffer_pool_free(p);
    assert_int_equal(totals.bytes, 0);
}

static void wastes_at_most_a_fifth_of_large_ones(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    struct buffer_pool *p = buffer_pool_new(false, &totals);
    for (uint64_t size = 32768; size < 200000000; size += size / 7 + 13) {
        struct buffer *b = get(p, size, 1);
        assert_cmp(b->input_size - size, <=, b->input_size / 5 + 4096);
        assert_int_equal(b->input_fd, -1);
        b->input[size - 1] = b->input[0] = 1;
        buffer_unref(b);
        buffer_pool_trim(p, 0);
        assert_int_equal(totals.bytes, 0);
    }
    buffer_pool_free(p);
}

static void pool_lives_as_long_as_its_buffers(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    unsigned fds = fds_count();
    struct buffer_pool *p = buffer_pool_new(true, &totals);
    struct buffer *a = get(p, 10, 10), *b = get(p, 10, 10), *c = get(p, 10, 10);
    buffer_unref(c);
    buffer_ref(a);
    buffer_pool_free(p);
    assert_int_equal(totals.bytes, a->input_size + a->output_size + b->input_size + b->output_size);
    buffer_unref(b);
    buffer_unref(a);
    a->input[0] = 1;
    buffer_unref(a);
    assert_int_equal(totals.bytes, 0);
    assert_int_equal(fds_count(), fds);
}

static void note_forgotten(struct buffer *b, void *owner)
{
    *(uint32_t *)owner = b->id;
}

static void trim_forgets_the_longest_unused(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    uint32_t forgotten = 0;
    struct buffer_pool *p = buffer_pool_new(true, &totals);
    buffer_pool_on_forget(p, note_forgotten, &forgotten);
    struct buffer *a = get(p, 10, 10), *b = get(p, 10, 10);
    uint32_t first = a->id;
    buffer_unref(a);
    buffer_unref(b);
    buffer_pool_trim(p, 2);
    assert_int_equal(forgotten, 0);
    buffer_pool_trim(p, 1);
    assert_int_equal(forgotten, first);
    forgotten = 0;
    buffer_pool_free(p);
    assert_int_equal(forgotten, 0);
}

// Whose pool it is does not matter: what was used last stays.
static void few_stay_idle(void **state)
{
    (void)state;
    struct buffer_totals totals;
    struct buffer *of[2][3];
    uint32_t forgotten = 0;
    unsigned fds = fds_count();
    buffer_totals_init(&totals, 3, 10 << 20);
    struct buffer_pool *p[2] = {buffer_pool_new(true, &totals), buffer_pool_new(true, &totals)};
    buffer_pool_on_forget(p[0], note_forgotten, &forgotten);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            of[i][j] = get(p[i], 10, 10);
    uint32_t first = of[0][0]->id;
    for (int j = 0; j < 3; j++)
        buffer_unref(of[0][j]);
    assert_int_equal(forgotten, 0);
    buffer_unref(of[1][0]);
    assert_int_equal(forgotten, first);
    buffer_unref(of[1][1]);
    buffer_unref(of[1][2]);
    assert_int_equal(totals.n_idle, 3);
    assert_int_equal(fds_count(), fds + 6);
    buffer_unref(get(p[0], 20 << 20, 1)); // it is more than all that may stay, with those before it
    assert_int_equal(totals.bytes, 0);
    buffer_pool_free(p[0]);
    buffer_pool_free(p[1]);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    unsigned fds = fds_count();
    struct error e = {0};
    struct buffer *b = NULL;
    struct buffer_pool *p = buffer_pool_new(true, &totals);
    assert_int_equal(buffer_get(p, UINT64_MAX, 1, &b, &e), STATUS_MALLOC_FAIL);
    assert_int_equal(buffer_get(p, 1, UINT64_MAX - 4096, &b, &e), STATUS_MALLOC_FAIL);
    assert_int_equal(buffer_get(p, 1, INT64_MAX / 2, &b, &e), STATUS_MALLOC_FAIL);
    assert_null(b);
    assert_int_equal(totals.bytes, 0);
    buffer_pool_free(p);
    assert_int_equal(fds_count(), fds);
}

// What a worker could try with the fds it is given.
static void sealed_against_the_worker(void **state)
{
    (void)state;
    struct buffer_totals totals;
    buffer_totals_init(&totals, UINT32_MAX, UINT64_MAX);
    struct buffer_pool *p = buffer_pool_new(true, &totals);
    struct buffer *b = get(p, 8192, 8192);
    for (int i = 0; i < 2; i++) {
        int fd = i ? b->output_fd : b->input_fd;
        assert_int_equal(ftruncate(fd, 0), -1);
        assert_int_equal(ftruncate(fd, 1 << 20), -1);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
    void *out = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, b->output_fd, 0);
    assert_ptr_not_equal(out, MAP_FAILED);
    munmap(out, 8192);
    uint8_t *in = mmap(NULL, 8192, PROT_READ, MAP_SHARED, b->input_fd, 0);
    assert_ptr_not_equal(in, MAP_FAILED);
    b->input[17] = 99;
    assert_int_equal(in[17], 99);
    if (fcntl(b->input_fd, F_GET_SEALS) & 0x10 /* F_SEAL_FUTURE_WRITE */) {
        assert_int_equal(mprotect(in, 8192, PROT_READ | PROT_WRITE), -1);
        void *again = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, b->input_fd, 0);
        assert_ptr_equal(again, MAP_FAILED);
        assert_int_equal(pwrite(b->input_fd, "x", 1, 0), -1);
    } else {
        print_message("the kernel has no F_SEAL_FUTURE_WRITE: not tested\n");
    }
    munmap(in, 8192);
    buffer_unref(b);
    buffer_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuses_the_last_one),
        cmocka_unit_test(wastes_at_most_a_fifth_of_large_ones),
        cmocka_unit_test(pool_lives_as_long_as_its_buffers),
        cmocka_unit_test(trim_forgets_the_longest_unused),
        cmocka_unit_test(few_stay_idle),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(sealed_against_the_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
