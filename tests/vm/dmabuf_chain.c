// Three programs and a server around two dma-bufs, as on a board: a camera fills one, this program
// hands it to the NPU, a display shows the other, where the results are. Only descriptors pass.
//
// dmabuf_chain FOLDER KIND [on]: the models of the conformance tests; the camera's buffers are
// of KIND, as in rknnd --buffers. Prints the pids of camera and display and the inodes of the two
// dma-bufs when all have them mapped, and goes on at the end of a line from standard input.
// `on`: runs until standard input ends.
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dmabuf.h"
#include "base/fd.h"
#include "npu/buffer/buffer.h"
#include "tests/conformance/conformance.h"

#define N_FRAMES 5

static void fill(uint8_t *to, size_t size, uint32_t frame)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(i * 7 + i / 64 + frame * 31);
}

static void write_all(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        NEED(n > 0);
        done += (size_t)n;
    }
}

static void read_all(int fd, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (uint8_t *)data + done, size - done);
        NEED(n > 0);
        done += (size_t)n;
    }
}

static void pass(int socket, int fd)
{
    struct iovec one = {"x", 1};
    NEED(fd_send(socket, &one, 1, &fd, 1) == 1);
}

static int take(int socket)
{
    int fd = -1, n = 0;
    char byte;
    NEED(fd_receive(socket, &byte, 1, &fd, &n, 1) == 1 && n == 1);
    return fd;
}

// ---- the other programs ------------------------------------------------------------------------

// Each ends with its socket.
struct program {
    pid_t pid;
    int socket;
};

static struct program start(void (*run)(int socket, const char *kind), const char *kind,
                            int inherited)
{
    int ends[2];
    NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    struct program p = {.pid = fork(), .socket = ends[0]};
    NEED(p.pid >= 0);
    if (p.pid == 0) {
        close(ends[0]);
        fd_close(inherited);
        run(ends[1], kind);
        _exit(0);
    }
    close(ends[1]);
    return p;
}

// The server's memory may be a memfd.
static void begin(int fd, unsigned access)
{
    NEED(!dmabuf_is(fd) || dmabuf_begin(fd, access, NULL) == 0);
}

static void end(int fd, unsigned access)
{
    NEED(!dmabuf_is(fd) || dmabuf_end(fd, access, NULL) == 0);
}

// Makes a buffer, and writes the frame that it is asked for.
static void camera(int socket, const char *kind)
{
    struct npu_buffers from = {0};
    struct npu_buffer b;
    struct error e;
    uint32_t size, frame;
    read_all(socket, &size, sizeof size);
    if (npu_buffers_open(&from, kind, true, &e) < 0 || npu_buffer_new(&from, size, &b, &e) < 0) {
        fprintf(stderr, "camera: %s\n", e.text);
        _exit(1);
    }
    pass(socket, b.fd);
    while (read(socket, &frame, sizeof frame) == sizeof frame) {
        begin(b.fd, DMABUF_WRITE);
        fill(b.map, size, frame);
        end(b.fd, DMABUF_WRITE);
        write_all(socket, &frame, sizeof frame);
    }
}

// Says what it sees, and then writes all over it.
static void display(int socket, const char *kind)
{
    uint32_t size, frame;
    (void)kind;
    read_all(socket, &size, sizeof size);
    int fd = take(socket);
    uint8_t *map = fd_map(fd, size, NULL);
    NEED(map);
    while (read(socket, &frame, sizeof frame) == sizeof frame) {
        begin(fd, DMABUF_READ | DMABUF_WRITE);
        write_all(socket, map, size);
        memset(map, (int)frame + 100, size);
        end(fd, DMABUF_READ | DMABUF_WRITE);
        write_all(socket, &frame, sizeof frame);
    }
}

static void ask(const struct program *p, uint32_t frame, void *ret, size_t size)
{
    uint32_t echo;
    write_all(p->socket, &frame, sizeof frame);
    read_all(p->socket, ret, size);
    read_all(p->socket, &echo, sizeof echo);
    NEED(echo == frame);
}

// ---- this one ----------------------------------------------------------------------------------

struct chain {
    rknn_context c;
    rknn_tensor_attr in, out;
    struct program camera, display;
    int fd; // the camera's
    uint8_t *picture;
    rknn_tensor_mem *input, *output;
    uint8_t *expected[N_FRAMES], *dark; // outputs; of a black picture
};

// What comes out, by copies, of a picture that lies as the camera's do.
static uint8_t *reference(const struct chain *x, const uint8_t *picture)
{
    const uint32_t *d = x->in.dims;
    size_t pitch = (size_t)x->in.w_stride * d[3], row = (size_t)d[2] * d[3];
    rknn_input in = {.buf = malloc(x->in.n_elems),
                     .size = x->in.n_elems,
                     .type = RKNN_TENSOR_UINT8,
                     .fmt = RKNN_TENSOR_NHWC};
    rknn_output out = {0};
    uint8_t *copy = malloc(x->out.size);
    for (uint32_t y = 0; y < d[1]; y++)
        memcpy((uint8_t *)in.buf + y * row, picture + y * pitch, row);
    NEED_OK(rknn_inputs_set(x->c, 1, &in));
    free(in.buf);
    NEED_OK(rknn_run(x->c, NULL));
    NEED_OK(rknn_outputs_get(x->c, 1, &out, NULL));
    NEED(out.size == x->out.size);
    memcpy(copy, out.buf, out.size);
    NEED_OK(rknn_outputs_release(x->c, 1, &out));
    return copy;
}

static void open_model(struct chain *x)
{
    x->c = conformance_open("conv.rknn", 0);
    rknn_tensor_attr *in = conformance_attrs(x->c, RKNN_QUERY_INPUT_ATTR);
    rknn_tensor_attr *out = conformance_attrs(x->c, RKNN_QUERY_OUTPUT_ATTR);
    x->in = in[0];
    x->out = out[0];
    free(in);
    free(out);
    x->in.type = RKNN_TENSOR_UINT8;
    NEED(x->in.w_stride >= x->in.dims[2] && x->in.size_with_stride >= x->in.n_elems);
    uint8_t *picture = calloc(1, x->in.size_with_stride);
    x->dark = reference(x, picture);
    for (uint32_t k = 0; k < N_FRAMES; k++) {
        fill(picture, x->in.size_with_stride, k);
        x->expected[k] = reference(x, picture);
    }
    NEED(memcmp(x->expected[0], x->expected[1], x->out.size) != 0);
    free(picture);
}

static void join(struct chain *x)
{
    write_all(x->camera.socket, &x->in.size_with_stride, sizeof x->in.size_with_stride);
    x->fd = take(x->camera.socket);
    x->picture = fd_map(x->fd, x->in.size_with_stride, NULL);
    x->input = rknn_create_mem_from_fd(x->c, x->fd, x->picture, x->in.size_with_stride, 0);
    x->output = rknn_create_mem(x->c, x->out.size);
    NEED(x->picture && x->input && x->output);
    NEED_OK(rknn_set_io_mem(x->c, x->input, &x->in));
    NEED_OK(rknn_set_io_mem(x->c, x->output, &x->out));
    write_all(x->display.socket, &x->out.size, sizeof x->out.size);
    pass(x->display.socket, x->output->fd);
}

static bool is_all(const uint8_t *data, size_t size, uint8_t value)
{
    size_t n = 0;
    while (n < size && data[n] == value)
        n++;
    return n == size;
}

// This program touches neither buffer before the display has seen the result.
static void one_frame(struct chain *x, uint32_t frame)
{
    uint8_t *seen = malloc(x->out.size), *picture = malloc(x->in.size_with_stride);
    ask(&x->camera, frame, NULL, 0);
    EXPECT_OK(rknn_run(x->c, NULL));
    ask(&x->display, frame, seen, x->out.size);
    EXPECT(memcmp(seen, x->expected[frame], x->out.size) == 0);
    EXPECT(is_all(x->output->virt_addr, x->out.size, (uint8_t)(frame + 100)));
    fill(picture, x->in.size_with_stride, frame);
    EXPECT(memcmp(x->picture, picture, x->in.size_with_stride) == 0);
    free(seen);
    free(picture);
}

// What the program writes itself goes to the NPU as well, with rknn_mem_sync() and without.
static void own_picture(struct chain *x, bool sync)
{
    fill(x->picture, x->in.size_with_stride, 3);
    if (sync)
        EXPECT_OK(rknn_mem_sync(x->c, x->input, RKNN_MEMORY_SYNC_TO_DEVICE));
    EXPECT_OK(rknn_run(x->c, NULL));
    if (sync)
        EXPECT_OK(rknn_mem_sync(x->c, x->output, RKNN_MEMORY_SYNC_FROM_DEVICE));
    EXPECT_OK(rknn_mem_sync(x->c, x->input, RKNN_MEMORY_SYNC_BIDIRECTIONAL));
    EXPECT(memcmp(x->output->virt_addr, x->expected[3], x->out.size) == 0);
}

// Both kinds of files count their inodes from 1.
static void show_file(int fd)
{
    struct stat st;
    NEED(fstat(fd, &st) == 0);
    printf(" %s:%lu", dmabuf_is(fd) ? "dmabuf" : "memfd", (unsigned long)st.st_ino);
}

static void show(const struct chain *x)
{
    char line[16];
    printf("%d %d", (int)x->camera.pid, (int)x->display.pid);
    show_file(x->fd);
    show_file(x->output->fd);
    printf("\n");
    fflush(stdout);
    NEED(fgets(line, sizeof line, stdin));
}

// ---- what is refused ---------------------------------------------------------------------------

static void refused(const struct chain *x)
{
    uint32_t size = x->in.size_with_stride;
    struct stat st;
    NEED(fstat(x->fd, &st) == 0);
    EXPECT(!rknn_create_mem_from_fd(x->c, x->fd, x->picture, (uint32_t)st.st_size + 1, 0));
    EXPECT(!rknn_create_mem_from_fd(x->c, x->fd, x->picture, size, (int32_t)st.st_size - 16));
    EXPECT(!rknn_create_mem_from_fd(x->c, x->camera.socket, x->picture, size, 0));
    rknn_tensor_mem *small = rknn_create_mem_from_fd(x->c, x->fd, x->picture, size - 1, 0);
    NEED(small);
    EXPECT_CODE(RKNN_ERR_INPUT_INVALID, rknn_set_io_mem(x->c, small, (rknn_tensor_attr *)&x->in));
    EXPECT_OK(rknn_destroy_mem(x->c, small));
}

// A camera whose driver gives its buffers for reading alone.
static void read_only(struct chain *x)
{
    struct dma_heap_allocation_data a = {.len = x->in.size_with_stride + x->out.size,
                                         .fd_flags = O_RDONLY | O_CLOEXEC};
    int heap = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);
    NEED(heap >= 0 && ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &a) == 0);
    void *map = fd_map((int)a.fd, a.len, NULL);
    rknn_tensor_mem *in = rknn_create_mem_from_fd(x->c, (int)a.fd, map, x->in.size_with_stride, 0);
    rknn_tensor_mem *out = rknn_create_mem_from_fd(x->c, (int)a.fd, map, x->out.size, 0);
    NEED(map && in && out);
    EXPECT_OK(rknn_set_io_mem(x->c, in, &x->in));
    EXPECT_OK(rknn_run(x->c, NULL));
    EXPECT(memcmp(x->output->virt_addr, x->dark, x->out.size) == 0);
    EXPECT_CODE(RKNN_ERR_OUTPUT_INVALID, rknn_set_io_mem(x->c, out, &x->out));
    EXPECT_OK(rknn_destroy_mem(x->c, in));
    EXPECT_OK(rknn_destroy_mem(x->c, out));
    munmap(map, a.len);
    close((int)a.fd);
    close(heap);
}

static void close_chain(struct chain *x)
{
    close(x->camera.socket);
    close(x->display.socket);
    EXPECT_OK(rknn_destroy_mem(x->c, x->input));
    EXPECT_OK(rknn_destroy_mem(x->c, x->output));
    EXPECT_OK(rknn_destroy(x->c));
}

static void run_on(struct chain *x)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (uint32_t k = 0; poll(&input, 1, 0) == 0; k++)
        one_frame(x, k % N_FRAMES);
}

int main(int argc, char **argv)
{
    NEED(argc >= 3);
    conformance_start(argc, argv);
    struct chain x = {.camera = start(camera, argv[2], -1)};
    x.display = start(display, argv[2], x.camera.socket);
    open_model(&x);
    join(&x);
    for (uint32_t k = 0; k < N_FRAMES; k++)
        one_frame(&x, k);
    show(&x);
    if (argc > 3)
        run_on(&x);
    own_picture(&x, false);
    own_picture(&x, true);
    refused(&x);
    read_only(&x);
    close_chain(&x);
    return conformance_finish();
}
