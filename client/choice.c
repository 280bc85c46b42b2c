// The choice of a server.
#include "client/choice.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/uri.h"
#include "client/last_error.h"
#include "client/server.h"
#include "rknnd.h"

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

// Tries one local socket; adds what came of it to the words in `tried`.
static bool try_local(const char *folder, const char *file, struct connection **ret, char *tried,
                      size_t size)
{
    struct error e;
    char uri[256];
    if ((size_t)snprintf(uri, sizeof uri, "unix:%s%s", folder, file) >= sizeof uri)
        return false;
    if (server_connect(uri, ret, &e) == 0)
        return true;
    size_t used = strlen(tried);
    const char *words = strncmp(e.text, "server ", 7) == 0 ? e.text + 7 : e.text;
    snprintf(tried + used, size - used, "%s%s", used ? "; " : "", words);
    return false;
}

static int connect_default(struct connection **ret, struct error *e)
{
    char tried[300] = "";
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (try_local("", SYSTEM_SOCKET, ret, tried, sizeof tried))
        return 0;
    if (runtime && *runtime && try_local(runtime, "/rknnd.sock", ret, tried, sizeof tried))
        return 0;
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "no server found. Tried %s. Start rknnd, or set RKNND_SERVER to unix:PATH, "
                     "tcp:HOST:PORT or sim: (software NPU)",
                     tried);
}

int choice_connect(const char *uri, struct connection **ret, struct error *e)
{
    char text[sizeof chosen];
    pthread_mutex_lock(&lock);
    memcpy(text, chosen, sizeof text);
    pthread_mutex_unlock(&lock);
    const char *from_environment = getenv("RKNND_SERVER");
    if (uri || *text)
        return server_connect(uri ? uri : text, ret, e);
    if (!from_environment || !*from_environment)
        return connect_default(ret, e);
    int r = server_connect(from_environment, ret, e);
    return r == STATUS_PARAM_INVALID ? error_prefix(e, "RKNND_SERVER") : r;
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
