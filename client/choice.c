// The choice of a server.
#include "client/choice.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/uri.h"
#include "client/devices.h"
#include "client/last_error.h"
#include "client/server.h"

#define MAX_BOARDS    8
#define SYSTEM_SOCKET "/run/rknnd/rknnd.sock"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char chosen[256]; // by rknnd_set_server(); "": none

RKNN_EXPORT int rknnd_set_server(const char *uri)
{
    struct error e;
    struct uri parsed;
    int r = uri ? uri_parse(uri, &parsed, &e) : 0;
    if (r == 0) {
        pthread_mutex_lock(&lock);
        chosen[0] = 0;
        if (uri)
            uri_format(&parsed, chosen, sizeof chosen);
        pthread_mutex_unlock(&lock);
    }
    return last_error_keep("rknnd_set_server", r, &e);
}

static void add(struct choice *c, const char *scheme, const char *folder, const char *file)
{
    char *uri = c->uris[c->n_uris];
    if ((size_t)snprintf(uri, sizeof c->uris[0], "%s%s%s", scheme, folder, file) <
        sizeof c->uris[0])
        c->n_uris++;
}

void choice_make(const char *uri, struct choice *ret)
{
    char text[sizeof chosen];
    const char *environment = getenv("RKNND_SERVER"), *runtime = getenv("XDG_RUNTIME_DIR");
    *ret = (struct choice){.source = CHOICE_DEFAULT};
    pthread_mutex_lock(&lock);
    memcpy(text, chosen, sizeof text);
    pthread_mutex_unlock(&lock);
    if (uri || *text || (environment && *environment)) {
        ret->source = uri ? CHOICE_ARGUMENT : *text ? CHOICE_PROGRAM : CHOICE_ENVIRONMENT;
        add(ret, uri ? uri : *text ? text : environment, "", "");
        return;
    }
    add(ret, "unix:", "", SYSTEM_SOCKET);
    if (runtime && *runtime)
        add(ret, "unix:", runtime, "/rknnd.sock");
}

// Tries one local socket; adds what came of it to the words in `tried`.
static bool try_local(const char *uri, struct connection **ret, char *tried, size_t size)
{
    struct error e;
    if (server_connect(uri, ret, &e) == 0)
        return true;
    size_t used = strlen(tried);
    const char *words = strncmp(e.text, "server ", 7) == 0 ? e.text + 7 : e.text;
    snprintf(tried + used, size - used, "%s%s", used ? "; " : "", words);
    return false;
}

// Adds the boards to the words in `tried`. Returns how many could be used; *ret is one of them.
static unsigned look_at_boards(rknnd_device *ret, char *tried, size_t size)
{
    rknnd_device list[MAX_BOARDS];
    unsigned n = devices_find_boards(list, MAX_BOARDS), n_usable = 0;
    for (unsigned i = 0; i < n && i < MAX_BOARDS; i++) {
        size_t used = strlen(tried);
        snprintf(tried + used, size - used, "; %s %s", list[i].uri, list[i].obstacle);
        if (*list[i].obstacle)
            continue;
        *ret = list[i];
        n_usable++;
    }
    return n_usable;
}

static int connect_default(const struct choice *choice, struct connection **ret, struct error *e)
{
    char tried[400] = "";
    rknnd_device board;
    for (unsigned i = 0; i < choice->n_uris; i++)
        if (try_local(choice->uris[i], ret, tried, sizeof tried))
            return 0;
    unsigned n = look_at_boards(&board, tried, sizeof tried);
    if (n == 1)
        return server_connect(board.uri, ret, e);
    if (n > 1)
        return error_set(
            e, STATUS_DEVICE_UNAVAILABLE,
            "no server here, and more than one board: set RKNND_SERVER to one of them. "
            "Tried %s",
            tried);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no server found. Tried %s. Start rknnd, or set RKNND_SERVER to unix:PATH, "
                     "tcp:HOST:PORT, usb:, adb: or sim: (software NPU)",
                     tried);
}

int choice_connect(const char *uri, struct connection **ret, struct error *e)
{
    struct choice choice;
    choice_make(uri, &choice);
    if (choice.source == CHOICE_DEFAULT)
        return connect_default(&choice, ret, e);
    if (choice.n_uris == 0)
        return error_set(e, STATUS_PARAM_INVALID, "the server's URI is longer than %zu bytes",
                         sizeof choice.uris[0] - 1);
    int r = server_connect(choice.uris[0], ret, e);
    return r == STATUS_PARAM_INVALID && choice.source == CHOICE_ENVIRONMENT
               ? error_prefix(e, "RKNND_SERVER")
               : r;
}

void choice_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void choice_after_fork(bool child)
{
    (void)child;
    pthread_mutex_unlock(&lock);
}
