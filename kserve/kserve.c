// rknnd-kserve: the Open Inference Protocol (KServe v2) over HTTP, for models that an rknnd runs.
//
//     HTTP ──► front ──► pages ──► infer ──► job ──(librknnrt.so)──► rknnd
//                          └─────► repository ──► catalog (where models are)
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rknnd.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/net/manager.h"
#include "base/options/option_table.h"
#include "base/process/stack.h"
#include "kserve/http/agent.h"
#include "kserve/http/front.h"
#include "kserve/http/listening.h"
#include "kserve/model/pulse.h"
#include "kserve/model/repository.h"

#define MB(n)           ((uint64_t)(n) << 20)
#define DEFAULT_ADDRESS "tcp:127.0.0.1:8000"
#define END_PATIENCE_S  30
#define EXIT_WRONG_USE  2
#define HELP_COLUMN     24
#define LARGE_PIECE     (1 << 20) // bytes

struct program {
    const char *server, *models, *agent_address;
    bool store;
    struct uri listen[FRONT_MAX_SOCKETS], agent_uri;
    struct unix_file files[FRONT_MAX_SOCKETS], agent_file; // of Unix sockets
    unsigned n_listen;
    bool is_explicit, insecure;
    struct manager manager;
    uint32_t drain_s;
    struct served_options served;
    struct front_limits limits;
    struct model_source sources[2];
    unsigned n_sources;
    struct site site;
    struct pulse *pulse;
    struct front *front;
    struct agent *agent;
};

// ---- options ------------------------------------------------------------------------------------

static int add_address(void *target, const char *text, struct error *e)
{
    struct program *p = target;
    if (p->n_listen == FRONT_MAX_SOCKETS)
        return error_set(e, STATUS_PARAM_INVALID, "no more than %d addresses", FRONT_MAX_SOCKETS);
    int r = listening_parse(text, &p->listen[p->n_listen], e);
    p->n_listen += r == 0;
    return r;
}

static int show_version(void *target, const char *text, struct error *e)
{
    (void)target, (void)text, (void)e;
    printf("rknnd-kserve %s\n", RKNND_VERSION);
    return OPTION_TABLE_END;
}

static int show_help(void *target, const char *text, struct error *e)
{
    (void)text, (void)e;
    printf(
        "usage: rknnd-kserve [--models FOLDER] [--store] [option]...\n"
        "Serves models by the Open Inference Protocol (KServe v2) over HTTP: rknnd-kserve(8).\n\n");
    option_table_print(*(const struct option_table **)target, HELP_COLUMN);
    return OPTION_TABLE_END;
}

static int parse_program(struct program *p, int argc, char **argv, struct error *e)
{
    const struct option_table *self;
    const struct option_row rows[] = {
        {'m', "models", OPTION_TEXT, &p->models, "FOLDER", "where the models are", 0, 0, NULL},
        {0, "store", OPTION_FLAG, &p->store, NULL,
         "serve the models that the daemon keeps by name, too", 0, 0, NULL},
        {'l', "listen", OPTION_CALL, p, "URI",
         "unix:PATH or tcp:HOST:PORT; may come several times (" DEFAULT_ADDRESS ")", 0, 0,
         add_address},
        {'s', "server", OPTION_TEXT, &p->server, "URI", "the rknnd to use (as RKNND_SERVER)", 0, 0,
         NULL},
        {0, "explicit", OPTION_FLAG, &p->is_explicit, NULL,
         "load no model before somebody asks for that", 0, 0, NULL},
        {0, "contexts", OPTION_NUMBER, &p->served.lanes, "N",
         "runs of a model at once (16; of one that batches 2)", 1, 64, NULL},
        {0, "max-batch", OPTION_NUMBER, &p->served.max_batch, "N",
         "samples of a request for a model without a batch dimension (64)", 1, 65536, NULL},
        {0, "batch-delay", OPTION_NUMBER, &p->served.delay_us, "US",
         "microseconds that a request waits for others to be run with (a quarter of a run)", 0,
         10000000, NULL},
        {0, "run-limit", OPTION_NUMBER, &p->served.run_ms, "MS",
         "milliseconds after which a run is given up (0: never)", 0, UINT32_MAX, NULL},
        {0, "max-body", OPTION_BYTES, &p->limits.body, "BYTES", "of a request (64M)", 1024,
         MB(4096) - 1, NULL},
        {0, "memory", OPTION_BYTES, &p->limits.memory, "BYTES",
         "of all requests and answers that are there at once (512M)", MB(1), MB(1) << 20, NULL},
        {0, "connections", OPTION_NUMBER, &p->limits.connections, "N", "at once (256)", 1, 16384,
         NULL},
        {0, "request-timeout", OPTION_NUMBER, &p->limits.request_s, "S",
         "seconds for a request to come, or an answer to be taken (60)", 1, 86400, NULL},
        {0, "drain", OPTION_NUMBER, &p->drain_s, "S",
         "seconds between no longer being ready and the end (0)", 0, 3600, NULL},
        {0, "agent", OPTION_TEXT, &p->agent_address, "URI",
         "tell a load balancer there how much is free", 0, 0, NULL},
        {0, "insecure", OPTION_FLAG, &p->insecure, NULL,
         "allow addresses that other machines can reach", 0, 0, NULL},
        {0, "log-level", OPTION_LOG_LEVEL, NULL, "LEVEL", LOG_LEVELS, 0, 0, NULL},
        {'h', "help", OPTION_CALL, &self, NULL, "this", 0, 0, show_help},
        {'V', "version", OPTION_CALL, NULL, NULL, "the version", 0, 0, show_version},
    };
    const struct option_table table = {.rows = rows, .n_rows = sizeof rows / sizeof *rows};
    int first;
    self = &table;
    int r = option_table_parse(&table, argc, argv, &first, e);
    if (r != 0)
        return r;
    if (first < argc)
        return error_set(e, STATUS_PARAM_INVALID, "%s is no option", argv[first]);
    if (!p->models && !p->store)
        return error_set(e, STATUS_PARAM_INVALID, "--models FOLDER is missing, or --store");
    return p->n_listen ? 0 : add_address(p, DEFAULT_ADDRESS, e);
}

// ---- life ---------------------------------------------------------------------------------------

// False: for want of the daemon, so that it is to be done again.
static bool load_models(void *user)
{
    struct program *p = user;
    struct error e;
    int r = p->is_explicit ? repository_look(p->site.models, &e)
                           : repository_load(p->site.models, NULL, &e);
    if (r < 0)
        log_error("%s", e.text);
    return r != STATUS_DEVICE_UNAVAILABLE;
}

static int start_agent(struct program *p, struct error *e)
{
    if (!p->agent_address)
        return 0;
    int r = listening_parse(p->agent_address, &p->agent_uri, e);
    if (r < 0)
        return r;
    int socket = listening_open(&p->agent_uri, p->insecure, &p->agent_file, e);
    return socket < 0 ? socket : agent_start(socket, p->pulse, &p->agent, e);
}

static int start_front(struct program *p, struct error *e)
{
    int sockets[FRONT_MAX_SOCKETS];
    for (unsigned i = 0; i < p->n_listen; i++) {
        sockets[i] = listening_open(&p->listen[i], p->insecure, &p->files[i], e);
        if (sockets[i] < 0)
            return sockets[i];
    }
    return front_start(&p->site, &p->limits, sockets, p->n_listen, &p->front, e);
}

static int program_start(struct program *p, struct error *e)
{
    if (p->models && access(p->models, R_OK | X_OK) < 0)
        return error_set(e, STATUS_PARAM_INVALID, "--models %s: no folder that can be read",
                         p->models);
    if (rknnd_set_server(p->server) < 0)
        return error_set(e, STATUS_PARAM_INVALID, "%s", rknnd_last_error());
    if (p->models)
        p->sources[p->n_sources++] =
            (struct model_source){.place = p->models, .list = catalog_list_folder};
    if (p->store)
        p->sources[p->n_sources++] = (struct model_source){.list = catalog_list_store};
    p->site.models = repository_new(p->sources, p->n_sources, &p->served);
    if (!p->site.models)
        return error_no_memory(e, "models", 0);
    p->pulse = pulse_start(load_models, p, e);
    if (!p->pulse)
        return e->code;
    p->site.pulse = p->pulse;
    int r = start_agent(p, e);
    return r < 0 ? r : start_front(p, e);
}

static void program_stop(struct program *p)
{
    unix_file_remove(&p->agent_file, p->agent_uri.text);
    for (unsigned i = 0; i < p->n_listen; i++)
        unix_file_remove(&p->files[i], p->listen[i].text);
    if (p->front)
        front_stop(p->front, END_PATIENCE_S);
    agent_stop(p->agent);
    if (p->pulse && pulse_stop(p->pulse))
        repository_free(p->site.models);
}

// Until it is to end. SIGHUP: the folder has changed.
static void program_serve(struct program *p, const sigset_t *signals)
{
    int got = 0;
    struct timespec drain = {.tv_sec = (time_t)p->drain_s};
    manager_tell(&p->manager, "READY=1");
    while (sigwait(signals, &got) == 0 && got == SIGHUP) {
        manager_tell_reloading(&p->manager);
        if (!load_models(p))
            pulse_load_again(p->pulse);
        manager_tell(&p->manager, "READY=1");
    }
    manager_tell(&p->manager, "STOPPING=1");
    pulse_end_service(p->pulse);
    if (p->drain_s)
        sigtimedwait(signals, NULL, &drain); // another signal ends the wait
}

// What is large goes back when it is freed: else each arena keeps as much as it ever had, beside
// what --memory says.
static void give_back_early(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_PIECE);
    mallopt(M_TRIM_THRESHOLD, 2 * LARGE_PIECE);
}

// A connection has one, and so has each large input of each context.
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    static struct program p = {
        .served = {.max_batch = 64, .delay_us = SERVED_DELAY_BY_RUNS, .max_tensor = MB(256)},
        .limits = {.connections = 256, .request_s = 60, .body = MB(64), .memory = MB(512)},
    };
    struct error e;
    sigset_t signals;
    fd_keep_standard();
    log_set_level(LOG_INFO);
    rknnd_print_failures(0);
    int r = stack_ensure(&e);
    if (r == 0)
        r = parse_program(&p, argc, argv, &e);
    if (r > 0)
        return EXIT_SUCCESS;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a file beyond ulimit -f, LimitFSIZE=: the call fails
    allow_descriptors();
    give_back_early();
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); // of all threads: program_serve() waits for them
    if (r == 0)
        r = manager_find(&p.manager, &e);
    if (r == 0)
        r = program_start(&p, &e);
    if (r < 0)
        log_error("%s", e.text);
    else
        program_serve(&p, &signals);
    program_stop(&p);
    return r == 0 ? EXIT_SUCCESS : r == STATUS_PARAM_INVALID ? EXIT_WRONG_USE : EXIT_FAILURE;
}
