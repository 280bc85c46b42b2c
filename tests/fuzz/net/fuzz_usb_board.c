// The board's end of a cable as a kernel drives it. The kernel's asynchronous I/O is this file's
// (LINKER:--wrap); ep0 is a FIFO into which events are written.
//
// Input: actions, each behind a byte for its kind and two for the length of what belongs to it.
//     0  bytes on ep0: events whole, cut short, or of unknown types
//     1  the oldest read of a block ends with these bytes
//     2  … fails, with this error     3  … ends with nothing
//     4  the oldest write ends        5  … fails, with this error
//     6  submitting fails, for as many times
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "server/net/transport_mux.h"
#include "server/usb/usb_board.h"
#include "server/usb/usb_descriptors.h"
#include "server/usb/usb_link.h"

#define MAX_UNDERWAY (2 * USB_LINK_TRANSFERS)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// ---- the kernel ---------------------------------------------------------------------------------

static struct {
    struct iocb *underway[MAX_UNDERWAY]; // in order of submission
    unsigned n_underway;
    struct io_event done[MAX_UNDERWAY];
    unsigned n_done;
    unsigned refuse;
    int event; // the board's eventfd
} kernel;

static char folder[] = "/tmp/fuzz-usb-XXXXXX";

#define WRAPPED(type, name, ...)                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(int, io_setup, int n, io_context_t *ret)
{
    (void)n;
    *ret = (io_context_t)&kernel;
    return 0;
}

WRAPPED(int, io_destroy, io_context_t c)
{
    (void)c;
    return 0;
}

WRAPPED(int, usb_descriptors_give, int fd, struct error *e)
{
    (void)fd;
    (void)e;
    return 0;
}

WRAPPED(int, io_submit, io_context_t c, long n, struct iocb **io)
{
    (void)c;
    (void)n;
    if (kernel.refuse > 0) {
        kernel.refuse--;
        return -ESHUTDOWN;
    }
    if (kernel.n_underway + kernel.n_done >= MAX_UNDERWAY)
        abort(); // more than io_setup() was asked for
    kernel.event = (int)(*io)->u.c.resfd;
    kernel.underway[kernel.n_underway++] = *io;
    return 1;
}

WRAPPED(int, io_getevents, io_context_t c, long min, long max, struct io_event *ret,
        struct timespec *timeout)
{
    (void)c;
    (void)timeout;
    unsigned n = kernel.n_done < (unsigned long)max ? kernel.n_done : (unsigned)max;
    if (min > 0)
        abort(); // would block the loop
    memcpy(ret, kernel.done, n * sizeof *ret);
    memmove(kernel.done, kernel.done + n, (kernel.n_done - n) * sizeof *ret);
    kernel.n_done -= n;
    return (int)n;
}

// The oldest transfer of this kind ends. A read takes bytes as far as there is room.
static void end_transfer(bool read, struct bytes data, long result)
{
    for (unsigned i = 0; i < kernel.n_underway; i++) {
        struct iocb *io = kernel.underway[i];
        if ((io->aio_lio_opcode == IO_CMD_PREAD) != read)
            continue;
        if (read && data.size > 0) {
            size_t room = io->u.c.nbytes, n = data.size < room ? data.size : room;
            memcpy(io->u.c.buf, data.data, n);
            result = (long)n;
        }
        kernel.n_underway--;
        memmove(&kernel.underway[i], &kernel.underway[i + 1],
                (kernel.n_underway - i) * sizeof *kernel.underway);
        kernel.done[kernel.n_done++] = (struct io_event){.obj = io, .res = (unsigned long)result};
        eventfd_write(kernel.event, 1);
        return;
    }
}

// ---- the server ---------------------------------------------------------------------------------

// A program that a channel leads to.
struct peer {
    struct list link;
    struct transport *transport;
};

static struct list peers;
static unsigned n_peers;

static void peer_close(struct peer *p)
{
    list_remove(&p->link);
    n_peers--;
    transport_close(p->transport);
}

static void on_closed(struct transport *w)
{
    free(w->owner);
}

// An echo. What it cannot pass on is lost, as with a program that does not care.
static void on_ready(struct transport *w, int status, int events)
{
    static uint8_t bytes[1000];
    int n_fds = 0;
    struct peer *p = w->owner;
    (void)events;
    ssize_t n = status < 0 ? 0 : w->ops->receive(w, bytes, sizeof bytes, NULL, &n_fds, 0);
    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        peer_close(p);
        return;
    }
    if (n > 0)
        w->ops->send(w, &(struct iovec){bytes, (size_t)n}, 1, NULL, 0);
}

static void take(void *owner, struct transport *transport)
{
    struct peer *p = calloc(1, sizeof *p);
    (void)owner;
    if (!p || ++n_peers > MUX_CHANNELS)
        abort();
    p->transport = transport;
    transport->owner = p;
    transport->ready = on_ready;
    transport->closed = on_closed;
    list_append(&peers, &p->link);
    transport->ops->watch(transport, UV_READABLE);
}

// ---- a run --------------------------------------------------------------------------------------

static int events_fd = -1; // ep0, from the kernel's side

static void make_file(const char *name, bool fifo)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (fifo ? mkfifo(path, 0600) < 0 : symlink("/dev/null", path) < 0)
        abort();
    if (fifo)
        events_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static void remove_folder(void)
{
    static const char *const names[] = {"ep0", "ep1", "ep2"};
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    if (events_fd >= 0)
        return;
    if (!mkdtemp(folder))
        abort();
    make_file("ep0", true);
    make_file("ep1", false);
    make_file("ep2", false);
    atexit(remove_folder);
    log_set_level(LOG_SILENT);
}

static void act(uint8_t kind, struct bytes data)
{
    static const int errors[] = {ESHUTDOWN, ECONNRESET, EOVERFLOW, EIO};
    long failed = -errors[data.size > 0 ? data.data[0] % 4 : 0];
    switch (kind % 7) {
    case 0:
        if (write(events_fd, data.data, data.size) < 0 && errno != EAGAIN)
            abort();
        break;
    case 1:
    case 3:
        end_transfer(true, kind % 7 == 1 ? data : (struct bytes){0}, 0);
        break;
    case 2:
        end_transfer(true, (struct bytes){0}, failed);
        break;
    case 4:
        end_transfer(false, (struct bytes){0}, 1);
        break;
    case 5:
        end_transfer(false, (struct bytes){0}, failed);
        break;
    default:
        kernel.refuse = (unsigned)data.size;
    }
}

static bool step(struct bytes *rest)
{
    struct bytes data;
    if (rest->size < 3)
        return false;
    uint8_t kind = rest->data[0];
    size_t size = read_le16(rest->data + 1);
    if (!bytes_slice(*rest, 3, size, &data))
        return false;
    bytes_slice(*rest, 3 + size, rest->size - 3 - size, rest);
    act(kind, data);
    return true;
}

static void end(struct usb_board *board, uv_loop_t *loop)
{
    struct peer *p;
    uint8_t left[4096];
    usb_board_close(board);
    while ((p = list_first(&peers, struct peer, link)))
        peer_close(p);
    uv_run(loop, UV_RUN_DEFAULT);
    if (uv_loop_close(loop) != 0)
        abort();
    while (read(events_fd, left, sizeof left) > 0)
        continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct usb_board *board;
    struct error e;
    struct bytes rest = {data, size};
    uv_loop_t loop;
    make_folder();
    memset(&kernel, 0, sizeof kernel);
    list_init(&peers);
    uv_loop_init(&loop);
    if (usb_board_open(&board, &loop, folder, take, NULL, &e) < 0)
        abort();
    while (step(&rest))
        for (unsigned i = 0; i < 2; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
    end(board, &loop);
    return 0;
}
