// Memories of the server: which files are taken, what handles mean, what is freed when.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/fd.h"
#include "server/jobs/memory.h"

static struct memories all;

static int begin(void **state)
{
    (void)state;
    memories_init(&all);
    return npu_buffers_open(&all.buffers, "memfd", false, NULL);
}

static int end(void **state)
{
    (void)state;
    npu_buffers_close(&all.buffers);
    return list_empty(&all.all) && all.bytes == 0 ? 0 : -1;
}

static int import_fd(int fd, struct memory **ret, struct error *e)
{
    struct memory_file f;
    int r = memory_map(fd, &f, e);
    return r < 0 ? r : memory_import(&all, &f, ret, e);
}

static struct memory *make(uint64_t size)
{
    struct npu_buffer b;
    struct memory *m = NULL;
    assert_int_equal(npu_buffer_new(&all.buffers, size, &b, NULL), 0);
    assert_int_equal(memory_adopt(&all, &b, &m, NULL), 0);
    return m;
}

static int make_file(unsigned flags, off_t size, int seals)
{
    int fd = memfd_create("client", MFD_CLOEXEC | flags);
    assert_cmp(fd, >=, 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_true(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void expect_taken(int fd, uint64_t size)
{
    struct memory *m = NULL;
    struct error e;
    int client = dup(fd);
    assert_int_equal(import_fd(fd, &m, &e), 0);
    assert_int_equal(m->buffer.size, size);
    m->buffer.map[size - 1] = 7;
    assert_int_equal(ftruncate(client, 0), -1); // not under our feet
    assert_int_equal(fcntl(client, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    memory_unref(m);
    close(client);
}

static void expect_refused(int fd, const char *words)
{
    struct memory *m = NULL;
    struct error e;
    assert_int_equal(import_fd(fd, &m, &e), STATUS_PARAM_INVALID);
    assert_non_null(strstr(e.text, words));
    assert_int_equal(fcntl(fd, F_GETFD), -1); // closed
}

static void files_that_cannot_shrink(void **state)
{
    (void)state;
    char path[] = "/tmp/test-memory-XXXXXX";
    int pipes[2];
    expect_taken(make_file(MFD_ALLOW_SEALING, 10000, 0), 10000);
    expect_taken(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK | F_SEAL_SEAL), 4096);
    expect_refused(make_file(0, 4096, 0), "MFD_ALLOW_SEALING");
    expect_refused(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_GROW | F_SEAL_SEAL), "can shrink");
    expect_refused(make_file(MFD_ALLOW_SEALING, 0, 0), "empty");
    int fd = mkstemp(path);
    assert_cmp(fd, >=, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    expect_refused(fd, "neither a dma-buf nor a memfd");
    assert_int_equal(pipe(pipes), 0);
    expect_refused(pipes[0], "neither a dma-buf nor a memfd");
    close(pipes[1]);
    expect_refused(open("/dev/zero", O_RDWR), "neither a dma-buf nor a memfd");
    expect_refused(open("/tmp", O_RDONLY), "neither a dma-buf nor a memfd");
    expect_refused(socket(AF_UNIX, SOCK_STREAM, 0), "neither a dma-buf nor a memfd");
}

static int open_again(int fd, int flags)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, flags);
    assert_cmp(again, >=, 0);
    close(fd);
    return again;
}

static void expect_taken_for_reading(int fd)
{
    struct memory *m = NULL;
    struct error e;
    int client = dup(fd);
    assert_int_equal(import_fd(fd, &m, NULL), 0);
    assert_true(m->read_only);
    assert_false(m->dmabuf);
    assert_int_equal(fd_check_writable(m->buffer.fd, STATUS_OUTPUT_INVALID, &e),
                     STATUS_OUTPUT_INVALID);
    assert_int_equal(m->buffer.map[4095], 0);
    assert_int_equal(ftruncate(client, 0), -1);
    memory_unref(m);
    close(client);
}

static void files_for_reading_alone(void **state)
{
    (void)state;
    int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    expect_taken_for_reading(
        open_again(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_SHRINK), O_RDONLY));
    expect_taken_for_reading(make_file(MFD_ALLOW_SEALING, 4096, sealed));
    expect_taken_for_reading(open_again(make_file(MFD_ALLOW_SEALING, 4096, sealed), O_RDONLY));
    expect_taken_for_reading(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_WRITE));
    expect_taken_for_reading(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_FUTURE_WRITE));
    expect_refused(make_file(MFD_ALLOW_SEALING, 4096, F_SEAL_WRITE | F_SEAL_SEAL), "can shrink");
    expect_refused(open_again(make_file(MFD_ALLOW_SEALING, 4096, 0), O_RDONLY), "can shrink");
}

static void one_file_is_one_memory(void **state)
{
    (void)state;
    struct memory_table table = {0};
    struct memory *m = make(100), *again = NULL;
    uint64_t a, b;
    assert_int_equal(import_fd(dup(m->buffer.fd), &again, NULL), 0);
    assert_ptr_equal(m, again);
    assert_int_equal(memory_table_add(&table, m, &a, NULL), 0);
    assert_int_equal(memory_table_add(&table, again, &b, NULL), 0);
    memory_unref(m);
    memory_unref(again);
    assert_int_not_equal(a, b);
    assert_int_equal(table.n_memories, 2);
    assert_int_equal(table.bytes, 200);
    assert_int_equal(all.bytes, 100);
    assert_int_equal(memory_table_free(&table, a, NULL), 0);
    assert_int_equal(memory_table_free(&table, a, NULL), STATUS_PARAM_INVALID);
    assert_null(memory_table_find(&table, a, NULL));
    assert_ptr_equal(memory_table_find(&table, b, NULL), m);
    memory_table_done(&table);
}

// Who has a file for reading alone gets it for reading alone, although another has it for writing.
static void rights_are_the_importers(void **state)
{
    (void)state;
    int fd = make_file(MFD_ALLOW_SEALING, 4096, 0);
    struct memory *owner = NULL, *reader = NULL, *again = NULL;
    struct error e;
    assert_int_equal(import_fd(dup(fd), &owner, NULL), 0);
    assert_int_equal(import_fd(open_again(dup(fd), O_RDONLY), &reader, NULL), 0);
    assert_true(reader->read_only);
    assert_int_equal(fd_check_writable(reader->buffer.fd, STATUS_OUTPUT_INVALID, &e),
                     STATUS_OUTPUT_INVALID);
    owner->buffer.map[9] = 77;
    assert_int_equal(reader->buffer.map[9], 77);
    // ... and the other way round: the reader's mapping is not what a writer gets.
    assert_int_equal(import_fd(open_again(dup(fd), O_RDWR), &again, NULL), 0);
    assert_ptr_equal(again, owner);
    memory_unref(again);
    memory_unref(owner);
    assert_int_equal(import_fd(fd, &owner, NULL), 0);
    assert_false(owner->read_only);
    owner->buffer.map[9] = 78;
    memory_unref(owner);
    memory_unref(reader);
}

// Files of one inode, which all dma-bufs are before Linux 5.3, and event descriptors ever.
static void files_that_share_an_inode(void **state)
{
    (void)state;
    struct npu_buffer b = {.fd = eventfd(0, EFD_CLOEXEC), .size = 4096};
    struct memory *m;
    b.map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(memory_adopt(&all, &b, &m, NULL), 0);
    expect_refused(eventfd(0, EFD_CLOEXEC), "neither a dma-buf nor a memfd");
    memory_unref(m);
}

static void handles_are_not_used_again(void **state)
{
    (void)state;
    struct memory_table table = {0};
    struct memory *m = make(1);
    uint64_t first, second;
    assert_int_equal(memory_table_add(&table, m, &first, NULL), 0);
    assert_int_equal(memory_table_free(&table, first, NULL), 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(memory_table_add(&table, m, &second, NULL), 0);
    assert_null(memory_table_find(&table, first, NULL));
    assert_null(memory_table_find(&table, 0, NULL));
    assert_null(memory_table_find(&table, UINT64_MAX, NULL));
    memory_table_done(&table);
    memory_unref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_that_cannot_shrink, begin, end),
        cmocka_unit_test_setup_teardown(files_for_reading_alone, begin, end),
        cmocka_unit_test_setup_teardown(one_file_is_one_memory, begin, end),
        cmocka_unit_test_setup_teardown(rights_are_the_importers, begin, end),
        cmocka_unit_test_setup_teardown(files_that_share_an_inode, begin, end),
        cmocka_unit_test_setup_teardown(handles_are_not_used_again, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
