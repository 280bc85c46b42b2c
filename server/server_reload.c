// Another configuration (config/reload.h) for a daemon that runs: it has been read and checked on a
// thread, with its new listeners open and its keys loaded, so that what is left here cannot fail.
#include "server/server.h"

#include <time.h>

#include "base/log.h"

static void close_gone(struct server *s, const struct addresses *now)
{
    for (unsigned i = 0; i < s->addresses.n; i++) {
        const char *uri = s->addresses.uri[i];
        if (!addresses_have(now, uri) && !listeners_close_address(&s->listeners, uri))
            log_warn("%s is listened on until the next start", uri);
    }
}

static void take_listeners(struct server *s, struct reload *r)
{
    struct tls_context *old = s->tls.context;
    close_gone(s, &r->addresses);
    s->listeners.insecure = r->options.insecure;
    s->listeners.tls = r->tls;
    s->tls.context = r->tls;
    r->tls = old;
    listeners_join(&s->listeners, &r->listeners);
}

// What is held already stays, also where it is more than is allowed now.
static void take_options(struct server *s)
{
    server_copy_options(s);
    server_copy_groups(s);
    server_set_limits(s);
    users_update(&s->users);
    store_trim(&s->store);
    shelf_note_change(&s->shelf);
    if (s->shelf.root < 0)
        shelf_pins_update(&s->pins);
    if (uv_is_active((uv_handle_t *)&s->sweep)) {
        uv_timer_stop(&s->sweep);
        server_start_sweep(s);
    }
}

static void log_update(const struct options_names *changed, const struct options_names *kept,
                       bool level)
{
    bool none = !*changed->text && !level;
    log_info("the configuration was read again: %s%s%s%s",
             none ? "no change" : "changed: ", changed->text, level && *changed->text ? ", " : "",
             level ? "log-level" : "");
    if (*kept->text)
        log_warn("counts from the next start only: %s", kept->text);
}

static void on_reloaded(struct reload *r)
{
    struct server *s = container_of(r, struct server, reload);
    struct options_names changed, kept;
    if (s->state != SERVER_SERVING)
        return;
    s->metrics.config_is_behind = r->failed.code < 0;
    if (r->failed.code < 0) {
        log_error("the configuration stays as it was: %s", r->failed.text);
        server_tell_manager(s);
        return;
    }
    s->metrics.config_s = (uint64_t)time(NULL);
    take_listeners(s, r);
    options_update(s->options, &r->options, &changed, &kept);
    addresses_find(s->options, s->reload.others, &s->addresses, NULL);
    take_options(s);
    log_update(&changed, &kept, r->new_log_level);
    listeners_start(&s->listeners);
    server_tell_manager(s);
}

void server_reload(struct server *s)
{
    struct reload *r = &s->reload;
    if (s->state != SERVER_SERVING) {
        r->again = s->state == SERVER_STARTING;
        return;
    }
    manager_tell_reloading(&s->notify.manager);
    if (!r->busy) {
        listeners_init(&r->listeners, NULL);
        r->listeners.take_transport = s->listeners.take_transport;
        r->listeners.socket_group = s->options->socket_group;
    }
    reload_begin(r, s->loop);
}

void server_init_reload(struct server *s)
{
    s->reload = (struct reload){.now = s->options, .here = &s->addresses, .done = on_reloaded};
}
