// The way to a server, hop by hop: which one is selected and by what, whether its address is
// readable, the transport's own checks, HELLO.
#include <unistd.h>

#include "client/debug/doctor.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/transport/transports.h"

// What to do when something answers, but HELLO fails.
static const char *hello_advice(const struct transport *t, int error)
{
    if (error == STATUS_DEVICE_UNMATCH)
        return "update the older of the two, rknnd or this library";
    if (t->hello_advice)
        return t->hello_advice;
    return "what answers there is no rknnd, or it hangs, or turns this client away: look at its "
           "log";
}

// The last hop: HELLO. The connection is the caller's.
static struct connection *doctor_greet(struct checks *checks, const struct transport *t,
                                       const char *uri)
{
    struct error e;
    struct connection *c = NULL;
    int r = server_connect(uri, &c, &e);
    if (r == 0)
        checks_tell(checks, RKNND_CHECK_GOOD, "greeting", "", "%s, protocol %u (this library: %s)",
                    c->peer.software, c->peer.version, RKNND_VERSION);
    else
        checks_tell(checks, RKNND_CHECK_BAD, "greeting", hello_advice(t, r), "%s", e.text);
    return c;
}

// One server by its address. NULL: some hop is broken, and has been told.
static struct connection *doctor_reach_address(struct checks *checks, const char *text)
{
    struct error e;
    struct uri uri;
    char forms[URI_FORMS_SIZE + 8];
    if (transports_parse(text, &uri, &e) < 0) {
        memcpy(forms, "write ", 6);
        transports_forms(forms + 6);
        checks_tell(checks, RKNND_CHECK_BAD, "address", forms, "%s", e.text);
        return NULL;
    }
    const struct transport *t = transport_of(&uri);
    return !t->diagnose || t->diagnose(checks, &uri) ? doctor_greet(checks, t, text) : NULL;
}

// The way of programs that select nothing: the first local socket that answers, else the only
// board. Sockets that do not exist are passed over without a word.
static struct connection *reach_default(struct checks *checks,
                                        const struct server_selection *selection)
{
    struct error e;
    struct uri uri;
    rknnd_device board;
    struct connection *c = NULL;
    for (unsigned i = 0; i < selection->local.n && !c; i++)
        if (transports_parse(selection->local.uris[i], &uri, &e) < 0 || access(uri.text, F_OK) == 0)
            c = doctor_reach_address(checks, selection->local.uris[i]);
    if (c)
        return c;
    if (selection_find_board(&board, &e) == 0)
        return doctor_reach_address(checks, board.uri);
    checks_tell(checks, RKNND_CHECK_BAD, "socket", CHECKS_START_IT,
                "no local socket answers, and %s", e.text);
    return NULL;
}

// Tells which server is selected and by what, then follows the way to it.
struct connection *doctor_reach(struct checks *checks)
{
    static const char *const sources[] = {
        [SELECTION_THREAD] = "chosen by the program, for this thread",
        [SELECTION_PROGRAM] = "chosen by the program (rknnctl: --server)",
        [SELECTION_ENVIRONMENT] = "RKNND_SERVER in the environment",
    };
    struct server_selection selection;
    selection_make(NULL, &selection);
    if (selection.source == SELECTION_DEFAULT) {
        checks_tell(
            checks, RKNND_CHECK_GOOD, "server", "",
            "none is chosen (RKNND_SERVER is not set): the local sockets are tried, then the "
            "only board");
        return reach_default(checks, &selection);
    }
    if (selection.too_long) {
        checks_tell(checks, RKNND_CHECK_BAD, "server", "shorten it", "RKNND_SERVER is too long");
        return NULL;
    }
    checks_tell(checks, RKNND_CHECK_GOOD, "server", "", "%s, %s", selection.uri,
                sources[selection.source]);
    return doctor_reach_address(checks, selection.uri);
}
