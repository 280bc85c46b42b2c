// Which server contexts are opened on. The first of these that is set counts (server_selection.h):
//
//     the call's argument, rknnd_set_thread_server(), rknnd_set_server(), RKNND_SERVER,
//     the local sockets in order, the only board at USB or adb
//
// Any thread; `lock` guards the program's selection.
#include "client/link/server_selection.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/last_error.h"
#include "client/link/servers.h"
#include "client/transport/transports.h"

#define MAX_BOARDS 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char chosen[256];                      // by rknnd_set_server(); "": none
static _Thread_local char thread_chosen[256]; // by rknnd_set_thread_server(); "": none

// Checks an address and writes it to `to` in normal form, so that different spellings of a server
// are one; "" for NULL.
static int selection_normalize(const char *uri, char to[static 256], struct error *e)
{
    struct uri parsed;
    int r = uri ? transports_parse(uri, &parsed, e) : 0;
    *to = 0;
    if (r == 0 && uri)
        uri_format(&parsed, to, 256);
    return r;
}

RKNN_EXPORT int rknnd_set_server(const char *uri)
{
    struct error e;
    char normal[sizeof chosen];
    int r = selection_normalize(uri, normal, &e);
    if (r == 0) {
        pthread_mutex_lock(&lock);
        memcpy(chosen, normal, sizeof chosen);
        pthread_mutex_unlock(&lock);
    }
    return last_error_keep("rknnd_set_server", r, &e);
}

RKNN_EXPORT int rknnd_set_thread_server(const char *uri)
{
    struct error e;
    char normal[sizeof thread_chosen];
    int r = selection_normalize(uri, normal, &e);
    if (r == 0)
        memcpy(thread_chosen, normal, sizeof thread_chosen);
    return last_error_keep("rknnd_set_thread_server", r, &e);
}

RKNN_EXPORT const char *rknnd_get_thread_server(void)
{
    return thread_chosen;
}

// Only reads the settings; does not connect. An argument or setting that is too long is reported
// later, where there is an error to put it in.
void selection_make(const char *uri, struct server_selection *ret)
{
    char program[sizeof chosen];
    pthread_mutex_lock(&lock);
    memcpy(program, chosen, sizeof program);
    pthread_mutex_unlock(&lock);
    const struct {
        enum selection_source source;
        const char *uri;
    } sources[] = {{SELECTION_THREAD, thread_chosen},
                   {SELECTION_PROGRAM, program},
                   {SELECTION_ENVIRONMENT, getenv("RKNND_SERVER")}};
    *ret = (struct server_selection){.source = uri ? SELECTION_ARGUMENT : SELECTION_DEFAULT};
    for (size_t i = 0; !uri && i < sizeof sources / sizeof *sources; i++)
        if (sources[i].uri && *sources[i].uri) {
            ret->source = sources[i].source;
            uri = sources[i].uri;
        }
    if (ret->source == SELECTION_DEFAULT)
        local_sockets_find(&ret->local);
    else
        ret->too_long = (size_t)snprintf(ret->uri, sizeof ret->uri, "%s", uri) >= sizeof ret->uri;
}

// Tries one local socket; appends why it failed to `tried`, for the error when all have.
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

// The same board by two ways: it may be at a USB cable and behind adb at once.
static bool is_same(const rknnd_device *a, const rknnd_device *b)
{
    return *a->serial && strcmp(a->serial, b->serial) == 0;
}

// Counts boards that can be used, each once, lists their names, and puts the first into *ret. The
// order is that of the transports, so USB wins over adb.
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

// With several boards there is no right guess, so the user has to say which.
int selection_find_board(rknnd_device *ret, struct error *e)
{
    rknnd_device list[MAX_BOARDS], usable;
    char names[200];
    struct device_list l = {.items = list, .max = MAX_BOARDS};
    transports_list(&l, true);
    unsigned n_usable =
        find_usable(list, l.n < MAX_BOARDS ? l.n : MAX_BOARDS, &usable, names, sizeof names);
    if (n_usable == 1) {
        *ret = usable;
        return 0;
    }
    if (n_usable > 1)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "there is more than one board: set RKNND_SERVER to one of%s", names);
    if (l.n > 0)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "board %s cannot be used: %s; %s",
                         list[0].uri, list[0].obstacle, list[0].advice);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "no board is at a USB cable or behind adb");
}

// A server named by nobody: local sockets, then the only board. The error lists all that was tried.
static int connect_default(const struct server_selection *selection, struct connection **ret,
                           struct error *e)
{
    char tried[250] = "", forms[URI_FORMS_SIZE];
    rknnd_device board;
    struct error why;
    for (unsigned i = 0; i < selection->local.n; i++)
        if (try_local(selection->local.uris[i], ret, tried, sizeof tried))
            return 0;
    if (selection_find_board(&board, &why) == 0)
        return server_connect(board.uri, ret, e);
    transports_forms(forms);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no server found. Tried %s; %s. Start rknnd, or set RKNND_SERVER to %s", tried,
                     why.text, forms);
}

int selection_connect(const char *uri, struct connection **ret, struct error *e)
{
    struct server_selection selection;
    selection_make(uri, &selection);
    if (selection.source == SELECTION_DEFAULT)
        return connect_default(&selection, ret, e);
    if (selection.too_long)
        return error_set(e, STATUS_PARAM_INVALID, "the server's URI is longer than %zu bytes",
                         sizeof selection.uri - 1);
    int r = server_connect(selection.uri, ret, e);
    return r == STATUS_PARAM_INVALID && selection.source == SELECTION_ENVIRONMENT
               ? error_prefix(e, "RKNND_SERVER")
               : r;
}

void selection_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void selection_after_fork(bool child)
{
    (void)child;
    pthread_mutex_unlock(&lock);
}
