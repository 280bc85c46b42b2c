// A configuration is read on a thread, as names may have to be looked up and files may lie on a
// disk that sleeps; the loop takes over what came of it, or nothing.
#include "server/config/reload.h"

#include "base/log.h"
#include "server/config/config_check.h"
#include "server/config/options_parse.h"
#include "server/listen/listen_schemes.h"
#include "server/net/tls_files.h"

// New sockets are bound last: until then nobody else notices anything. What counts from the next
// start only is looked at, too: it would be refused there, when nobody thinks of it any more.
static int read_all(struct reload *r, struct error *e)
{
    int n = options_parse_again(r->now, &r->options, e);
    if (n == 0)
        n = config_check_later(&r->options, e);
    if (n == 0)
        n = tls_files_open(&r->options, &r->tls, e);
    if (n == 0)
        n = addresses_find(&r->options, r->others, &r->addresses, e);
    if (n == 0) {
        r->listeners.insecure = r->options.insecure;
        r->listeners.tls = r->tls;
        n = addresses_open(&r->addresses, r->here, &r->listeners, listen_later, e);
    }
    return n;
}

// Another log level counts as soon as it is read.
static void on_thread(uv_work_t *work)
{
    struct reload *r = container_of(work, struct reload, work);
    enum log_level level = log_level_now();
    if (read_all(r, &r->failed) == 0)
        r->new_log_level = log_level_now() != level;
    else
        log_set_level(level);
}

static void drop_rest(struct reload *r)
{
    listeners_close(&r->listeners);
    tls_context_free(r->tls);
    options_done(&r->options);
    r->tls = NULL;
}

static void on_loop(uv_work_t *work, int status)
{
    struct reload *r = container_of(work, struct reload, work);
    r->busy = false;
    if (status == 0)
        r->done(r);
    drop_rest(r);
    if (r->again && status == 0)
        reload_begin(r, work->loop);
}

void reload_begin(struct reload *r, uv_loop_t *loop)
{
    r->again = r->busy;
    if (r->busy)
        return;
    r->failed = (struct error){0};
    r->new_log_level = false;
    r->busy = uv_queue_work(loop, &r->work, on_thread, on_loop) == 0;
}

void reload_close(struct reload *r)
{
    r->again = false;
    if (r->busy)
        uv_cancel((uv_req_t *)&r->work);
}
