// Memory in a worker: maps what the daemon passes as file descriptors, and unmaps it.
//
// A job's inputs are mapped read-only, so that code of the model cannot change what a second run,
// after this worker's death, would read. Sizes and offsets are checked although the daemon is
// trusted: a wrong one is a bug there, and ends the process before anything is accessed out of
// bounds.
#include "worker/worker_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/dmabuf.h"
#include "base/fd.h"
#include "npu/buffer/buffer.h"

// Memory of a client, known by its number; bindings of any context may refer to it.
struct worker_memory {
    struct worker_object object;
    struct npu_buffer buffer; // the fd: of a dma-buf, else -1
};

// A mapping that is longer than its file would raise SIGBUS on access.
static void check_size(int fd, uint64_t size)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || size == 0 || (uint64_t)st.st_size < size)
        worker_die("a memory of %llu bytes without them", (unsigned long long)size);
}

void *worker_map(int fd, uint64_t size, int protection)
{
    check_size(fd, size);
    void *memory = mmap(NULL, (size_t)size, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        worker_die("cannot map a memory of %llu bytes: %s", (unsigned long long)size,
                   strerror(errno));
    return memory;
}

// ---- of jobs -----------------------------------------------------------------------------------

struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t number)
{
    struct worker_buffer *b = worker_find(w->buffers, number);
    if (!b)
        worker_die("there is no buffer %u", number);
    return b;
}

// Takes the frame's two descriptors, input first; the mappings stay when they are closed.
void worker_buffer_add(struct worker *w, const rknnd_WorkerBuffer *m)
{
    cleanup(fd_close_p) int input_fd = frame_reader_take_fd(&w->reader);
    cleanup(fd_close_p) int output_fd = frame_reader_take_fd(&w->reader);
    struct worker_buffer *b = malloc(sizeof *b);
    if (!b)
        worker_die("no memory for a buffer");
    *b = (struct worker_buffer){.input = worker_map(input_fd, m->input_size, PROT_READ),
                                .output =
                                    worker_map(output_fd, m->output_size, PROT_READ | PROT_WRITE),
                                .input_size = m->input_size,
                                .output_size = m->output_size};
    worker_add(w->buffers, &b->object, m->buffer);
}

void worker_buffer_drop(struct worker *w, uint32_t number)
{
    struct worker_buffer *b = worker_buffer_find(w, number);
    list_remove(&b->object.link);
    munmap((void *)b->input, (size_t)b->input_size);
    munmap(b->output, (size_t)b->output_size);
    free(b);
}

// ---- of clients --------------------------------------------------------------------------------

static struct worker_memory *worker_memory_find(struct worker *w, uint32_t number)
{
    struct worker_memory *m = worker_find(w->memories, number);
    if (!m)
        worker_die("there is no memory %u", number);
    return m;
}

// The descriptor of a dma-buf is kept, because dma_sync and backends need it; of other memory only
// the mapping is.
void worker_memory_add(struct worker *w, const rknnd_WorkerMemory *m)
{
    cleanup(fd_close_p) int fd = frame_reader_take_fd(&w->reader);
    struct worker_memory *memory = malloc(sizeof *memory);
    struct error e;
    if (!memory)
        worker_die("no memory for a memory");
    check_size(fd, m->size);
    *memory = (struct worker_memory){
        .buffer = {.fd = -1, .map = fd_map(fd, m->size, &e), .size = m->size}};
    if (!memory->buffer.map)
        worker_die("%s", e.text);
    if (dmabuf_is(fd))
        memory->buffer.fd = steal_fd(&fd);
    worker_add(w->memories, &memory->object, m->memory);
}

void worker_memory_drop(struct worker *w, uint32_t number)
{
    struct worker_memory *m = worker_memory_find(w, number);
    list_remove(&m->object.link);
    if (w->loaded.backend->buffer_gone && m->buffer.fd >= 0)
        w->loaded.backend->buffer_gone(w->loaded.device, &m->buffer);
    npu_buffer_done(&m->buffer);
    free(m);
}

// A client's memory, if it contains the range. Written so that the sum cannot overflow.
static const struct npu_buffer *find_part(struct worker *w, uint32_t number, uint64_t offset,
                                          uint64_t size)
{
    const struct npu_buffer *b = &worker_memory_find(w, number)->buffer;
    if (offset > b->size || size > b->size - offset)
        worker_die("a tensor lies outside memory %u", number);
    return b;
}

static void bind_input(struct worker_bound *b, uint8_t *data, const rknnd_WorkerBind *m)
{
    b->input = (struct npu_input){.data = data,
                                  .size = (size_t)m->size,
                                  .type = (enum tensor_type)m->type,
                                  .layout = (enum tensor_layout)m->layout,
                                  .w_stride = m->w_stride,
                                  .h_stride = m->h_stride,
                                  .pass_through = m->pass_through,
                                  .stored = m->stored};
}

static void bind_output(struct worker_bound *b, uint8_t *data, const rknnd_WorkerBind *m)
{
    b->form = (struct convert_form){.type = (enum tensor_type)m->type,
                                    .layout = (enum tensor_layout)m->layout,
                                    .w_stride = m->w_stride,
                                    .h_stride = m->h_stride,
                                    .c2 = m->c2};
    b->output = (struct npu_output){.data = data, .size = (size_t)m->size, .form = &b->form};
}

// Binds one tensor of a context, or unbinds it (memory 0), from its next run on.
void worker_bind(struct worker_context *c, const rknnd_WorkerBind *m)
{
    const struct loaded_backend *loaded = &c->worker->loaded;
    const struct npu_model_info *info = loaded->backend->model_info(loaded->model);
    if (m->index >= (m->output ? info->n_outputs : info->n_inputs))
        worker_die("a tensor that is not there is bound");
    struct worker_bound *b = &c->bound[m->output ? info->n_inputs + m->index : m->index];
    b->there = m->memory != 0;
    if (!b->there)
        return;
    const struct npu_buffer *memory = find_part(c->worker, m->memory, m->offset, m->size);
    (m->output ? bind_output : bind_input)(b, memory->map + m->offset, m);
    b->room = memory->size - m->offset;
    b->input.dmabuf = b->output.dmabuf = memory->fd >= 0 ? memory : NULL;
}

// The backend may refuse the memory. This message has no answer, so the refusal is kept and fails
// the next run.
void worker_set_internal(struct worker_context *c, const rknnd_WorkerInternal *m)
{
    const struct npu_backend *backend = c->worker->loaded.backend;
    const struct npu_buffer *b = NULL;
    if (m->memory)
        b = find_part(c->worker, m->memory, m->offset, m->size);
    c->unusable.code = 0;
    if (backend->context_set_internal)
        backend->context_set_internal(c->npu, b ? b->map + m->offset : NULL, (size_t)m->size,
                                      b && b->fd >= 0 ? b : NULL, &c->unusable);
}
