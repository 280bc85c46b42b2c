// Options: one table for the command line, the configuration file and the help text.
//
// To add an option: a field in struct options, its default in options_init(), and a row here; the
// manual page is rknnd(8).
#include "server/config/options_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/options/number.h"
#include "npu/buffer/buffer.h"
#include "server/shelf/shelf_names.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

// ---- values -------------------------------------------------------------------------------------

// Replaces a text that the options own.
static int set_text(void *field, const char *text, struct error *e)
{
    char *copy = strdup(text);
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    free(*(char **)field);
    *(char **)field = copy;
    return 0;
}

// Of an option that may be repeated: one more. `what`: its values, for words. `once`: none is said
// twice.
static int add_text(char **values, uint32_t *n, uint32_t most, const char *what, bool once,
                    const char *value, struct error *e)
{
    if (*n == most)
        return error_set(e, STATUS_PARAM_INVALID, "at most %u %s", most, what);
    for (uint32_t i = 0; i < *n && once; i++)
        if (strcmp(values[i], value) == 0)
            return error_set(e, STATUS_PARAM_INVALID, "%s is there already: leave one of the two",
                             value);
    int r = set_text(&values[*n], value, e);
    if (r == 0)
        ++*n;
    return r;
}

// Each --listen adds an address.
static int add_listen(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    return add_text(o->listen, &o->n_listen, OPTIONS_MAX_LISTEN, "addresses to listen on", true,
                    value, e);
}

// NAME or NAME@VERSION. Whether there is such a model may change at any time.
static int add_preload(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    size_t n = strcspn(value, "@");
    cleanup(free_p) char *name = strndup(value, n);
    if (!name)
        return error_no_memory(e, "an option", n);
    int r = shelf_check_name(name, e);
    if (r == 0 && value[n])
        r = shelf_check_version(value + n + 1, e);
    return r < 0 ? r
                 : add_text(o->preload, &o->n_preload, OPTIONS_MAX_PRELOAD,
                            "models to be preloaded", false, value, e);
}

// "NAME:OPTIONS": the options are the backend's business and are not looked at.
static int set_backend(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    size_t n = strcspn(value, ":");
    cleanup(free_p) char *name = strndup(value, n);
    if (!name)
        return error_no_memory(e, "an option", n);
    if (n == 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" names no backend", value);
    int r = set_text(&o->backend_options, value[n] ? value + n + 1 : "", e);
    return r < 0 ? r : set_text(&o->backend, name, e);
}

// With thread there is no worker process, and a crash of a model's code ends the daemon.
static int set_isolation(void *threads, const char *value, struct error *e)
{
    bool is_thread = strcmp(value, "thread") == 0;
    if (!is_thread && strcmp(value, "process") != 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is neither process nor thread", value);
    *(bool *)threads = is_thread;
    return 0;
}

static int set_sandbox(void *field, const char *value, struct error *e)
{
    static const char *const words[] = {
        [SANDBOX_ON] = "on", [SANDBOX_OFF] = "off", [SANDBOX_REQUIRED] = "required"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            *(enum sandbox_mode *)field = (enum sandbox_mode)i;
            return 0;
        }
    }
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is neither on nor off nor required", value);
}

static int set_buffers(void *field, const char *value, struct error *e)
{
    int r = npu_buffers_check(value, e);
    return r < 0 ? r : set_text(field, value, e);
}

uint32_t options_find_quota(const struct options *o, const char *user)
{
    uint32_t i = 0;
    while (i < o->n_quotas && strcmp(o->quotas[i].user, user) != 0)
        i++;
    return i;
}

// May be repeated; who is meant is looked up when a user comes (user.c).
static int add_quota(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    if (o->n_quotas == OPTIONS_MAX_QUOTAS)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d quotas", OPTIONS_MAX_QUOTAS);
    struct quota *quota = &o->quotas[o->n_quotas];
    int r = quota_parse(value, quota, e);
    if (r == 0 && options_find_quota(o, quota->user) < o->n_quotas)
        r = error_set(e, STATUS_PARAM_INVALID, "%s has a quota already: give all of it in one",
                      quota->user);
    if (r == 0)
        o->n_quotas++;
    return r;
}

// Two totals are older than --limit, and have options of their own.
static int add_limits(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    struct account_amounts limits = o->limits;
    struct account_amounts programs = o->program_limits;
    int r = quota_parse_limits(value, &limits, &programs, e);
    if (r < 0)
        return r;
    if (limits.of[ACCOUNT_CONNECTIONS] || limits.of[ACCOUNT_STORAGE])
        return error_set(e, STATUS_PARAM_INVALID,
                         "connections are limited by max-connections, storage by max-models-size");
    o->limits = limits;
    o->program_limits = programs;
    return 0;
}

static int add_rights(void *rights, const char *value, struct error *e)
{
    return rights_add(rights, value, e);
}

// File descriptors are int64_t, so that -1 can mean none.
static int set_fd(void *field, const char *value, struct error *e)
{
    uint64_t n;
    int r = number_parse(value, 0, INT32_MAX, &n, e);
    if (r == 0)
        *(int64_t *)field = (int64_t)n;
    return r;
}

// ---- the table ----------------------------------------------------------------------------------

void options_add_rows(struct options_rows *r, const struct option_row *rows, size_t n)
{
    memcpy(r->rows + r->n, rows, n * sizeof *rows);
    r->n += n;
}

#define ADD_ROWS(r, ...)                                                                           \
    do {                                                                                           \
        const struct option_row rows_[] = {__VA_ARGS__};                                           \
        options_add_rows(r, rows_, sizeof rows_ / sizeof *rows_);                                  \
    } while (0)

// clang-format off
// Where, what and for whom.
static void list_service(struct options *o, struct options_rows *r)
{
    ADD_ROWS(r,
        {0, "listen", OPTION_LIST, o, "URI",
         "where clients connect; may be repeated", 0, 0, add_listen},
        {0, "relay", OPTION_CALL, &o->relay, "usb:[SERIAL]",
         "on a PC: let programs use the board at the USB cable, instead of serving models", 0, 0, set_text},
        {0, "http", OPTION_CALL, &o->http, "URI",
         "serve /metrics (Prometheus), /healthz and /readyz at unix:PATH or tcp:HOST:PORT", 0, 0, set_text},
        {0, "backend", OPTION_CALL, o, "NAME[:OPTIONS]",
         "what runs models (default: sim)", 0, 0, set_backend},
        {0, "isolation", OPTION_CALL, &o->threads, "process|thread",
         "where it runs them (default: process, one for each model)", 0, 0, set_isolation},
        {0, "sandbox", OPTION_CALL, &o->sandbox, "on|off|required",
         "what those processes may do (default: on, as the kernel has it)", 0, 0, set_sandbox},
        {0, "worker-user", OPTION_CALL, &o->worker_user, "USER",
         "whose those processes are, if rknnd is root's (default: nobody)", 0, 0, set_text},
        {0, "buffers", OPTION_CALL, &o->buffers, "KIND",
         "memory of rknn_create_mem: auto, drm[:NODE], dma_heap[:NAME], udmabuf or memfd", 0, 0, set_buffers},
        {0, "insecure", OPTION_FLAG, &o->insecure, NULL,
         "allow TCP without TLS from other machines", 0, 0, NULL},
        {0, "tls-psk-file", OPTION_CALL, &o->tls_psk_file, "FILE",
         "who may connect by TLS: a line IDENTITY:KEY each", 0, 0, set_text},
        {0, "tls-cert", OPTION_CALL, &o->tls_cert, "FILE",
         "certificate of this server, with its chain (PEM)", 0, 0, set_text},
        {0, "tls-key", OPTION_CALL, &o->tls_key, "FILE",
         "the certificate's key (PEM)", 0, 0, set_text},
        {0, "tls-ca", OPTION_CALL, &o->tls_ca, "FILE",
         "whose certificates of clients count (PEM)", 0, 0, set_text},
        {0, "tls-crl", OPTION_CALL, &o->tls_crl, "FILE",
         "which of them are revoked: lists of all these authorities (PEM)", 0, 0, set_text},
        {0, "announce", OPTION_FLAG, &o->announce, NULL,
         "tell the network where this server listens, through Avahi (rknnctl devices --network)", 0, 0, NULL},
        {0, "socket-group", OPTION_CALL, &o->socket_group, "GROUP",
         "group that may use the Unix sockets", 0, 0, set_text});
}

static void list_limits(struct options *o, struct options_rows *r)
{
    ADD_ROWS(r,
        {0, "max-connections", OPTION_NUMBER, &o->max_connections, "N",
         "connections at a time", 1, 1000000, NULL},
        {0, "max-contexts", OPTION_NUMBER, &o->max_contexts, "N",
         "contexts of one session", 1, 65536, NULL},
        {0, "max-memories", OPTION_NUMBER, &o->max_memories, "N",
         "memories (rknn_create_mem) of one session", 1, 65536, NULL},
        {0, "max-memory", OPTION_BYTES, &o->max_memory, "BYTES",
         "all memories of one session", 1, TIB, NULL},
        {0, "max-inflight", OPTION_NUMBER, &o->max_inflight, "N",
         "unanswered requests of one connection", 1, 4096, NULL},
        {0, "max-inflight-bytes", OPTION_BYTES, &o->max_inflight_bytes, "BYTES",
         "inputs and outputs in flight for one connection", 1, TIB, NULL},
        {0, "costly-percent", OPTION_NUMBER, &o->costly_percent, "N",
         "percent of the daemon's time for what costs much (lists, opening), of one connection", 1,
         100, NULL},
        {0, "max-payload", OPTION_BYTES, &o->max_payload, "BYTES",
         "all inputs of one request", MIB, 64 * GIB, NULL},
        {0, "max-model-size", OPTION_BYTES, &o->max_model_size, "BYTES",
         "one model file", 1, TIB, NULL},
        {0, "max-models-size", OPTION_BYTES, &o->max_models_size, "BYTES",
         "all model files together (default: 0, three quarters of the memory)", 0, TIB, NULL},
        {0, "model-store", OPTION_CALL, &o->model_store, "DIR",
         "where models are kept by name (rknnctl model; default: nowhere)", 0, 0, set_text},
        {0, "preload", OPTION_LIST, o, "NAME[@VERSION]",
         "a model of that store which is loaded at the start and stays so; may be repeated", 0, 0, add_preload},
        {0, "max-loaded-size", OPTION_BYTES, &o->max_loaded_size, "BYTES",
         "loaded models' memory, beyond which those without contexts go (default: 0, half of the memory)", 0, TIB, NULL},
        {0, "model-cache", OPTION_BYTES, &o->model_cache, "BYTES",
         "model files kept while nobody uses them", 0, TIB, NULL});
}

static void list_times(struct options *o, struct options_rows *r)
{
    ADD_ROWS(r,
        {0, "upload-ttl", OPTION_NUMBER, &o->upload_ttl_s, "SECONDS",
         "how long a broken upload can be resumed", 0, 86400, NULL},
        {0, "worker-idle", OPTION_NUMBER, &o->worker_idle_s, "SECONDS",
         "how long a model without contexts stays loaded", 0, 86400, NULL},
        {0, "heartbeat-ms", OPTION_NUMBER, &o->heartbeat_ms, "MS",
         "silence after which a peer is asked for a sign of life", 10, 3600000, NULL},
        {0, "peer-timeout-ms", OPTION_NUMBER, &o->peer_timeout_ms, "MS",
         "silence after which a peer is gone", 20, 86400000, NULL},
        {0, "job-timeout-ms", OPTION_NUMBER, &o->job_timeout_ms, "MS",
         "longest run of a model (default: 0, 30000 of an NPU, 600000 where software computes)", 0,
         86400000, NULL},
        {0, "hold-timeout-ms", OPTION_NUMBER, &o->hold_timeout_ms, "MS",
         "how long a run keeps its cores while it waits for its program (dumps, operators)", 0,
         86400000, NULL},
        {0, "slice-us", OPTION_NUMBER, &o->slice_us, "US",
         "how long a run goes on while one of a higher priority waits; 0: to its end", 0, 60000000,
         NULL},
        {0, "load-timeout-ms", OPTION_NUMBER, &o->load_timeout_ms, "MS",
         "longest loading of a model", 1, 86400000, NULL},
        {0, "drain-timeout-ms", OPTION_NUMBER, &o->drain_timeout_ms, "MS",
         "longest wait for running work at the end", 0, 86400000, NULL},
        {0, "retire-timeout", OPTION_NUMBER, &o->retire_timeout_s, "S",
         "how long programs may stay after an upgrade (SIGUSR2)", 0, 31536000, NULL});
}

// The last ones are for processes that rknnd starts itself.
static void list_rest(struct options *o, struct options_rows *r)
{
    ADD_ROWS(r,
        {0, "trace-events", OPTION_NUMBER, &o->trace_events, "N",
         "events that rknnctl trace can look back, of 64 bytes each", 0, 1 << 24, NULL},
        {0, "quota", OPTION_LIST, o, "USER:KEY=N,...",
         "limits of a user, of tcp or of * (everyone): contexts, in-flight, bytes, share and others; may be repeated", 0, 0, add_quota},
        {0, "limit", OPTION_LIST, o, "KEY=N,...",
         "how much there is in all for clients (rknnctl status --limits); may be repeated", 0, 0, add_limits},
        {0, "rights", OPTION_LIST, &o->rights, "WHO:RIGHT,...",
         "what a user, a @group, tcp, usb or * may do: run, see-own, see-all, kill, debug, push, none; may be repeated", 0, 0, add_rights},
        {0, "plugin-dir", OPTION_CALL, &o->plugin_dir, "DIR",
         "where plugins for custom operators lie (default: " PLUGIN_DIR ")", 0, 0, set_text},
        {0, "module-dir", OPTION_CALL, &o->module_dir, "DIR",
         "where the backends and rknnd-announce lie", 0, 0, set_text},
        {0, "sysfs", OPTION_CALL, &o->sysfs, "DIR",
         "where the kernel tells frequencies (default: /sys)", 0, 0, set_text},
        {0, "subuid", OPTION_CALL, &o->subuid, "FILE",
         "which users are others' (default: /etc/subuid)", 0, 0, set_text},
        {0, "log-level", OPTION_LOG_LEVEL, NULL, "LEVEL",
         LOG_LEVELS " (also: RKNN_SERVER_LOGLEVEL)", 0, 0, NULL},
        {0, "adopt", OPTION_CALL, &o->adopt_fd, "FD",
         "serve the sockets that arrive over FD; end with it", 0, 0, set_fd},
        {0, "takeover", OPTION_CALL, &o->takeover_fd, "FD",
         NULL, 0, 0, set_fd},
        {0, "worker", OPTION_CALL, &o->worker_fd, "FD",
         NULL, 0, 0, set_fd},
        {0, "guard", OPTION_CALL, &o->guard_fd, "FD",
         NULL, 0, 0, set_fd});
}
// clang-format on

void options_list(struct options *o, struct options_rows *r)
{
    r->n = 0;
    list_service(o, r);
    list_limits(o, r);
    list_times(o, r);
    list_rest(o, r);
}

// ---- by name ------------------------------------------------------------------------------------

int options_set(struct options *o, const char *name, const char *value, struct error *e)
{
    struct options_rows r;
    options_list(o, &r);
    return option_table_set(&(struct option_table){.rows = r.rows, .n_rows = r.n}, name, value, e);
}

static uint64_t number_of(const struct option_row *row)
{
    switch (row->kind) {
    case OPTION_FLAG:
        return *(const bool *)row->target;
    case OPTION_NUMBER:
        return *(const uint32_t *)row->target;
    case OPTION_BYTES:
        return *(const uint64_t *)row->target;
    default:
        return 0;
    }
}

// Rows lead into the options that they were listed for: the same ones, of copies that own nothing.
size_t options_list_numbers(const struct options *o, struct options_number ret[OPTIONS_MAX_NUMBERS])
{
    struct options now = *o, usual;
    struct options_rows is, was;
    size_t n = 0;
    options_init(&usual);
    options_list(&now, &is);
    options_list(&usual, &was);
    for (size_t i = 0; i < is.n && n < OPTIONS_MAX_NUMBERS; i++) {
        const struct option_row *row = &is.rows[i];
        if (row->kind == OPTION_FLAG || row->kind == OPTION_NUMBER || row->kind == OPTION_BYTES)
            ret[n++] = (struct options_number){.name = row->name,
                                               .bytes = row->kind == OPTION_BYTES,
                                               .value = number_of(row),
                                               .usual = number_of(&was.rows[i])};
    }
    return n;
}
