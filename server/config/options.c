// Options: one table for the command line, the configuration file and the help text.
//
// To add an option: a field in struct options, its default in options_init(), and a row here; the
// manual page is rknnd(8). The command line wins over the file, since it is read second.
#include "server/config/options.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file/trust.h"
#include "base/log.h"
#include "base/net/uri.h"
#include "base/options/number.h"
#include "base/options/option_table.h"
#include "base/who.h"
#include "npu/buffer/buffer.h"
#include "server/listen/listen_schemes.h"
#include "server/shelf/shelf_names.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define HELP_COLUMN 34
#define CONFIG_MAX  (1u << 20) // bytes of a configuration file

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

// Each --listen adds an address.
static int add_listen(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    if (o->n_listen == OPTIONS_MAX_LISTEN)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d addresses to listen on",
                         OPTIONS_MAX_LISTEN);
    for (uint32_t i = 0; i < o->n_listen; i++)
        if (strcmp(o->listen[i], value) == 0)
            return error_set(e, STATUS_PARAM_INVALID, "%s is there already: leave one of the two",
                             value);
    int r = set_text(&o->listen[o->n_listen], value, e);
    if (r == 0)
        o->n_listen++;
    return r;
}

// NAME or NAME@VERSION. Whether there is such a model may change at any time.
static int add_preload(void *options, const char *value, struct error *e)
{
    struct options *o = options;
    size_t n = strcspn(value, "@");
    cleanup(free_p) char *name = strndup(value, n);
    if (!name)
        return error_no_memory(e, "an option", n);
    if (o->n_preload == OPTIONS_MAX_PRELOAD)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d models to be preloaded",
                         OPTIONS_MAX_PRELOAD);
    int r = shelf_check_name(name, e);
    if (r == 0 && value[n])
        r = shelf_check_version(value + n + 1, e);
    if (r == 0)
        r = set_text(&o->preload[o->n_preload], value, e);
    if (r == 0)
        o->n_preload++;
    return r;
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

// n_quotas: there is none.
static uint32_t find_quota(const struct options *o, const char *user)
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
    if (r == 0 && find_quota(o, quota->user) < o->n_quotas)
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

struct rows {
    struct option_row rows[OPTION_TABLE_MAX_ROWS];
    size_t n;
};

static void add_rows(struct rows *r, const struct option_row *rows, size_t n)
{
    memcpy(r->rows + r->n, rows, n * sizeof *rows);
    r->n += n;
}

#define ADD_ROWS(r, ...)                                                                           \
    do {                                                                                           \
        const struct option_row rows_[] = {__VA_ARGS__};                                           \
        add_rows(r, rows_, sizeof rows_ / sizeof *rows_);                                          \
    } while (0)

// clang-format off
// Where, what and for whom.
static void list_service(struct options *o, struct rows *r)
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

static void list_limits(struct options *o, struct rows *r)
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
         "loaded models' memory, beyond which those without contexts go (default: 0, no limit)", 0, TIB, NULL},
        {0, "model-cache", OPTION_BYTES, &o->model_cache, "BYTES",
         "model files kept while nobody uses them", 0, TIB, NULL});
}

static void list_times(struct options *o, struct rows *r)
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
static void list_rest(struct options *o, struct rows *r)
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

// What the file may say; the command line has some more.
static void list_options(struct options *o, struct rows *r)
{
    r->n = 0;
    list_service(o, r);
    list_limits(o, r);
    list_times(o, r);
    list_rest(o, r);
}

// ---- life ---------------------------------------------------------------------------------------

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

static void forget_listen(struct options *o)
{
    while (o->n_listen > 0)
        free(steal_ptr(o->listen[--o->n_listen]));
}

static void forget_preload(struct options *o)
{
    while (o->n_preload > 0)
        free(steal_ptr(o->preload[--o->n_preload]));
}

// What the command line says of somebody, or of some limit, takes the place of what the files say
// of it.
static void forget_given(struct options *o, const struct options *given)
{
    for (uint32_t i = 0, at; i < given->n_quotas; i++)
        if ((at = find_quota(o, given->quotas[i].user)) < o->n_quotas)
            o->quotas[at] = o->quotas[--o->n_quotas];
    for (uint32_t i = 0; i < given->rights.n; i++)
        rights_remove(&o->rights, given->rights.rules[i].who);
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++) {
        o->limits.of[i] = given->limits.of[i] ? 0 : o->limits.of[i];
        o->program_limits.of[i] = given->program_limits.of[i] ? 0 : o->program_limits.of[i];
    }
    if (given->n_preload > 0)
        forget_preload(o);
    if (given->n_listen > 0)
        forget_listen(o);
}

void options_done(struct options *o)
{
    forget_listen(o);
    forget_preload(o);
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

// ---- the configuration file ---------------------------------------------------------------------

// For lines of the configuration file, and for tests.
int options_set(struct options *o, const char *name, const char *value, struct error *e)
{
    struct rows r;
    list_options(o, &r);
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
    struct rows is, was;
    size_t n = 0;
    options_init(&usual);
    list_options(&now, &is);
    list_options(&usual, &was);
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

// In place: returns the first character that is no space, and cuts spaces at the end.
static char *options_trim(char *text)
{
    static const char space[] = " \t\r\n";
    text += strspn(text, space);
    size_t n = strlen(text);
    while (n > 0 && strchr(space, text[n - 1]))
        text[--n] = 0;
    return text;
}

// Where each row's option stands in the file, 0: nowhere.
struct file_lines {
    int of[OPTION_TABLE_MAX_ROWS];
};

// What is there twice would count as one of the two, and whoever reads the file may look at the
// other one.
static int set_once(struct options *o, const char *name, const char *value, int line,
                    struct file_lines *lines, struct error *e)
{
    struct rows r;
    list_options(o, &r);
    const struct option_table t = {.rows = r.rows, .n_rows = r.n};
    int i = option_table_find(&t, name);
    if (i >= 0 && r.rows[i].kind != OPTION_LIST && lines->of[i])
        return error_set(e, STATUS_PARAM_INVALID, "%s is on line %d already: leave one of the two",
                         name, lines->of[i]);
    if (i >= 0)
        lines->of[i] = line;
    return options_set(o, name, value, e);
}

// One line of the file, which it changes: `name = value`, a comment, or empty.
static int read_line(struct options *o, char *line, int n, struct file_lines *lines,
                     struct error *e)
{
    line = options_trim(line);
    if (!*line || *line == '#')
        return 0;
    char *value = strchr(line, '=');
    if (!value)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not of the form name = value", line);
    *value++ = 0;
    value = options_trim(value);
    for (const char *at = value; (at = strchr(at, '#')); at++)
        if (at > value && (at[-1] == ' ' || at[-1] == '\t'))
            return error_set(e, STATUS_PARAM_INVALID,
                             "\"%s\" would be a part of the value: a comment has a line of its own",
                             at);
    return set_once(o, options_trim(line), value, n, lines, e);
}

// What some editors put in front of a text.
static char *skip_mark(char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : text;
}

// A pipe is refused, not waited for: the file is read again while the daemon runs, and nothing ends
// a thread that opens one. A file of no bytes is what is there while an editor writes it, and
// behind a full disk or a lost supply.
static int options_open_file(const char *path, FILE **ret, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (S_ISFIFO(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is a pipe, which cannot be read again at a reload: give a file", path);
    if (S_ISREG(st.st_mode) && st.st_size == 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is empty: where nothing is to be set, leave a comment (#) in it, or "
                         "name /dev/null",
                         path);
    *ret = fdopen(fd, "r");
    if (!*ret)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    steal_fd(&fd);
    return 0;
}

// A file that is not text is what is left when power was lost, or was never a configuration.
static int read_text(const char *path, char **ret, struct error *e)
{
    cleanup(fclose_p) FILE *file = NULL;
    int r = options_open_file(path, &file, e);
    if (r < 0)
        return r;
    cleanup(free_p) char *text = malloc(CONFIG_MAX + 1);
    if (!text)
        return error_no_memory(e, "the configuration", CONFIG_MAX);
    size_t n = fread(text, 1, CONFIG_MAX + 1, file);
    if (ferror(file))
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (n > CONFIG_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "%s is larger than %u bytes", path, CONFIG_MAX);
    text[n] = 0;
    if (strlen(text) != n)
        return error_set(e, STATUS_PARAM_INVALID, "%s is not text: byte %zu is 0", path,
                         strlen(text));
    *ret = steal_ptr(text);
    return 0;
}

// Reads one configuration file: lines `name = value` with the names of the long options, `#` starts
// a comment line. Errors name file and line.
static int options_read_file(struct options *o, const char *path, struct error *e)
{
    cleanup(free_p) char *text = NULL;
    struct file_lines lines = {0};
    int r = read_text(path, &text, e);
    if (r < 0)
        return r;
    char *rest = skip_mark(text), *line;
    for (int n = 1; (line = strsep(&rest, "\n")); n++)
        if (read_line(o, line, n, &lines, e) < 0)
            return error_prefix(e, "%s:%d", path, n);
    return 0;
}

// ---- the command line ---------------------------------------------------------------------------

static int print_help(void *table, const char *text, struct error *e)
{
    char forms[URI_FORMS_SIZE];
    (void)text, (void)e;
    listen_forms(forms);
    printf("Usage: rknnd [OPTION]...\n"
           "Serves Rockchip NPUs, or a software NPU, to programs that use the RKNN C API.\n\n");
    option_table_print(table, HELP_COLUMN);
    printf("\nURI is %s.\n"
           "BYTES may end in K, M or G. Without --listen: unix:/run/rknnd/rknnd.sock (root), else\n"
           "unix:$XDG_RUNTIME_DIR/rknnd.sock. Manual: rknnd(8).\n",
           forms);
    return OPTION_TABLE_END;
}

static int print_version(void *unused, const char *text, struct error *e)
{
    (void)unused, (void)text, (void)e;
    printf("rknnd " RKNND_VERSION "\n");
    return OPTION_TABLE_END;
}

static int read_config(void *options, const char *path, struct error *e)
{
    if (!options)
        return 0;
    int r = trust_check(path, e);
    return r < 0 ? r : options_read_file(options, path, e);
}

// Goes over the command line once, into `o`. Files that it names go into `from_files` (NULL: they
// have been read).
static int options_walk(struct options *o, struct options *from_files, int argc, char **argv,
                        struct error *e)
{
    struct rows rows;
    struct option_table table = {.rows = rows.rows};
    int first;
    list_options(o, &rows);
    ADD_ROWS(&rows,
             {0, "config", OPTION_CALL, from_files, "FILE",
              "lines `name = value` with the names above (rknnd.conf(5)); SIGHUP reads it again", 0,
              0, read_config},
             {0, "check-config", OPTION_FLAG, &o->check_config, NULL,
              "say whether all of this is good, and end", 0, 0, NULL},
             {0, "version", OPTION_CALL, NULL, NULL, "print the version", 0, 0, print_version},
             {0, "help", OPTION_CALL, &table, NULL, "print this", 0, 0, print_help});
    table.n_rows = rows.n;
    int r = option_table_parse(&table, argc, argv, &first, e);
    if (r == 0 && first < argc)
        r = error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not an option (see --help)", argv[first]);
    return r;
}

// The command line wins over the files that it names, wherever it does: it is parsed twice.
static int options_read(struct options *o, int argc, char **argv, struct error *e)
{
    cleanup(options_done) struct options given;
    options_init(&given);
    int r = options_walk(&given, o, argc, argv, e);
    if (r)
        return r;
    forget_given(o, &given);
    return options_walk(o, NULL, argc, argv, e);
}

// A quota for a user who does not exist would limit nobody, and is most likely a mistake.
static int check_quotas(struct options *o, struct error *e)
{
    for (uint32_t i = 0; i < o->n_quotas; i++) {
        struct quota *q = &o->quotas[i];
        const char *user = q->user;
        bool kind = strcmp(user, "*") == 0 || origin_is_kind(user);
        q->is_local = !kind && who_find(user, &q->uid) == 0;
        if (!kind && !q->is_local)
            return error_set(e, STATUS_PARAM_INVALID,
                             "quota: there is no user \"%s\" (a name or number of this system, "
                             "tls/ and an identity, tls for all of these, tcp for the rest of the "
                             "network, usb for the cable, * for everyone)",
                             user);
    }
    return 0;
}

// socket-group is for Unix sockets that are made here; whoever made the others chose their group.
// Without --listen the default is a Unix socket.
static int check_group(const struct options *o, struct error *e)
{
    const struct uri_scheme *const unix_sockets[] = {&uri_unix};
    struct uri uri;
    bool used = o->n_listen == 0;
    if (!o->socket_group)
        return 0;
    if (!getgrnam(o->socket_group))
        return error_set(e, STATUS_PARAM_INVALID, "socket-group: there is no group \"%s\"",
                         o->socket_group);
    for (uint32_t i = 0; i < o->n_listen; i++)
        used = used || uri_parse(o->listen[i], unix_sockets, 1, &uri, NULL) == 0;
    return used && o->adopt_fd < 0
               ? 0
               : error_set(e, STATUS_PARAM_INVALID,
                           "socket-group %s is for Unix sockets, and there is none to listen on",
                           o->socket_group);
}

// What concerns several options together comes last.
int options_parse(struct options *o, int argc, char **argv, struct error *e)
{
    int r = options_read(o, argc, argv, e);
    o->argc = argc;
    o->argv = argv;
    if (r == 0 && !o->backend)
        r = set_backend(o, "sim", e);
    if (r == 0 && o->relay && o->announce)
        r = error_set(e, STATUS_PARAM_INVALID, "a relay is for this machine: it has no --announce");
    if (r == 0 && o->relay && o->http)
        r = error_set(e, STATUS_PARAM_INVALID, "a relay runs nothing: it has no --http");
    if (r == 0)
        r = check_quotas(o, e);
    if (r == 0)
        r = check_group(o, e);
    if (r == 0 && o->peer_timeout_ms < 2 * o->heartbeat_ms)
        r = error_set(e, STATUS_PARAM_INVALID,
                      "peer-timeout-ms (%u) must be at least twice heartbeat-ms (%u)",
                      o->peer_timeout_ms, o->heartbeat_ms);
    return r;
}

bool options_default_log_level(void)
{
    log_set_level(LOG_INFO);
    return log_set_level_text(getenv("RKNN_SERVER_LOGLEVEL"));
}

int options_parse_again(const struct options *o, struct options *ret, struct error *e)
{
    options_init(ret);
    options_default_log_level();
    return options_parse(ret, o->argc, o->argv, e);
}
