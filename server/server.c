// The daemon: its parts and its start. The states are drawn in server.h.
//
// The server owns all parts and connects those that must not know each other: it hands out
// callbacks (what connects the parts, below) and struct services, through which handlers reach the
// parts. All of it is on the loop's thread.
#include "server/server.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/net/discard.h"
#include "server/handle/dispatch.h"
#include "server/handle/handle_memory.h"
#include "server/listen/listen_schemes.h"
#include "server/modules.h"
#include "server/net/tls_files.h"
#include "server/net/watch.h"
#include "server/runner/runner_query.h"
#include "server/runner/worker_sandbox.h"

#define START_THREADS 12 // libuv's, and some that hash, look at files and names, and close them

// ---- starting -----------------------------------------------------------------------------------

// Memory that clients can share with the device; its kind depends on whether the device has DMA.
static int open_buffers(struct server *s)
{
    struct npu_buffers *b = &s->memories.buffers;
    const char *wanted = s->options->buffers ? s->options->buffers : "auto";
    struct error e;
    int r = npu_buffers_open(b, wanted, s->device.dma, &e);
    if (r < 0) {
        error_prefix(&e, "buffers %s", wanted);
        server_fail_to_start(s, &e);
        return r;
    }
    log_info("memory that programs share with the NPU: %s", b->name);
    return 0;
}

// Failure is only logged: clients that know the address can still use the server.
static void server_announce(struct server *s)
{
    struct error e;
    if (s->options->announce &&
        announce_start(&s->announce, s->loop, s->module_dir, s->device.chip, &s->listeners, &e) < 0)
        log_warn("this server is not announced: %s", e.text);
}

static void on_no_work(uv_work_t *work)
{
    (void)work;
}

static void on_no_work_done(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

// libuv starts its threads when it first has work for them, and ends the process when it cannot: so
// it is now, before others have taken what there is. So it is with those that hash and look at
// files: each kind has a descriptor, which is there from the start.
static int start_threads(struct server *s, struct error *e)
{
    int r = threads_check(START_THREADS, e);
    if (r < 0)
        return r;
    uv_queue_work(s->loop, &s->no_work, on_no_work, on_no_work_done);
    r = hashers_start(&s->uploads.hashers, s->loop, e);
    if (r == 0)
        r = givebacks_start(&s->givebacks, s->loop, e);
    if (r == 0)
        r = creations_start(&s->creations, s->loop, e);
    if (r == 0)
        r = identities_start(&s->identities, s->loop, e);
    return r < 0 ? r : imports_start(&s->imports, s->loop, e);
}

void server_tell_manager(struct server *s)
{
    manager_tell(&s->notify.manager, "READY=1\nSTATUS=Serving %s (%s)", s->device.chip,
                 s->device.backend);
}

// From here on the server accepts connections.
void server_begin(struct server *s)
{
    const struct npu_device_info *info = &s->device;
    s->state = SERVER_SERVING;
    s->services.serving = true;
    log_info("rknnd " RKNND_VERSION ": %s, backend %s, %u cores, models run in %s", info->chip,
             info->backend, s->jobs.scheduler.n_cores,
             s->options->threads ? "threads" : "processes");
    listeners_start(&s->listeners);
    server_announce(s);
    if (s->succession.fd < 0)
        server_tell_manager(s);
    shelf_pins_update(&s->pins);
    if (s->reload.again)
        server_reload(s);
}

// The backend has said which device it has.
static void on_probed(void *owner, const struct error *e, const struct npu_device_info *info)
{
    struct server *s = owner;
    if (e) {
        server_fail_to_start(s, e);
        return;
    }
    s->device = *info;
    s->sram.total = info->sram_size;
    if (open_buffers(s) < 0)
        return;
    uint32_t n = info->n_cores < SCHEDULER_MAX_CORES ? info->n_cores : SCHEDULER_MAX_CORES;
    scheduler_init(&s->jobs.scheduler, n > 0 ? n : 1);
    s->jobs.slices = info->slices;
    server_copy_options(s); // some go by the device
    server_set_limits(s);
    if (s->succession.fd >= 0)
        succession_ready(&s->succession);
    else
        server_begin(s);
}

// Keys are read before anything listens, so that what is wrong with them is said at the start.
static int open_tls(struct server *s, struct error *e)
{
    int r = tls_files_open(s->options, &s->tls.context, e);
    s->listeners.tls = s->tls.context;
    return r;
}

// Sockets come from the service manager, and from either --adopt or --listen. Accepting starts only
// when the backend has answered.
static int open_listeners(struct server *s, struct error *e)
{
    const struct options *o = s->options;
    int passed = notify_take_sockets();
    for (int i = 0; i < passed; i++) {
        char name[48];
        snprintf(name, sizeof name, "socket %d of the service manager", i);
        int r = listener_open_fd(&s->listeners, NOTIFY_FIRST_FD + i, false, name, e);
        if (r < 0)
            return r;
    }
    if (passed > 0 && o->n_listen == 0 && o->socket_group)
        return error_set(e, STATUS_PARAM_INVALID,
                         "socket-group %s: the Unix sockets are the service manager's, which gives "
                         "them their group (SocketGroup= of rknnd.socket)",
                         o->socket_group);
    s->reload.others = passed > 0 || o->adopt_fd >= 0;
    if (o->adopt_fd >= 0)
        return listener_adopt(&s->listeners, (int)o->adopt_fd, e);
    if (o->takeover_fd >= 0)
        return server_take_listeners_over(s, e);
    int r = addresses_find(o, s->reload.others, &s->addresses, e);
    return r < 0 ? r : addresses_open(&s->addresses, NULL, &s->listeners, listen_at, e);
}

// ---- what connects the parts --------------------------------------------------------------------

static void on_less_to_answer(struct connections *all)
{
    struct server *s = container_of(all, struct server, connections);
    server_check_retired(s);
    server_check_drained(s);
}

static void on_late_name(struct identities *all, uid_t uid, const char *name)
{
    users_rename(&container_of(all, struct server, identities)->users, uid, name);
}

static void on_job_ended(struct jobs *all)
{
    server_check_drained(container_of(all, struct server, jobs));
}

// The shelf has been looked at.
static void on_stored(struct shelf *shelf)
{
    struct server *s = container_of(shelf, struct server, shelf);
    s->accounts.all.used.of[ACCOUNT_STORED] = shelf->bytes;
    if (s->state == SERVER_SERVING)
        shelf_pins_update(&s->pins);
}

static void on_model_held(struct model_keeper *k, const struct model *m, bool held)
{
    contexts_hold(&container_of(k, struct server, store.keeper)->contexts, m, held);
}

// All pointers are into the server, which outlives every runner.
static void init_runner_options(struct server *s)
{
    const struct options *o = s->options;
    s->runner_options = (struct runner_options){
        .loop = s->loop,
        .threads = o->threads,
        .backend = o->backend,
        .backend_options = o->backend_options,
        .module_dir = s->module_dir,
        .sandbox = o->sandbox,
        .counters = &s->counters,
        .trace = &s->trace,
    };
    server_copy_options(s);
    buffer_totals_init(&s->counters.buffers, UINT_MAX, UINT64_MAX); // until server_set_limits()
    s->counters.buffers.givebacks = &s->givebacks;
    list_init(&s->counters.queries);
    list_init(&s->counters.processes);
}

static void init_services(struct server *s)
{
    s->services = (struct services){
        .loop = s->loop,
        .options = s->options,
        .runner_options = &s->runner_options,
        .accounts = &s->accounts,
        .users = &s->users,
        .device = &s->device,
        .started_ms = uv_now(s->loop),
        .connections = &s->connections,
        .sessions = &s->sessions,
        .contexts = &s->contexts,
        .jobs = &s->jobs,
        .store = &s->store,
        .uploads = &s->uploads,
        .shelf = &s->shelf,
        .pins = &s->pins,
        .memories = &s->memories,
        .sram = &s->sram,
        .imports = &s->imports,
        .creations = &s->creations,
        .describes = &s->describes,
        .stats = &s->stats,
        .stored_list = &s->stored_list,
        .heap = &s->heap,
        .metrics = &s->metrics,
        .metrics_share = &s->metrics_share,
        .logbook = &s->logbook,
        .trace = &s->trace,
        .readings = &s->readings,
        .turns = &s->turns,
    };
}

static void init_clients(struct server *s)
{
    static const struct connection_ops connection_ops = {
        .on_message = dispatch_message,
        .answer_cost_us = dispatch_answer_cost_us,
        .on_closing = services_connection_closing,
        .on_less = on_less_to_answer,
    };
    server_init_arrivals(s);
    connections_init(&s->connections, s->loop);
    tls_door_init(&s->tls, s->loop);
    s->connections.options = s->options;
    s->connections.services = &s->services;
    s->connections.ops = &connection_ops;
    s->connections.metrics = &s->metrics;
    s->sessions = (struct sessions){.scheduler = &s->jobs.scheduler, .memories = &s->memories};
    s->users = (struct users){.options = s->options,
                              .scheduler = &s->jobs.scheduler,
                              .accounts = &s->accounts,
                              .identities = &s->identities};
    identities_init(&s->identities, s->loop, &s->accounts,
                    s->options->subuid ? s->options->subuid : "/etc/subuid");
    s->identities.late = on_late_name;
    s->contexts = (struct contexts){.options = s->options,
                                    .scheduler = &s->jobs.scheduler,
                                    .timer = &s->jobs.timer,
                                    .sram = &s->sram,
                                    .metrics = &s->metrics};
    list_init(&s->sessions.all);
    list_init(&s->users.all);
    list_init(&s->contexts.all);
}

// Cannot fail: after this, server_stop() can close everything, however far the start gets.
static void init_parts(struct server *s, uv_loop_t *loop, struct options *options)
{
    *s = (struct server){.loop = loop, .options = options};
    accounts_init(&s->accounts);
    server_find_groups(s);
    init_services(s);
    init_clients(s);
    turns_init(&s->turns, loop);
    http_init(&s->http, loop, &s->services);
    server_init_upgrade(s);
    server_init_sweep(s);
    uv_timer_init(loop, &s->drain);
    jobs_init(&s->jobs, loop, &s->trace, options->hold_timeout_ms, on_job_ended);
    s->jobs.metrics = &s->metrics;
    s->metrics.config_s = (uint64_t)time(NULL);
    init_runner_options(s);
    describes_init(&s->describes, &s->runner_options);
    stats_init(&s->stats, &s->services);
    stored_list_init(&s->stored_list, &s->services);
    metrics_share_init(&s->metrics_share, &s->services);
    heap_init(&s->heap, uv_now(loop));
    readings_init(&s->readings, loop, options->sysfs ? options->sysfs : "/sys");
    store_init(&s->store, options, &s->accounts, &s->runner_options, on_model_held);
    uploads_init(&s->uploads, loop, options, &s->store, &s->trace, &s->metrics);
    shelf_init(&s->shelf, loop, on_stored);
    shelf_pins_init(&s->pins, &s->shelf, &s->uploads, &s->users, options);
    memories_init(&s->memories);
    givebacks_init(&s->givebacks, &s->connections.rounds);
    s->memories.givebacks = s->store.givebacks = &s->givebacks;
    imports_init(&s->imports);
    server_init_reload(s);
}

// What can fail, in the order of dependence. Errors lead to server_stop(), which is asynchronous.
int server_init(struct server *s, uv_loop_t *loop, struct options *options, struct error *e)
{
    init_parts(s, loop, options);
    int r = logbook_init(&s->logbook, loop, e);
    if (r == 0)
        r = trace_init(&s->trace, options->trace_events, e);
    if (r == 0)
        r = watch_prepare(loop, e);
    if (r == 0)
        r = discard_prepare(e);
    if (r == 0)
        r = start_threads(s, e);
    if (r == 0)
        r = modules_find(options, s->module_dir, e);
    if (r == 0)
        r = worker_sandbox_prepare(&s->runner_options, options->worker_user, e);
    if (r == 0 && options->model_store)
        r = shelf_start(&s->shelf, options->model_store, e);
    if (r == 0)
        r = notify_init(&s->notify, loop, e);
    if (r == 0)
        r = open_tls(s, e);
    if (r == 0)
        r = open_listeners(s, e);
    if (r == 0 && options->http && s->http.n_sockets == 0)
        r = http_listen(&s->http, options->http, options->socket_group, options->insecure, e);
    if (r == 0 && s->succession.fd < 0)
        r = http_start(&s->http, s->module_dir, e);
    if (r == 0 && options->announce)
        r = announce_check(&s->listeners, e);
    if (r == 0)
        r = runner_probe(&s->runner_options, on_probed, s, e);
    if (r < 0)
        server_stop(s);
    return r;
}
