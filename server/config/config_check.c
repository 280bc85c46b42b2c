// What a start would refuse, found without one: `systemctl reload` asks this before it sends the
// signal, so both have to say the same.
#include "server/config/config_check.h"

#include "server/listen/listen_schemes.h"
#include "server/metrics/http_process.h"
#include "server/modules.h"
#include "server/net/tls_files.h"

// Stands for a server, which takes what is not a socket; a relay does not.
static void take_nothing(struct listeners *l, struct transport *t, const struct origin *origin)
{
    (void)l, (void)origin;
    transport_close(t);
}

// What is not needed to tell good addresses from bad ones is left out.
static int check_addresses(const struct options *o, bool tls, struct error *e)
{
    struct listeners l;
    listeners_init(&l, NULL);
    l.tls = tls;
    l.take_transport = o->relay ? NULL : take_nothing;
    l.insecure = o->insecure;
    for (uint32_t i = 0; i < o->n_listen; i++) {
        int r = listen_check_place(&l, o->listen[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_check_later(const struct options *o, struct error *e)
{
    char folder[MODULES_DIR_SIZE];
    int r = o->relay ? 0 : modules_find(o, folder, e);
    return r == 0 && o->http && !o->relay ? http_check(o->http, o->insecure, e) : r;
}

int config_check(const struct options *o, struct error *e)
{
    struct tls_context *tls = NULL;
    int r = config_check_later(o, e);
    if (r == 0)
        r = tls_files_open(o, &tls, e);
    if (r == 0)
        r = check_addresses(o, tls, e);
    tls_context_free(tls);
    return r;
}
