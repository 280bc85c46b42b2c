// The choice of a server.
#include "client/choice.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/uri.h"
#include "client/devices.h"
#include "client/last_error.h"
#include "client/server.h"

#define MAX_BOARDS 8

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

void choice_local(struct choice *ret)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    *ret = (struct choice){.source = CHOICE_DEFAULT};
    add(ret, "unix:", "", URI_SYSTEM_SOCKET);
    if (runtime && *runtime)
        add(ret, "unix:", runtime, "/rknnd.sock");
}

void choice_make(const char *uri, struct choice *ret)
{
    char text[sizeof chosen];
    const char *environment = getenv("RKNND_SERVER");
    choice_local(ret);
    pthread_mutex_lock(&lock);
    memcpy(text, chosen, sizeof text);
    pthread_mutex_unlock(&lock);
    if (!uri && !*text && !(environment && *environment))
        return;
    ret->source = uri ? CHOICE_ARGUMENT : *text ? CHOICE_PROGRAM : CHOICE_ENVIRONMENT;
    ret->n_uris = 0;
    add(ret, uri ? uri : *text ? text : environment, "", "");
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

// A board may be at a cable and behind adb at once.
static bool is_same(const rknnd_device *a, const rknnd_device *b)
{
    return *a->serial && strcmp(a->serial, b->serial) == 0;
}

// Boards that can be used, each once: their names, and *ret the first of them.
static unsigned find_usable(const rknnd_device *list, unsigned n, rknnd_device *ret, char *names,
                            size_t size)
{
    unsigned n_usable = 0;
    *names = 0;
    for (unsigned i = 0; i < n; i++) {
        if (*list[i].obstacle || (n_usable > 0 && is_same(ret, &list[i])))
            continue;
        size_t used = strlen(names);
        snprintf(names + used, size - used, " %s", list[i].uri);
        if (n_usable++ == 0)
            *ret = list[i];
    }
    return n_usable;
}

int choice_find_board(rknnd_device *ret, struct error *e)
{
    rknnd_device list[MAX_BOARDS], usable;
    char names[200];
    unsigned n = devices_find_boards(list, MAX_BOARDS);
    unsigned n_usable =
        find_usable(list, n < MAX_BOARDS ? n : MAX_BOARDS, &usable, names, sizeof names);
    if (n_usable == 1) {
        *ret = usable;
        return 0;
    }
    if (n_usable > 1)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "there is more than one board: set RKNND_SERVER to one of%s", names);
    if (n > 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "board %s cannot be used: %s; %s",
                         list[0].uri, list[0].obstacle, list[0].advice);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no board is at a USB cable or behind adb");
}

static int connect_default(const struct choice *choice, struct connection **ret, struct error *e)
{
    char tried[250] = "";
    rknnd_device board;
    struct error why;
    for (unsigned i = 0; i < choice->n_uris; i++)
        if (try_local(choice->uris[i], ret, tried, sizeof tried))
            return 0;
    if (choice_find_board(&board, &why) == 0)
        return server_connect(board.uri, ret, e);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no server found. Tried %s; %s. Start rknnd, or set RKNND_SERVER to "
                     "unix:PATH, tcp:HOST:PORT, usb:, adb: or sim: (software NPU)",
                     tried, why.text);
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
