// The daemon: start, drain, stop. The states are drawn in server.h.
//
// The server owns all parts and connects those that must not know each other: it hands out
// callbacks (what connects the parts, below) and struct services, through which handlers reach the
// parts. All of it is on the loop's thread.
#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/net/discard.h"
#include "base/net/uri.h"
#include "server/clients/machine.h"
#include "server/handle/dispatch.h"
#include "server/handle/handle_memory.h"
#include "server/listen/listen_schemes.h"
#include "server/modules.h"
#include "server/net/tls_files.h"
#include "server/net/transport_socket.h"
#include "server/net/watch.h"
#include "server/runner/runner_query.h"
#include "server/runner/worker_sandbox.h"

#define OWN_DESCRIPTORS 64 // beside what clients hold
#define START_THREADS   11 // libuv's, and some that hash, look at files and names, and close them
#define OWN_THREADS     56 // the loop, libuv's, those that hash, those that look at files and names
#define MAX_THREADS     8192 // where the system sets no limit
#define IDLE_BUFFERS    32   // a part of all memory, and of all descriptors
#define MOST_IDLE       256  // of them, which go with their worker
#define WORKER_THREADS  2    // of a worker, beside one for each core: its own, and one to spare

// ---- new connections ----------------------------------------------------------------------------

// Makes room for a new connection: closes the user's oldest one that has not said HELLO in time, or
// not who it is, where that is to be said first; or, for an operator, anybody's. So who opens
// connections without end has those of his own closed. False: there is none.
static bool close_unused(struct server *s, const struct connection *for_whom)
{
    const struct user *user = for_whom->user;
    struct connection *c;
    list_for_each (c, &s->connections.all, link)
        if (c != for_whom && (c->user == user || user->account.tier == ACCOUNT_OPERATOR) &&
            (connection_is_unused(c, uv_now(s->loop)) || connection_is_unknown(c))) {
            connection_close(c, "no HELLO, and others want its place");
            return true;
        }
    return false;
}

static int server_admit(struct server *s, struct connection *c, struct error *e)
{
    int r;
    while ((r = account_charge(c->account, ACCOUNT_CONNECTIONS, 1, e)) < 0)
        if (!close_unused(s, c))
            return r;
    c->admitted = true;
    return 0;
}

// A new connection, from whichever transport. One too many is told so with a goodbye.
static void take_transport(struct server *s, struct transport *transport,
                           const struct origin *origin, const struct identity *who)
{
    if (s->state != SERVER_SERVING && s->state != SERVER_RETIRING) {
        transport_close(transport);
        return;
    }
    struct user *user;
    struct error e;
    if (user_get(&s->users, origin, who, &user, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        transport_close(transport);
        return;
    }
    struct connection *c = connection_new(&s->connections, transport, origin, user);
    user_unref(user);
    if (c && origin->local) // its groups are numbered by the rules as they are now
        c->rights = rights_of(&s->options->rights, origin, c->user->name);
    if (c && server_admit(s, c, &e) < 0)
        connection_leave(c, e.text);
    server_start_sweep(s);
}

// Only another machine can vanish without the socket telling it; so only there TCP is made to
// probe.
static void take_known(struct arrivals *all, int fd, const struct origin *origin,
                       const struct identity *who)
{
    struct server *s = container_of(all, struct server, arrivals);
    struct error e;
    struct transport *transport, *socket;
    if (transport_socket_new(s->loop, fd, &socket, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        discard_socket(fd);
        return;
    }
    transport = socket;
    if (origin->remote)
        transport_socket_keep_asking(socket, s->options->heartbeat_ms, s->options->peer_timeout_ms);
    if (origin->tls && transport_secure_new(&s->tls, socket, origin->text, &transport, &e) < 0) {
        log_error("a connection was refused: %s", e.text);
        transport_close(socket);
        return;
    }
    take_transport(s, transport, origin, who);
}

void server_take(struct server *s, int fd, const struct origin *origin)
{
    if (s->state == SERVER_SERVING || s->state == SERVER_RETIRING)
        arrivals_take(&s->arrivals, fd, origin);
    else
        discard_socket(fd);
}

// ---- starting -----------------------------------------------------------------------------------

static void on_stop_soon(uv_timer_t *timer)
{
    server_stop(container_of(timer, struct server, drain));
}

// Stops from the loop, as this is called from inside of a callback of what is to be stopped.
void server_fail_to_start(struct server *s, const struct error *e)
{
    s->failed = *e;
    uv_timer_start(&s->drain, on_stop_soon, 0, 0);
}

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

// What is left beside the process's own, which is at most half.
static uint64_t beside(uint64_t all, uint64_t own)
{
    return all - (own < all / 2 ? own : all / 2);
}

// What all clients together may hold: as the options say, or a part of what the machine has.
// Descriptors and threads are the process's, which needs some itself.
static void server_set_limits(struct server *s)
{
    const struct options *o = s->options;
    struct account_amounts *t = &s->accounts.total;
    struct machine m;
    machine_read(o->sysfs ? o->sysfs : "/sys", &m);
    uint64_t threads = m.threads < MAX_THREADS ? m.threads : MAX_THREADS;
    uint64_t files = m.descriptors / IDLE_BUFFERS; // of which each has two
    *t = (struct account_amounts){{
        [ACCOUNT_CONNECTIONS] = o->max_connections,
        [ACCOUNT_SESSIONS] = o->max_connections,
        [ACCOUNT_CONTEXTS] = 16384,
        [ACCOUNT_REQUESTS] = 65536,
        [ACCOUNT_BYTES] = m.memory / 2,
        [ACCOUNT_INTERNAL] = m.memory / 2,
        [ACCOUNT_MEMORIES] = 16384,
        [ACCOUNT_UPLOADS] = 256,
        [ACCOUNT_MODELS] = 4096,
        [ACCOUNT_STORAGE] = o->max_models_size ? o->max_models_size : m.memory / 4 * 3,
        [ACCOUNT_STORED] = shelf_disk_size(&s->shelf),
        [ACCOUNT_WORKERS] = 128,
        [ACCOUNT_REPLIES] = m.memory / 16,
        [ACCOUNT_DUMPS] = 32,
        [ACCOUNT_FOLLOWERS] = 256,
        [ACCOUNT_IMPORTS] = IMPORTS_MAX,
        [ACCOUNT_DESCRIPTORS] = beside(m.descriptors, OWN_DESCRIPTORS),
        [ACCOUNT_THREADS] = beside(threads, OWN_THREADS),
    }};
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++)
        if (o->limits.of[i])
            t->of[i] = o->limits.of[i];
    s->accounts.worker_threads = s->jobs.scheduler.n_cores + WORKER_THREADS;
    s->counters.buffers.most_idle_bytes = m.memory / IDLE_BUFFERS;
    s->counters.buffers.most_idle = (unsigned)(files < MOST_IDLE ? files : MOST_IDLE);
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

static void on_connected(struct listeners *l, int fd, const struct origin *origin)
{
    succession_meet(&container_of(l, struct server, listeners)->succession, fd, origin);
}

// Not a socket: a channel of the USB link.
static void on_transport(struct listeners *l, struct transport *t, const struct origin *origin)
{
    take_transport(container_of(l, struct server, listeners), t, origin, NULL);
}

// The program that started this daemon with --adopt has ended; there is nobody else to serve.
static void on_orphaned(struct listeners *l)
{
    log_debug("the program that this daemon belongs to has ended");
    server_stop(container_of(l, struct server, listeners));
}

// ---- what connects the parts --------------------------------------------------------------------

static void server_check_drained(struct server *s);
static void on_reloaded(struct reload *r);

static void on_less_to_answer(struct connections *all)
{
    struct server *s = container_of(all, struct server, connections);
    server_check_retired(s);
    server_check_drained(s);
}

static void on_less_arrivals(struct arrivals *all)
{
    server_check_retired(container_of(all, struct server, arrivals));
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

// What parts keep of the options that can change.
static void copy_options(struct server *s)
{
    const struct options *o = s->options;
    s->runner_options.plugin_dir = o->plugin_dir ? o->plugin_dir : PLUGIN_DIR;
    s->runner_options.load_timeout_ms = o->load_timeout_ms;
    s->runner_options.job_timeout_ms = o->job_timeout_ms;
    s->jobs.hold_limit_ms = o->hold_timeout_ms;
    s->jobs.slice_us = o->slice_us;
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
    copy_options(s);
    buffer_totals_init(&s->counters.buffers, MOST_IDLE, UINT64_MAX);
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
    listeners_init(&s->listeners, s->loop);
    s->listeners.take = on_connected;
    s->listeners.take_transport = on_transport;
    s->listeners.orphaned = on_orphaned;
    s->listeners.socket_group = s->options->socket_group;
    s->listeners.groups = s->groups;
    s->listeners.n_groups = ORIGIN_SOCKET_GROUP + 1;
    s->listeners.insecure = s->options->insecure;
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
    s->arrivals = (struct arrivals){.listeners = &s->listeners,
                                    .users = &s->users,
                                    .identities = &s->identities,
                                    .take = take_known,
                                    .less = on_less_arrivals};
    list_init(&s->arrivals.all);
    s->contexts = (struct contexts){.options = s->options,
                                    .scheduler = &s->jobs.scheduler,
                                    .timer = &s->jobs.timer,
                                    .sram = &s->sram,
                                    .metrics = &s->metrics};
    list_init(&s->sessions.all);
    list_init(&s->users.all);
    list_init(&s->contexts.all);
}

// Of the rules of rights.
static void copy_groups(struct server *s)
{
    const struct rights *rights = &s->options->rights;
    memcpy(s->groups, rights->groups, sizeof rights->groups);
    for (uint32_t i = rights->n; i < ORIGIN_SOCKET_GROUP; i++)
        s->groups[i] = (gid_t)-1;
}

// Those that matter: of the rules of rights, and of the sockets.
static void find_groups(struct server *s)
{
    const struct options *o = s->options;
    const struct group *group = o->socket_group ? getgrnam(o->socket_group) : NULL;
    copy_groups(s);
    s->groups[ORIGIN_SOCKET_GROUP] = group ? group->gr_gid : (gid_t)-1;
}

// Cannot fail: after this, server_stop() can close everything, however far the start gets.
static void init_parts(struct server *s, uv_loop_t *loop, struct options *options)
{
    *s = (struct server){.loop = loop, .options = options};
    accounts_init(&s->accounts);
    find_groups(s);
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
    s->reload = (struct reload){.now = options, .here = &s->addresses, .done = on_reloaded};
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

// ---- another configuration ----------------------------------------------------------------------

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
    copy_options(s);
    copy_groups(s);
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
        r->listeners.take_transport = on_transport;
        r->listeners.socket_group = s->options->socket_group;
    }
    reload_begin(r, s->loop);
}

// ---- ending -------------------------------------------------------------------------------------

// Neither jobs, nor requests without an answer, nor answers that are not sent yet.
static bool is_drained(const struct server *s)
{
    const struct connection *c;
    const struct scheduler *jobs = &s->jobs.scheduler;
    if (jobs->n_waiting + jobs->n_running + jobs->n_suspended > 0)
        return false;
    list_for_each (c, &s->connections.all, link)
        if (c->requests.n > 0 || channel_backlog(&c->channel) > 0)
            return false;
    return true;
}

// The server stops from the loop, because this is called from inside of what is to be stopped.
static void server_check_drained(struct server *s)
{
    if (s->state == SERVER_DRAINING && is_drained(s))
        uv_timer_start(&s->drain, on_stop_soon, 0, 0);
}

// Who has not come to the end of its TLS handshake cannot be told, nor waited for.
static void part_from_all(struct server *s)
{
    static const char reason[] = "the server is shutting down";
    struct connection *c, *after;
    list_for_each_safe (c, after, &s->connections.all, link)
        if (connection_is_unknown(c))
            connection_close(c, reason);
        else
            connection_say_goodbye(c, reason);
}

void server_drain(struct server *s)
{
    if (s->state == SERVER_STARTING)
        server_stop(s);
    if (s->state != SERVER_SERVING && s->state != SERVER_RETIRING)
        return;
    struct error why;
    log_info("shutting down: %u jobs to finish",
             s->jobs.scheduler.n_waiting + s->jobs.scheduler.n_running);
    s->state = SERVER_DRAINING;
    s->services.serving = false;
    error_set(&why, STATUS_DEVICE_UNAVAILABLE, "the server is shutting down");
    logbook_dismiss(&s->logbook, &why);
    upgrade_close(&s->upgrade);
    manager_tell(&s->notify.manager, "STOPPING=1\nSTATUS=Finishing what runs");
    announce_close(&s->announce);
    listeners_close(&s->listeners);
    arrivals_dismiss(&s->arrivals, "the server is shutting down");
    part_from_all(s);
    uv_timer_start(&s->drain, on_stop_soon, s->options->drain_timeout_ms, 0);
    server_check_drained(s);
}

// Jobs that the device still has are forgotten, which frees contexts that waited for them.
static void kill_jobs(struct server *s)
{
    struct context *x, *next_x;
    list_for_each_safe (x, next_x, &s->contexts.all, link_all) {
        jobs_kill(x);
        context_check_idle(x);
    }
}

// From the outside in: no new connections, then the connections with all that hangs on them, then
// what was still running, then the parts that are now unused.
void server_stop(struct server *s)
{
    struct connection *c;
    if (s->state == SERVER_STOPPED)
        return;
    s->state = SERVER_STOPPED;
    announce_close(&s->announce);
    upgrade_close(&s->upgrade);
    succession_close(&s->succession);
    reload_close(&s->reload);
    listeners_close(&s->listeners);
    arrivals_dismiss(&s->arrivals, "the server stops");
    identities_stop(&s->identities);
    while ((c = list_first(&s->connections.all, struct connection, link)))
        connection_close(c, "the server stops");
    server_close_sweep(s);
    givebacks_hurry(&s->givebacks);
    connections_close(&s->connections);
    tls_door_close(&s->tls);
    listeners_close_carriers(&s->listeners);
    kill_jobs(s);
    runner_cancel_all(&s->runner_options);
    describes_stop(&s->describes);
    shelf_pins_close(&s->pins);
    stored_list_close(&s->stored_list);
    shelf_stop(&s->shelf);
    imports_stop(&s->imports);
    creations_stop(&s->creations);
    http_close(&s->http);
    metrics_share_close(&s->metrics_share);
    readings_close(&s->readings);
    logbook_close(&s->logbook);
    uploads_close(&s->uploads);
    store_close(&s->store);
    givebacks_close(&s->givebacks);
    notify_close(&s->notify);
    uv_close((uv_handle_t *)&s->drain, NULL);
    stats_close(&s->stats);
    uv_close((uv_handle_t *)&s->jobs.timer.timer, NULL);
    uv_close((uv_handle_t *)&s->jobs.holds.timer, NULL);
    turns_close(&s->turns);
}

// If a reference was leaked, it shows here.
void server_done(struct server *s)
{
    assert(s->state == SERVER_STOPPED && s->contexts.n == 0 && s->sessions.n == 0);
    assert(list_empty(&s->users.all));
    identities_done(&s->identities);
    npu_buffers_close(&s->memories.buffers);
    tls_context_free(s->tls.context);
    trace_done(&s->trace);
    metrics_done(&s->metrics);
}
