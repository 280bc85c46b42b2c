// As the SDK's create-mem and internal-memory demos: memory by descriptor and at an offset, memory
// of others, internal memory that two models share, models that lie in memory; and what is refused.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../conformance.h"

#define N_RUNS 20

struct model {
    const char *name;
    rknn_context c;
    rknn_tensor_attr *inputs, *outputs; // one input, one output of interest
    uint32_t in_size;                   // bytes of the input, as its file has it
    rknn_tensor_mem *internal;
};

static struct model open_model(const char *name, uint32_t flags)
{
    char path[64];
    snprintf(path, sizeof path, "%s.rknn", name);
    struct model m = {.name = name, .c = conformance_open(path, flags)};
    size_t size;
    free(conformance_file(&size, "%s.in0.bin", name));
    m.in_size = (uint32_t)size;
    m.inputs = conformance_attrs(m.c, RKNN_QUERY_INPUT_ATTR);
    m.outputs = conformance_attrs(m.c, RKNN_QUERY_OUTPUT_ATTR);
    return m;
}

static void close_model(struct model *m)
{
    EXPECT_OK(rknn_destroy(m->c));
    free(m->inputs);
    free(m->outputs);
}

static rknn_mem_size sizes_of(rknn_context c)
{
    rknn_mem_size s;
    NEED_OK(rknn_query(c, RKNN_QUERY_MEM_SIZE, &s, sizeof s));
    return s;
}

// ---- tensors in all kinds of memory ------------------------------------------------------------

static rknn_tensor_attr input_attr(const struct model *m)
{
    rknn_tensor_attr a = m->inputs[0];
    a.type = m->in_size == a.n_elems ? RKNN_TENSOR_UINT8 : RKNN_TENSOR_FLOAT32;
    a.w_stride = 0;
    return a;
}

// One run with these memories, whose data lie at these addresses.
static void run_with(const struct model *m, rknn_tensor_mem *in, void *input, rknn_tensor_mem *out,
                     const void *output)
{
    size_t size;
    rknn_tensor_attr a = input_attr(m);
    uint8_t *data = conformance_file(&size, "%s.in0.bin", m->name);
    NEED(in);
    NEED(out);
    EXPECT_OK(rknn_set_io_mem(m->c, in, &a));
    EXPECT_OK(rknn_set_io_mem(m->c, out, &m->outputs[0]));
    memcpy(input, data, size);
    EXPECT_OK(rknn_run(m->c, NULL));
    conformance_compare(&m->outputs[0], m->name, 0, output, m->outputs[0].size);
    free(data);
}

static void by_descriptor(const struct model *m)
{
    uint32_t in_size = m->in_size, out_size = m->outputs[0].size, gap = 64;
    rknn_tensor_mem *all = rknn_create_mem(m->c, in_size + gap + out_size);
    NEED(all);
    uint8_t *mine = mmap(NULL, all->size, PROT_READ | PROT_WRITE, MAP_SHARED, all->fd, 0);
    NEED_CMP(mine, !=, MAP_FAILED);
    rknn_tensor_mem *in = rknn_create_mem_from_fd(m->c, all->fd, mine, in_size, 0);
    rknn_tensor_mem *out =
        rknn_create_mem_from_fd(m->c, all->fd, mine, out_size, (int32_t)(in_size + gap));
    NEED(in);
    NEED(out);
    EXPECT_CMP(in->virt_addr, ==, mine);
    EXPECT_CMP(in->flags, ==, RKNN_TENSOR_MEMORY_FLAGS_FROM_FD);
    run_with(m, in, mine, out, mine + in_size + gap);
    EXPECT_MEMORY(all->virt_addr, mine, all->size);
    munmap(mine, all->size);
    EXPECT_OK(rknn_destroy_mem(m->c, all)); // before those that use it
    EXPECT_OK(rknn_run(m->c, NULL));
    EXPECT_OK(rknn_destroy_mem(m->c, in));
    EXPECT_OK(rknn_destroy_mem(m->c, out));
}

// A file that somebody else made: a memfd, and one in a file system, which nobody can seal.
static void memory_of_others(const struct model *m, int fd)
{
    uint32_t in_size = m->in_size, size = in_size + m->outputs[0].size;
    NEED_CMP(fd, >=, 0);
    NEED_CMP(ftruncate(fd, size), ==, 0);
    uint8_t *mine = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rknn_tensor_mem *in = rknn_create_mem_from_fd(m->c, fd, mine, in_size, 0);
    rknn_tensor_mem *out =
        rknn_create_mem_from_fd(m->c, fd, mine, m->outputs[0].size, (int32_t)in_size);
    run_with(m, in, mine, out, mine + in_size);
    munmap(mine, size);
    close(fd); // and only then:
    EXPECT_OK(rknn_destroy_mem(m->c, in));
    EXPECT_OK(rknn_destroy_mem(m->c, out));
}

// A picture that its maker lets nobody change, himself included.
static void sealed_picture(const struct model *m)
{
    size_t size;
    rknn_tensor_attr a = input_attr(m);
    uint8_t *data = conformance_file(&size, "%s.in0.bin", m->name);
    int fd = memfd_create("picture", MFD_ALLOW_SEALING);
    NEED_CMP(fd, >=, 0);
    NEED_CMP(write(fd, data, size), ==, (ssize_t)size);
    NEED_CMP(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), ==, 0);
    uint8_t *mine = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    NEED_CMP(mine, !=, MAP_FAILED);
    rknn_tensor_mem *in = rknn_create_mem_from_fd(m->c, fd, mine, (uint32_t)size, 0);
    rknn_tensor_mem *out = rknn_create_mem(m->c, m->outputs[0].size);
    NEED(in);
    NEED(out);
    EXPECT_OK(rknn_set_io_mem(m->c, in, &a));
    EXPECT_OK(rknn_set_io_mem(m->c, out, &m->outputs[0]));
    EXPECT_OK(rknn_run(m->c, NULL));
    conformance_compare(&m->outputs[0], m->name, 0, out->virt_addr, m->outputs[0].size);
    EXPECT_CODE(RKNN_ERR_OUTPUT_INVALID, rknn_set_io_mem(m->c, in, &m->outputs[0]));
    EXPECT_OK(rknn_destroy_mem(m->c, in));
    EXPECT_OK(rknn_destroy_mem(m->c, out));
    munmap(mine, size);
    close(fd);
    free(data);
}

static int plain_file(void)
{
    char path[] = "/tmp/conformance-memory-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    return fd;
}

static void without_context(const struct model *m)
{
    const uint64_t kinds[] = {RKNN_FLAG_MEMORY_CACHEABLE, RKNN_FLAG_MEMORY_NON_CACHEABLE,
                              RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM};
    rknn_tensor_mem *in = rknn_create_mem2(0, m->in_size, RKNN_MEM_FLAG_ALLOC_NO_CONTEXT);
    for (size_t i = 0; i < 3; i++) {
        rknn_tensor_mem *out = rknn_create_mem2(m->c, m->outputs[0].size, kinds[i]);
        NEED(in);
        NEED(out);
        run_with(m, in, in->virt_addr, out, out->virt_addr);
        EXPECT_OK(rknn_destroy_mem(m->c, out));
    }
    EXPECT_OK(rknn_destroy_mem(0, in));
}

// One picture for two contexts, changed now by one and now by the other.
static void one_input_for_two(const struct model *m)
{
    struct model other = open_model(m->name, 0);
    rknn_tensor_mem *in = rknn_create_mem(m->c, m->in_size);
    rknn_tensor_mem *a = rknn_create_mem(m->c, m->outputs[0].size);
    rknn_tensor_mem *b = rknn_create_mem(other.c, m->outputs[0].size);
    NEED(in);
    NEED(a);
    NEED(b);
    for (int i = 0; i < 3; i++) {
        run_with(m, in, in->virt_addr, a, a->virt_addr);
        memset(in->virt_addr, i, in->size);
        EXPECT_OK(rknn_run(m->c, NULL));
        run_with(&other, in, in->virt_addr, b, b->virt_addr);
        memset(in->virt_addr, i, in->size);
        EXPECT_OK(rknn_run(other.c, NULL));
        EXPECT_MEMORY(a->virt_addr, b->virt_addr, a->size);
    }
    EXPECT_OK(rknn_destroy_mem(m->c, b));
    close_model(&other);
    EXPECT_OK(rknn_destroy_mem(m->c, in));
    EXPECT_OK(rknn_destroy_mem(m->c, a));
}

// ---- internal memory ---------------------------------------------------------------------------

static void *run_often(void *arg)
{
    struct model *m = arg;
    for (int i = 0; i < N_RUNS; i++) {
        EXPECT_OK(rknn_run(m->c, NULL));
        conformance_expect_outputs(m->c, m->name);
    }
    return NULL;
}

// Two models, one internal memory, as in the SDK guide (9.3); nothing of the runs before may
// matter.
static void shared_internal_memory(void)
{
    struct model m[2] = {open_model("conv", RKNN_FLAG_MEM_ALLOC_OUTSIDE),
                         open_model("residual", RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE)};
    rknn_mem_size a = sizes_of(m[0].c), b = sizes_of(m[1].c);
    uint32_t size = a.total_internal_size > b.total_internal_size ? a.total_internal_size
                                                                  : b.total_internal_size;
    rknn_tensor_mem *all = rknn_create_mem(m[0].c, size + (1u << 20));
    rknn_tensor_mem *weights = rknn_create_mem(m[0].c, a.total_weight_size);
    pthread_t threads[2];
    NEED(all);
    NEED(weights);
    EXPECT_OK(rknn_set_weight_mem(m[0].c, weights));
    for (int i = 0; i < 2; i++) {
        conformance_set_inputs(m[i].c, m[i].name);
        EXPECT_CMP(rknn_run(m[i].c, NULL), <, 0); // there is none yet
        m[i].internal = rknn_create_mem_from_fd(m[i].c, all->fd, all->virt_addr, all->size, 0);
        NEED(m[i].internal);
        EXPECT_OK(rknn_set_internal_mem(m[i].c, m[i].internal));
    }
    for (int i = 0; i < 6; i++) {
        memset(all->virt_addr, i % 2 ? 0xff : 0x41, all->size);
        EXPECT_OK(rknn_run(m[i % 2].c, NULL));
        conformance_expect_outputs(m[i % 2].c, m[i % 2].name);
    }
    EXPECT_OK(rknn_destroy_mem(m[0].c, all)); // before its users
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_often, &m[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        EXPECT_OK(rknn_destroy_mem(m[i].c, m[i].internal));
    }
    EXPECT_OK(rknn_destroy_mem(m[0].c, weights));
    close_model(&m[0]);
    close_model(&m[1]);
}

static void sram_is_counted(void)
{
    struct model m = open_model("residual", 0);
    rknn_mem_size before = sizes_of(m.c), now;
    if (before.total_sram_size > 0) {
        struct model other = open_model("residual", RKNN_FLAG_ENABLE_SRAM);
        now = sizes_of(m.c);
        EXPECT_CMP(now.total_sram_size, ==, before.total_sram_size);
        EXPECT_CMP(now.free_sram_size, <, before.free_sram_size);
        close_model(&other);
        now = sizes_of(m.c);
        EXPECT_CMP(now.free_sram_size, ==, before.free_sram_size);
    }
    close_model(&m);
}

// ---- models in memory --------------------------------------------------------------------------

static void expect_model(rknn_context c)
{
    conformance_set_inputs(c, "conv");
    EXPECT_OK(rknn_run(c, NULL));
    conformance_expect_outputs(c, "conv");
    EXPECT_OK(rknn_destroy(c));
}

static void models_in_memory(void)
{
    size_t size, offset = 4096;
    uint8_t *file = conformance_file(&size, "conv.rknn");
    rknn_tensor_mem *mem = rknn_create_mem2(0, offset + size, RKNN_MEM_FLAG_ALLOC_NO_CONTEXT);
    rknn_context c, other;
    NEED(mem);
    memcpy((uint8_t *)mem->virt_addr + offset, file, size);
    rknn_init_extend part = {.real_model_offset = (int32_t)offset,
                             .real_model_size = (uint32_t)size,
                             .model_buffer_fd = mem->fd};
    EXPECT_OK(rknn_init(&c, mem->virt_addr, (uint32_t)(offset + size),
                        RKNN_FLAG_MODEL_BUFFER_ZERO_COPY, &part));
    part.ctx = c;
    EXPECT_OK(rknn_init(&other, NULL, 0,
                        RKNN_FLAG_MODEL_BUFFER_ZERO_COPY | RKNN_FLAG_SHARE_WEIGHT_MEM, &part));
    expect_model(other);
    expect_model(c);
    EXPECT_CODE(RKNN_ERR_CTX_INVALID,
                rknn_init(&other, file, (uint32_t)size, RKNN_FLAG_SHARE_WEIGHT_MEM, &part));
    EXPECT_OK(rknn_destroy_mem(0, mem));
    free(file);
}

// ---- what is refused ---------------------------------------------------------------------------

static void expect_refused(const struct model *m, rknn_tensor_mem *mem, rknn_tensor_attr a,
                           int code)
{
    EXPECT_CODE(code, rknn_set_io_mem(m->c, mem, &a));
}

static void wrong_forms(const struct model *m, rknn_tensor_mem *mem)
{
    static const struct {
        bool output;
        int type, format;
    } wrong[] = {{false, RKNN_TENSOR_INT64, -1},    {false, RKNN_TENSOR_FLOAT16, -1},
                 {false, RKNN_TENSOR_TYPE_MAX, -1}, {false, RKNN_TENSOR_UINT8, RKNN_TENSOR_NCHW},
                 {true, RKNN_TENSOR_UINT8, -1},     {true, RKNN_TENSOR_INT64, -1},
                 {true, -1, RKNN_TENSOR_UNDEFINED}, {true, -1, RKNN_TENSOR_FORMAT_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rknn_tensor_attr a = wrong[i].output ? m->outputs[0] : m->inputs[0];
        a.type = wrong[i].type < 0 ? a.type : (rknn_tensor_type)wrong[i].type;
        a.fmt = wrong[i].format < 0 ? a.fmt : (rknn_tensor_format)wrong[i].format;
        expect_refused(m, mem, a,
                       wrong[i].output ? RKNN_ERR_OUTPUT_INVALID : RKNN_ERR_INPUT_INVALID);
    }
}

static void misuse(const struct model *m)
{
    rknn_tensor_mem *mem = rknn_create_mem(m->c, 4 * m->inputs[0].n_elems);
    rknn_tensor_mem *small = rknn_create_mem(m->c, 16);
    rknn_tensor_attr a = input_attr(m);
    NEED(mem);
    NEED(small);
    wrong_forms(m, mem);
    expect_refused(m, small, a, RKNN_ERR_INPUT_INVALID);
    expect_refused(m, small, m->outputs[0], RKNN_ERR_OUTPUT_INVALID);
    a.w_stride = a.dims[2] - 1;
    EXPECT_CMP(rknn_set_io_mem(m->c, mem, &a), <, 0);
    a = input_attr(m);
    a.index = 1;
    expect_refused(m, mem, a, RKNN_ERR_PARAM_INVALID);
    a.index = 0;
    strcpy(a.name, "nobody");
    expect_refused(m, mem, a, RKNN_ERR_PARAM_INVALID);
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_io_mem(m->c, mem, NULL));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_io_mem(m->c, NULL, &m->outputs[0]));
    EXPECT_CODE(RKNN_ERR_CTX_INVALID, rknn_set_io_mem(~m->c, mem, &m->outputs[0]));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_internal_mem(m->c, small));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_set_weight_mem(m->c, small));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_mem_sync(m->c, mem, (rknn_mem_sync_mode)4));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_mem_sync(m->c, NULL, RKNN_MEMORY_SYNC_TO_DEVICE));
    EXPECT(!rknn_create_mem(m->c, 0));
    EXPECT(!rknn_create_mem(~m->c, 64));
    EXPECT(!rknn_create_mem2(m->c, 64, 1u << 20));
    EXPECT(!rknn_create_mem2(m->c, UINT64_MAX, 0));
    EXPECT(!rknn_create_mem_from_phys(m->c, 4096, mem->virt_addr, 64));
    EXPECT(!rknn_create_mem_from_mb_blk(m->c, mem, 0));
    EXPECT(!rknn_create_mem_from_fd(m->c, -1, mem->virt_addr, 64, 0));
    EXPECT(!rknn_create_mem_from_fd(m->c, mem->fd, mem->virt_addr, 64, -1));
    EXPECT(!rknn_create_mem_from_fd(m->c, mem->fd, mem->virt_addr, UINT32_MAX, 0));
    EXPECT_OK(rknn_destroy_mem(m->c, small));
    EXPECT_CODE(RKNN_ERR_PARAM_INVALID, rknn_destroy_mem(m->c, NULL));
    conformance_set_inputs(m->c, m->name); // none of it has changed anything
    EXPECT_OK(rknn_run(m->c, NULL));
    EXPECT_OK(rknn_destroy_mem(m->c, mem));
}

int main(int argc, char **argv)
{
    conformance_start(argc, argv);
    struct model m = open_model("conv", 0);
    misuse(&m);
    conformance_expect_outputs(m.c, m.name);
    by_descriptor(&m);
    memory_of_others(&m, memfd_create("mine", 0));
    memory_of_others(&m, memfd_create("mine", MFD_ALLOW_SEALING));
    memory_of_others(&m, plain_file());
    sealed_picture(&m);
    without_context(&m);
    one_input_for_two(&m);
    close_model(&m);
    shared_internal_memory();
    sram_is_counted();
    models_in_memory();
    return conformance_finish();
}
