// The table of what a server can listen on; listen_schemes.h says how to add a row.
#include "server/listen/listen_schemes.h"

#include <stdlib.h>

#include "base/net/unix_socket.h"
#include "base/net/usb.h"
#include "server/listen/bind.h"
#include "server/usb/usb_board.h"

// The text is not needed: the parsed path says all.
static int listen_unix(struct listeners *l, const struct uri *uri, const char *text,
                       struct error *e)
{
    (void)text;
    return bind_unix(uri->text, l->socket_group, listener_add_bound, l, e);
}

static int listen_tcp(struct listeners *l, const struct uri *uri, const char *text, struct error *e)
{
    (void)text;
    return bind_tcp(uri, l->insecure ? NULL : BIND_USE_TLS, listener_add_bound, l, e);
}

static int check_unix(const struct listeners *l, const struct uri *uri, struct error *e)
{
    (void)l;
    return unix_check(uri->text, e);
}

static int check_tcp(const struct listeners *l, const struct uri *uri, struct error *e)
{
    return bind_check_tcp(uri, l->insecure ? NULL : BIND_USE_TLS, e);
}

static int check_tls(const struct listeners *l, const struct uri *uri, struct error *e)
{
    (void)l;
    return bind_check_tcp(uri, NULL, e);
}

static int listen_fd(struct listeners *l, const struct uri *uri, const char *text, struct error *e)
{
    return listener_open_fd(l, uri->fd, false, text, e);
}

static int needs_keys(const struct listeners *l, const char *text, struct error *e)
{
    if (l->tls)
        return 0;
    if (!l->take_transport)
        return error_set(e, STATUS_PARAM_INVALID, "a relay cannot listen on %s", text);
    return error_set(e, STATUS_PARAM_INVALID,
                     "%s needs keys: --tls-psk-file FILE (rknnd(8), TLS), or --tls-cert, "
                     "--tls-key and --tls-ca",
                     text);
}

static int listen_tls(struct listeners *l, const struct uri *uri, const char *text, struct error *e)
{
    int r = needs_keys(l, text, e);
    return r < 0 ? r : bind_tcp(uri, NULL, listener_add_tls, l, e);
}

static int listen_tls_fd(struct listeners *l, const struct uri *uri, const char *text,
                         struct error *e)
{
    int r = needs_keys(l, text, e);
    return r < 0 ? r : listener_open_fd(l, uri->fd, true, text, e);
}

// ---- the USB function of this board -------------------------------------------------------------

struct listen_usb {
    struct listener_carrier carrier;
    struct usb_board *board;
};

static void listen_usb_close(struct listener_carrier *c)
{
    struct listen_usb *u = container_of(c, struct listen_usb, carrier);
    usb_board_close(u->board);
    free(u);
}

// A channel of the USB link: a program on the PC at the other end of the cable. It is neither local
// nor a remote machine in the sense of struct origin: no descriptors pass, and the link shows its
// end.
static void listen_usb_take(void *owner, struct transport *transport)
{
    struct listeners *l = owner;
    struct origin origin = {.source = ORIGIN_USB, .text = "usb"};
    l->take_transport(l, transport, &origin);
}

// A carrier of this kind is known by its close().
static bool listen_usb_is_open(const struct listeners *l)
{
    const struct listener_carrier *c;
    list_for_each (c, &l->carriers, link)
        if (c->close == listen_usb_close)
            return true;
    return false;
}

// The board is a carrier: connections come from it, and it is closed after them.
static int listen_usb(struct listeners *l, const struct uri *uri, const char *text, struct error *e)
{
    const char *folder = *uri->text ? uri->text : USB_FOLDER;
    if (!l->take_transport)
        return error_set(e, STATUS_PARAM_INVALID, "a relay cannot listen on %s", text);
    if (listen_usb_is_open(l))
        return error_set(e, STATUS_PARAM_INVALID, "there is one USB interface, not two");
    struct listen_usb *u = calloc(1, sizeof *u);
    if (!u)
        return error_no_memory(e, "a USB link", sizeof *u);
    int r = usb_board_open(&u->board, l->loop, folder, listen_usb_take, l, e);
    if (r < 0) {
        free(u);
        return r;
    }
    u->carrier.close = listen_usb_close;
    list_append(&l->carriers, &u->carrier.link);
    return 0;
}

// ---- the table ----------------------------------------------------------------------------------

static const struct listen_scheme rows[] = {
    {
        .uri = URI_SCHEME_UNIX,
        .help = "a socket for programs on this machine",
        .listen = listen_unix,
        .check = check_unix,
    },
    {
        .uri = URI_SCHEME_TCP,
        .help = "every address of the host",
        .listen = listen_tcp,
        .check = check_tcp,
    },
    {
        .uri = URI_SCHEME_TLS,
        .help = "the same with TLS, for other machines",
        .keys = true,
        .listen = listen_tls,
        .check = check_tls,
    },
    {
        .uri =
            {.name = "usb:", .syntax = "[FOLDER]", .parse = uri_parse_name, .stands_alone = true},
        .at_start = true,
        .help = "the USB function of this board, by FunctionFS",
        .listen = listen_usb,
    },
    {
        .uri = {.name = "fd:", .syntax = "N", .parse = uri_parse_fd, .format = uri_format_fd},
        .at_start = true,
        .help = "an inherited socket that listens",
        .listen = listen_fd,
    },
    {
        .uri = {.name = "tls-fd:", .syntax = "N", .parse = uri_parse_fd, .format = uri_format_fd},
        .at_start = true,
        .help = "the same with TLS",
        .keys = true,
        .listen = listen_tls_fd,
    },
};
#define N_ROWS (sizeof rows / sizeof *rows)

static void list_schemes(const struct uri_scheme *ret[N_ROWS])
{
    for (size_t i = 0; i < N_ROWS; i++)
        ret[i] = &rows[i].uri;
}

const struct listen_scheme *listen_scheme(unsigned i)
{
    return i < N_ROWS ? &rows[i] : NULL;
}

void listen_forms(char ret[static URI_FORMS_SIZE])
{
    const struct uri_scheme *schemes[N_ROWS];
    list_schemes(schemes);
    uri_forms(schemes, N_ROWS, ret);
}

// The row is found through its uri_scheme, which is embedded in it.
static int find_scheme(const char *text, struct uri *uri, const struct listen_scheme **ret,
                       struct error *e)
{
    const struct uri_scheme *schemes[N_ROWS];
    list_schemes(schemes);
    int r = uri_parse(text, schemes, N_ROWS, uri, e);
    if (r < 0)
        return error_prefix(e, "cannot listen");
    *ret = container_of(uri->scheme, struct listen_scheme, uri);
    return 0;
}

static int listen_by(const struct listen_scheme *scheme, struct listeners *l, const struct uri *uri,
                     const char *text, struct error *e)
{
    l->address = text;
    int r = scheme->listen(l, uri, text, e);
    l->address = NULL;
    return r;
}

int listen_at(struct listeners *l, const char *text, struct error *e)
{
    const struct listen_scheme *scheme;
    struct uri uri;
    int r = find_scheme(text, &uri, &scheme, e);
    return r < 0 ? r : listen_by(scheme, l, &uri, text, e);
}

int listen_later(struct listeners *l, const char *text, struct error *e)
{
    const struct listen_scheme *scheme;
    struct uri uri;
    int r = find_scheme(text, &uri, &scheme, e);
    if (r == 0 && scheme->at_start)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s can be listened on from the start only: restart", text);
    return r < 0 ? r : listen_by(scheme, l, &uri, text, e);
}

int listen_check(const struct listeners *l, const char *text, struct error *e)
{
    const struct listen_scheme *scheme;
    struct uri uri;
    int r = find_scheme(text, &uri, &scheme, e);
    return r == 0 && scheme->keys ? needs_keys(l, text, e) : r;
}

int listen_check_place(const struct listeners *l, const char *text, struct error *e)
{
    const struct listen_scheme *scheme;
    struct uri uri;
    int r = listen_check(l, text, e);
    if (r == 0)
        r = find_scheme(text, &uri, &scheme, e);
    return r == 0 && scheme->check ? scheme->check(l, &uri, e) : r;
}
