// The board's end of a USB link, on FunctionFS with the kernel's asynchronous I/O: nothing blocks,
// and several transfers are under way in both directions. Runs on the server's loop.
//
//     ep0  descriptors out, events in (ENABLE, DISABLE, SETUP ...)
//     ep1  bulk in, to the PC         ep2  bulk out, from the PC
//     completions ──► eventfd ──► on_done()
//
// The PC configuring the interface (ENABLE) begins a conversation; `age` counts these, so that
// transfers submitted before are told from current ones. Each channel becomes a transport that is
// handed to the server by take().
#include "server/usb/usb_board.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <linux/usb/functionfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/net/transport_mux.h"
#include "server/usb/usb_descriptors.h"
#include "server/usb/usb_link.h"

struct transfer {
    struct usb_link_transfer base;
    struct iocb io;
    struct usb_board *board;
    bool out;     // from the PC
    unsigned age; // of the board's, when it was submitted
};

struct usb_board {
    struct usb_link link;
    void (*take)(void *owner, struct transport *transport);
    void *owner;
    int control, in, out, event; // fds
    io_context_t io;
    uv_poll_t control_poll, event_poll;
    unsigned age; // counts how often the PC configured the interface
    bool link_closed;
    unsigned n_open;                                                   // handles
    struct transfer outs[USB_LINK_TRANSFERS], ins[USB_LINK_TRANSFERS]; // from the PC, to the PC
    uint8_t out_blocks[USB_LINK_BLOCKS][MUX_BLOCK], in_blocks[USB_LINK_BLOCKS][MUX_BLOCK];
};

// ---- transfers ----------------------------------------------------------------------------------

// Submits a read or a write of a block. A refused one is lost, so the conversation starts over;
// most often the cable has been pulled, and DISABLE comes next.
static bool usb_board_submit(struct usb_link *c, struct usb_link_transfer *base, size_t size)
{
    struct transfer *t = container_of(base, struct transfer, base);
    struct usb_board *b = t->board;
    struct iocb *io = &t->io;
    struct iovec parts[2] = {{base->block, size}, {(void *)base->lent.data, base->lent.size}};
    if (t->out)
        io_prep_pread(io, b->out, base->block, size, 0);
    else
        io_prep_pwritev(io, b->in, parts, base->lent.size > 0 ? 2 : 1, 0);
    io_set_eventfd(io, b->event);
    t->age = b->age;
    int r = io_submit(b->io, 1, &io);
    if (r == 1)
        return true;
    log_warn("usb: a transfer was refused: %s", strerror(-r));
    mux_refuse(&c->mux);
    return false;
}

static void usb_board_plug(struct usb_board *b)
{
    log_info("usb: a PC is connected");
    b->age++;
    mux_start(&b->link.mux, 0);
    usb_link_start(&b->link);
}

static void usb_board_unplug(struct usb_board *b, const char *why)
{
    if (b->link.up)
        log_info("usb: the PC is gone (%s)", why);
    usb_link_stop(&b->link);
}

static void take_block(struct usb_link *c, struct bytes block)
{
    struct error e;
    if (mux_receive(&c->mux, block, &e) < 0) {
        log_warn("usb: %s; it has to start over", e.text);
        mux_refuse(&c->mux);
    }
}

// A transfer has ended. If it was submitted before the interface was last configured, its result
// means nothing, but its block and slot are reused.
static void usb_board_finish(struct transfer *t, long result)
{
    struct usb_board *b = t->board;
    bool counts = t->age == b->age && b->link.up;
    if (counts && result < 0)
        usb_board_unplug(b, strerror((int)-result));
    if (t->out)
        usb_link_received(&b->link, &t->base, counts && result > 0 ? (size_t)result : 0);
    else
        usb_link_sent(&b->link, &t->base);
}

// The eventfd says that transfers have ended; io_getevents() with a minimum of 0 does not block.
static void on_done(uv_poll_t *poll, int status, int events)
{
    struct usb_board *b = container_of(poll, struct usb_board, event_poll);
    struct io_event done[2 * USB_LINK_TRANSFERS];
    uint64_t count;
    (void)status;
    (void)events;
    if (read(b->event, &count, sizeof count) < 0)
        return;
    int n = io_getevents(b->io, 0, 2 * USB_LINK_TRANSFERS, done, NULL);
    for (int i = 0; i < n; i++)
        usb_board_finish(container_of(done[i].obj, struct transfer, io), (long)done[i].res);
}

// ---- control ------------------------------------------------------------------------------------

// rknnd has no control requests of its own, so any is refused. FunctionFS stalls ep0 when a request
// is answered in the wrong direction (linux/usb/functionfs.h).
static void usb_board_refuse(struct usb_board *b, const struct usb_ctrlrequest *setup)
{
    ssize_t n =
        setup->bRequestType & USB_DIR_IN ? read(b->control, NULL, 0) : write(b->control, NULL, 0);
    log_debug("usb: request %u refused: %s", setup->bRequest, n < 0 ? strerror(errno) : "");
}

static void take_event(struct usb_board *b, const struct usb_functionfs_event *event)
{
    switch (event->type) {
    case FUNCTIONFS_ENABLE:
        usb_board_unplug(b, "configured again");
        usb_board_plug(b);
        break;
    case FUNCTIONFS_DISABLE:
        usb_board_unplug(b, "unplugged");
        break;
    case FUNCTIONFS_UNBIND:
        usb_board_unplug(b, "the gadget is off");
        break;
    case FUNCTIONFS_SETUP:
        usb_board_refuse(b, &event->u.setup);
        break;
    default:
        break; // bound, suspended, resumed: nothing to do
    }
}

// Events on ep0. Read only when poll says so: a blocked reader keeps the kernel from unbinding the
// gadget.
static void on_control(uv_poll_t *poll, int status, int events)
{
    struct usb_board *b = container_of(poll, struct usb_board, control_poll);
    struct usb_functionfs_event happened[4];
    (void)events;
    ssize_t n = status < 0 ? status : read(b->control, happened, sizeof happened);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    // This does not pass: the function was taken away, and its files cannot be reused.
    if (n <= 0) {
        log_error("usb: the function is gone (%s); restart rknnd when it is back",
                  n < 0 ? strerror(errno) : "end of file");
        usb_board_unplug(b, "error");
        uv_poll_stop(poll);
        return;
    }
    for (size_t i = 0; i < (size_t)n / sizeof *happened; i++)
        take_event(b, &happened[i]);
}

// ---- life ---------------------------------------------------------------------------------------

// Frees everything, also of a board that was opened in part.
static void usb_board_release(struct usb_board *b)
{
    if (b->io)
        io_destroy(b->io); // cancels what is under way
    fd_close(b->in);
    fd_close(b->out);
    fd_close(b->event);
    fd_close(b->control);
    free(b);
}

static void check_closed(struct usb_board *b)
{
    if (b->link_closed && b->n_open == 0)
        usb_board_release(b);
}

static void on_usb_link_closed(struct usb_link *c)
{
    struct usb_board *b = container_of(c, struct usb_board, link);
    b->link_closed = true;
    check_closed(b);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct usb_board *b = handle->data;
    b->n_open--;
    check_closed(b);
}

// The struct is freed when both poll handles and the link have closed.
void usb_board_close(struct usb_board *b)
{
    if (!b)
        return;
    usb_board_unplug(b, "rknnd stops");
    uv_close((uv_handle_t *)&b->control_poll, on_handle_closed);
    uv_close((uv_handle_t *)&b->event_poll, on_handle_closed);
    usb_link_close(&b->link);
}

// The PC opened a channel (mux_ops.open): the server gets it as a transport.
static bool on_open(struct mux *m, uint32_t number)
{
    struct usb_board *b = container_of(m, struct usb_board, link.mux);
    struct transport *transport = transport_mux_accept(m, number, b->event_poll.loop);
    if (transport)
        b->take(b->owner, transport);
    return transport;
}

static const struct mux_ops mux_ops = {
    .open = on_open,
    .pull = transport_mux_pull,
    .push = transport_mux_push,
    .closed = transport_mux_closed,
    .wake = usb_link_wake,
};

static const struct usb_link_ops usb_link_ops = {
    .submit = usb_board_submit, .take = take_block, .closed = on_usb_link_closed};

static int open_file(const char *folder, const char *name, int *ret, struct error *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *ret = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (*ret >= 0)
        return 0;
    return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno,
                           "%s (rknnd-gadget makes and mounts the USB function)", path);
}

// ep1 and ep2 exist only after the descriptors were written to ep0.
static int open_files(struct usb_board *b, const char *folder, struct error *e)
{
    int r = open_file(folder, "ep0", &b->control, e);
    if (r == 0)
        r = usb_descriptors_give(b->control, e);
    if (r == 0)
        r = open_file(folder, "ep1", &b->in, e);
    if (r == 0)
        r = open_file(folder, "ep2", &b->out, e);
    if (r < 0)
        return r;
    b->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int failed = io_setup(2 * USB_LINK_TRANSFERS, &b->io);
    return b->event >= 0 && failed == 0
               ? 0
               : error_set_errno(e, STATUS_FAIL, b->event < 0 ? errno : -failed,
                                 "asynchronous I/O for USB");
}

static void usb_board_start(struct usb_board *b, uv_loop_t *loop)
{
    uv_poll_init(loop, &b->control_poll, b->control);
    uv_poll_init(loop, &b->event_poll, b->event);
    b->control_poll.data = b->event_poll.data = b;
    b->n_open = 2;
    usb_link_init(&b->link, loop, false, &mux_ops, &usb_link_ops);
    b->link.lends = true; // FunctionFS copies what it is given at once
    for (size_t i = 0; i < USB_LINK_TRANSFERS; i++) {
        b->outs[i] = (struct transfer){.board = b, .out = true};
        b->ins[i] = (struct transfer){.board = b};
        b->link.receiving[i] = &b->outs[i].base;
        b->link.sending[i] = &b->ins[i].base;
    }
    usb_link_use(&b->link, b->out_blocks, b->in_blocks);
    uv_poll_start(&b->control_poll, UV_READABLE, on_control);
    uv_poll_start(&b->event_poll, UV_READABLE, on_done);
}

int usb_board_open(struct usb_board **ret, uv_loop_t *loop, const char *folder,
                   void (*take)(void *owner, struct transport *transport), void *owner,
                   struct error *e)
{
    struct usb_board *b = calloc(1, sizeof *b);
    if (!b)
        return error_no_memory(e, "the USB interface", sizeof *b);
    b->take = take;
    b->owner = owner;
    b->control = b->in = b->out = b->event = -1;
    int r = open_files(b, folder, e);
    if (r < 0) {
        usb_board_release(b);
        return r;
    }
    usb_board_start(b, loop);
    *ret = b;
    return 0;
}
