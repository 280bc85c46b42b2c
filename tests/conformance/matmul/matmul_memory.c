// Matrices in every kind of memory that a program may have, each kind beside each.
#include "matmul_calls.h"

#include <sys/mman.h>
#include <unistd.h>

enum kind { MADE, MADE_ALONE, MEMFD, PLAIN_FILE, N_KINDS };

#define OFFSET 12 // of a matrix in a file

struct place {
    rknn_tensor_mem *mem;
    uint8_t *map, *data;
    size_t size;
};

static int open_file(enum kind kind)
{
    char path[] = "/tmp/conformance-matmul-XXXXXX";
    if (kind == MEMFD)
        return memfd_create("matrix", 0);
    int fd = mkstemp(path);
    unlink(path);
    return fd;
}

static struct place place_in_file(rknn_matmul_ctx c, enum kind kind, uint32_t size)
{
    struct place p = {.size = OFFSET + size};
    int fd = open_file(kind);
    NEED_CMP(fd, >=, 0);
    NEED_CMP(ftruncate(fd, (off_t)p.size), ==, 0);
    p.map = mmap(NULL, p.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    NEED_CMP(p.map, !=, MAP_FAILED);
    p.data = p.map + OFFSET;
    p.mem = rknn_create_mem_from_fd(c, fd, p.map, size, OFFSET);
    NEED(p.mem);
    close(fd);
    return p;
}

static struct place make_place(rknn_matmul_ctx c, enum kind kind, uint32_t size)
{
    if (kind == MEMFD || kind == PLAIN_FILE)
        return place_in_file(c, kind, size);
    struct place p = {.mem = kind == MADE
                                 ? rknn_create_mem(c, size)
                                 : rknn_create_mem2(0, size, RKNN_MEM_FLAG_ALLOC_NO_CONTEXT)};
    NEED(p.mem);
    p.data = p.mem->virt_addr;
    return p;
}

static void end_place(rknn_matmul_ctx c, const struct place *p)
{
    EXPECT_OK(rknn_destroy_mem(c, p->mem));
    if (p->map)
        munmap(p->map, p->size);
}

// A is read by each run, B when it is set.
static void multiply(rknn_matmul_ctx c, rknn_matmul_io_attr *io, const enum kind kinds[3],
                     const struct plain_problem x[2])
{
    rknn_matmul_tensor_attr *attrs[] = {&io->A, &io->B, &io->C};
    struct place p[3];
    for (int i = 0; i < 3; i++)
        p[i] = make_place(c, kinds[i], attrs[i]->size);
    for (int round = 0; round < 4; round++) {
        memcpy(p[0].data, x[round / 2].a, io->A.size);
        memcpy(p[1].data, x[round / 2].b, io->B.size);
        memset(p[2].data, 0x55, io->C.size);
        for (int i = 0; i < 3 && round % 2 == 0; i++)
            EXPECT_OK(rknn_matmul_set_io_mem(c, p[i].mem, attrs[i]));
        if (EXPECT_OK(rknn_matmul_run(c)))
            conformance_check(plain_check(&x[round / 2], p[2].data), __FILE__, __LINE__,
                              "A, B, C in memory of kinds %d, %d, %d", kinds[0], kinds[1],
                              kinds[2]);
    }
    for (int i = 0; i < 3; i++)
        end_place(c, &p[i]);
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    struct plain_case p = {.chip = matmul_chip(),
                           .type = RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32,
                           .m = 3,
                           .k = 64,
                           .n = 32};
    rknn_matmul_info info = matmul_info(&p);
    rknn_matmul_io_attr io;
    rknn_matmul_ctx c = 0;
    struct plain_problem x[2];
    NEED_OK(rknn_matmul_create(&c, &info, &io));
    for (int i = 0; i < 2; i++)
        plain_problem_make(&x[i], &p, false);
    for (int i = 0; i < N_KINDS * N_KINDS * N_KINDS; i++) {
        const enum kind kinds[] = {(enum kind)(i % N_KINDS), (enum kind)(i / N_KINDS % N_KINDS),
                                   (enum kind)(i / N_KINDS / N_KINDS)};
        multiply(c, &io, kinds, x);
    }
    for (int i = 0; i < 2; i++)
        plain_problem_done(&x[i]);
    EXPECT_OK(rknn_matmul_destroy(c));
    return conformance_finish();
}
