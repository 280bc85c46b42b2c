#include "server/listen/addresses.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/uri.h"

static int find_default(struct addresses *a, struct error *e)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(a->by_default, sizeof a->by_default, "unix:" URI_SYSTEM_SOCKET);
    else if (folder && *folder)
        snprintf(a->by_default, sizeof a->by_default, "unix:%s/rknnd.sock", folder);
    else
        return error_set(e, STATUS_PARAM_INVALID,
                         "no address to listen on: give --listen, or set XDG_RUNTIME_DIR");
    a->uri[a->n++] = a->by_default;
    return 0;
}

int addresses_find(const struct options *o, bool others, struct addresses *ret, struct error *e)
{
    ret->n = 0;
    while (ret->n < o->n_listen) {
        ret->uri[ret->n] = o->listen[ret->n];
        ret->n++;
    }
    return ret->n == 0 && !others ? find_default(ret, e) : 0;
}

bool addresses_have(const struct addresses *a, const char *uri)
{
    for (unsigned i = 0; i < a->n; i++)
        if (strcmp(a->uri[i], uri) == 0)
            return true;
    return false;
}

// The system's folder is there after the first start, and otherwise where systemd or a package
// makes it.
static int make_folder(const char *uri, struct error *e)
{
    if (strcmp(uri, "unix:" URI_SYSTEM_SOCKET) != 0 || geteuid() != 0 ||
        mkdir(URI_SYSTEM_FOLDER, 0755) == 0 || errno == EEXIST)
        return 0;
    return error_set_errno(e, STATUS_FAIL, errno, URI_SYSTEM_FOLDER);
}

int addresses_open(const struct addresses *a, const struct addresses *but, struct listeners *l,
                   addresses_listen *listen, struct error *e)
{
    for (unsigned i = 0; i < a->n; i++) {
        if (but && addresses_have(but, a->uri[i]))
            continue;
        int r = make_folder(a->uri[i], e);
        if (r == 0)
            r = listen(l, a->uri[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}
