// Options: their defaults, and what they own.
#include "server/config/options.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

// Texts start as NULL, which the header explains for each.
void options_init(struct options *o)
{
    *o = (struct options){
        .adopt_fd = -1,
        .takeover_fd = -1,
        .worker_fd = -1,
        .guard_fd = -1,
        .max_connections = 4096,
        .max_contexts = 256,
        .max_memories = 1024,
        .max_memory = 4 * GIB,
        .max_inflight = 64,
        .max_inflight_bytes = 256 * MIB,
        .costly_percent = 20,
        .max_payload = GIB,
        .max_model_size = 4 * GIB,
        .model_cache = 256 * MIB,
        .upload_ttl_s = 60,
        .worker_idle_s = 5,
        .heartbeat_ms = 1000,
        .peer_timeout_ms = 5000,
        .hold_timeout_ms = 2000,
        .slice_us = 2000,
        .load_timeout_ms = 120000,
        .drain_timeout_ms = 5000,
        .retire_timeout_s = 3600,
        .trace_events = 16384,
    };
}

void options_forget_listen(struct options *o)
{
    while (o->n_listen > 0)
        free(steal_ptr(o->listen[--o->n_listen]));
}

void options_forget_preload(struct options *o)
{
    while (o->n_preload > 0)
        free(steal_ptr(o->preload[--o->n_preload]));
}

void options_done(struct options *o)
{
    options_forget_listen(o);
    options_forget_preload(o);
    free(o->model_store);
    free(o->tls_psk_file);
    free(o->tls_cert);
    free(o->tls_key);
    free(o->tls_ca);
    free(o->tls_crl);
    free(o->socket_group);
    free(o->backend);
    free(o->backend_options);
    free(o->buffers);
    free(o->module_dir);
    free(o->plugin_dir);
    free(o->worker_user);
    free(o->sysfs);
    free(o->subuid);
    free(o->relay);
    free(o->http);
    *o = (struct options){.adopt_fd = -1, .takeover_fd = -1, .worker_fd = -1, .guard_fd = -1};
}
