// Options: one table for the command line, the configuration file and the help text.
//
// To add an option: a field in struct options, and a row here that says its kind, range and
// default; the manual page is rknnd(8). The command line wins over the file, since it is read
// second.
#include "server/options.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/net/uri.h"
#include "npu/buffer/buffer.h"
#include "server/listen/listen_schemes.h"
#include "server/size.h"
#include "server/spelling.h"

// How an option's text becomes a value: set_row().
enum kind {
    KIND_LISTEN,
    KIND_TEXT,
    KIND_BACKEND,
    KIND_BUFFERS,
    KIND_ISOLATION,
    KIND_FLAG,
    KIND_U32,
    KIND_BYTES,
    KIND_FD,
    KIND_QUOTA,
    KIND_LOG_LEVEL
};

struct row {
    const char *name;
    enum kind kind;
    size_t at; // offset in struct options
    uint64_t min, max, initial;
    const char *argument, *help; // help NULL: internal, not shown
};

#define AT(field) offsetof(struct options, field)
#define MIB       (UINT64_C(1) << 20)
#define GIB       (UINT64_C(1) << 30)
#define TIB       (UINT64_C(1) << 40)

// clang-format off
static const struct row rows[] = {
    {"listen", KIND_LISTEN, 0, 0, 0, 0, "URI",
     "where clients connect; may be repeated: "},
    {"relay", KIND_TEXT, AT(relay), 0, 0, 0, "usb:[SERIAL]",
     "on a PC: let programs use the board at the USB cable, instead of serving models"},
    {"backend", KIND_BACKEND, 0, 0, 0, 0, "NAME[:OPTIONS]", "what runs models (default: sim)"},
    {"isolation", KIND_ISOLATION, 0, 0, 0, 0, "process|thread",
     "where it runs them (default: process, one for each model)"},
    {"buffers", KIND_BUFFERS, AT(buffers), 0, 0, 0, "KIND",
     "memory of rknn_create_mem: auto, drm[:NODE], dma_heap[:NAME], udmabuf or memfd"},
    {"insecure", KIND_FLAG, AT(insecure), 0, 0, 0, NULL,
     "allow TCP from other machines, without protection"},
    {"announce", KIND_FLAG, AT(announce), 0, 0, 0, NULL,
     "tell the network where this server listens, through Avahi (rknnctl devices --network)"},
    {"socket-group", KIND_TEXT, AT(socket_group), 0, 0, 0, "GROUP",
     "group that may use the Unix sockets"},
    {"max-connections", KIND_U32, AT(max_connections), 1, 1000000, 4096, "N",
     "connections at a time"},
    {"max-contexts", KIND_U32, AT(max_contexts), 1, 65536, 256, "N", "contexts of one session"},
    {"max-memories", KIND_U32, AT(max_memories), 1, 65536, 1024, "N",
     "memories (rknn_create_mem) of one session"},
    {"max-memory", KIND_BYTES, AT(max_memory), 1, TIB, 4 * GIB, "BYTES",
     "all memories of one session"},
    {"max-inflight", KIND_U32, AT(max_inflight), 1, 4096, 64, "N",
     "unanswered requests of one connection"},
    {"max-inflight-bytes", KIND_BYTES, AT(max_inflight_bytes), 1, TIB, 256 * MIB, "BYTES",
     "inputs and outputs in flight for one connection"},
    {"max-payload", KIND_BYTES, AT(max_payload), MIB, 64 * GIB, GIB, "BYTES",
     "all inputs of one request"},
    {"max-model-size", KIND_BYTES, AT(max_model_size), 1, TIB, 4 * GIB, "BYTES", "one model file"},
    {"max-models-size", KIND_BYTES, AT(max_models_size), 0, TIB, 0, "BYTES",
     "all model files together (default: 0, three quarters of the memory)"},
    {"model-cache", KIND_BYTES, AT(model_cache), 0, TIB, 256 * MIB, "BYTES",
     "model files kept while nobody uses them"},
    {"upload-ttl", KIND_U32, AT(upload_ttl_s), 0, 86400, 60, "SECONDS",
     "how long a broken upload can be resumed"},
    {"worker-idle", KIND_U32, AT(worker_idle_s), 0, 86400, 5, "SECONDS",
     "how long a model without contexts stays loaded"},
    {"heartbeat-ms", KIND_U32, AT(heartbeat_ms), 10, 3600000, 1000, "MS",
     "silence after which a peer is asked for a sign of life"},
    {"peer-timeout-ms", KIND_U32, AT(peer_timeout_ms), 20, 86400000, 5000, "MS",
     "silence after which a peer is gone"},
    {"job-timeout-ms", KIND_U32, AT(job_timeout_ms), 1, 86400000, 30000, "MS",
     "longest run of a model"},
    {"load-timeout-ms", KIND_U32, AT(load_timeout_ms), 1, 86400000, 120000, "MS",
     "longest loading of a model"},
    {"drain-timeout-ms", KIND_U32, AT(drain_timeout_ms), 0, 86400000, 5000, "MS",
     "longest wait for running work at the end"},
    {"trace-events", KIND_U32, AT(trace_events), 0, 1 << 24, 16384, "N",
     "events that rknnctl trace can look back, of 64 bytes each"},
    {"quota", KIND_QUOTA, 0, 0, 0, 0, "USER:KEY=N,...",
     "limits of a user, of tcp or of * (everyone): contexts, in-flight, bytes, share; may be repeated"},
    {"plugin-dir", KIND_TEXT, AT(plugin_dir), 0, 0, 0, "DIR",
     "where plugins for custom operators lie (default: " PLUGIN_DIR ")"},
    {"module-dir", KIND_TEXT, AT(module_dir), 0, 0, 0, "DIR", "where the backends and rknnd-announce lie"},
    {"sysfs", KIND_TEXT, AT(sysfs), 0, 0, 0, "DIR", "where the kernel tells frequencies (default: /sys)"},
    {"log-level", KIND_LOG_LEVEL, 0, 0, 0, 0, "LEVEL",
     LOG_LEVELS " (also: RKNN_SERVER_LOGLEVEL)"},
    {"adopt", KIND_FD, AT(adopt_fd), 0, INT32_MAX, 0, "FD",
     "serve the sockets that arrive over FD; end with it"},
    {"worker", KIND_FD, AT(worker_fd), 0, INT32_MAX, 0, "FD", NULL},
    {"guard", KIND_FD, AT(guard_fd), 0, INT32_MAX, 0, "FD", NULL},
};
// clang-format on

#define N_ROWS (sizeof rows / sizeof *rows)

// Replaces a text that the options own.
static int set_text(char **field, const char *text, struct error *e)
{
    char *copy = strdup(text);
    if (!copy)
        return error_no_memory(e, "an option", strlen(text));
    free(*field);
    *field = copy;
    return 0;
}

// Each --listen adds an address.
static int set_listen(struct options *o, const char *value, struct error *e)
{
    if (o->n_listen == OPTIONS_MAX_LISTEN)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d addresses to listen on",
                         OPTIONS_MAX_LISTEN);
    int r = set_text(&o->listen[o->n_listen], value, e);
    if (r == 0)
        o->n_listen++;
    return r;
}

// "NAME:OPTIONS": the options are the backend's business and are not looked at.
static int set_backend(struct options *o, const char *value, struct error *e)
{
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
static int set_isolation(struct options *o, const char *value, struct error *e)
{
    o->threads = strcmp(value, "thread") == 0;
    if (!o->threads && strcmp(value, "process") != 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is neither process nor thread", value);
    return 0;
}

// On the command line a flag has no value, and options_walk() passes "yes".
static int set_flag(bool *field, const char *value, struct error *e)
{
    *field = strcmp(value, "yes") == 0;
    if (!*field && strcmp(value, "no") != 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is neither yes nor no", value);
    return 0;
}

// May be repeated; who is meant is looked up when a user comes (user.c).
static int add_quota(struct options *o, const char *value, struct error *e)
{
    if (o->n_quotas == OPTIONS_MAX_QUOTAS)
        return error_set(e, STATUS_PARAM_INVALID, "at most %d quotas", OPTIONS_MAX_QUOTAS);
    int r = quota_parse(value, &o->quotas[o->n_quotas], e);
    if (r == 0)
        o->n_quotas++;
    return r;
}

// Also file descriptors, which are int64_t, so that -1 can mean none.
static int set_number(struct options *o, const struct row *row, const char *value, struct error *e)
{
    void *field = (char *)o + row->at;
    uint64_t n;
    if (!size_parse(value, row->kind == KIND_BYTES, row->min, row->max, &n))
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not a number from %llu to %llu", value,
                         (unsigned long long)row->min, (unsigned long long)row->max);
    if (row->kind == KIND_U32)
        *(uint32_t *)field = (uint32_t)n;
    else if (row->kind == KIND_BYTES)
        *(uint64_t *)field = n;
    else
        *(int64_t *)field = (int64_t)n;
    return 0;
}

// Sets one option from its text; errors do not name the option, the caller adds that.
static int set_row(struct options *o, const struct row *row, const char *value, struct error *e)
{
    void *field = (char *)o + row->at;
    switch (row->kind) {
    case KIND_LISTEN:
        return set_listen(o, value, e);
    case KIND_TEXT:
        return set_text(field, value, e);
    case KIND_BACKEND:
        return set_backend(o, value, e);
    case KIND_BUFFERS: {
        int r = npu_buffers_check(value, e);
        return r < 0 ? r : set_text(field, value, e);
    }
    case KIND_ISOLATION:
        return set_isolation(o, value, e);
    case KIND_QUOTA:
        return add_quota(o, value, e);
    case KIND_FLAG:
        return set_flag(field, value, e);
    case KIND_LOG_LEVEL:
        if (!*value || !log_set_level_text(value))
            return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is no level: " LOG_LEVELS, value);
        return 0;
    default:
        return set_number(o, row, value, e);
    }
}

// Texts start as NULL, which the header explains for each.
void options_init(struct options *o)
{
    *o = (struct options){.adopt_fd = -1, .worker_fd = -1, .guard_fd = -1};
    for (size_t i = 0; i < N_ROWS; i++) {
        void *field = (char *)o + rows[i].at;
        if (rows[i].kind == KIND_U32)
            *(uint32_t *)field = (uint32_t)rows[i].initial;
        else if (rows[i].kind == KIND_BYTES)
            *(uint64_t *)field = rows[i].initial;
    }
}

static void forget_listen(struct options *o)
{
    while (o->n_listen > 0)
        free(steal_ptr(o->listen[--o->n_listen]));
}

void options_done(struct options *o)
{
    forget_listen(o);
    free(o->socket_group);
    free(o->backend);
    free(o->backend_options);
    free(o->buffers);
    free(o->module_dir);
    free(o->plugin_dir);
    free(o->sysfs);
    free(o->relay);
    *o = (struct options){.adopt_fd = -1, .worker_fd = -1, .guard_fd = -1};
}

// A known option that is close to a misspelled one; NULL if none is. Options that are not for
// people are not suggested.
static const char *options_guess(const char *name)
{
    static const char *const others[] = {"config", "help", "version"};
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].help && spelling_is_near(name, rows[i].name))
            return rows[i].name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (spelling_is_near(name, others[i]))
            return others[i];
    return NULL;
}

// For lines of the configuration file, and for tests.
int options_set(struct options *o, const char *name, const char *value, struct error *e)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) {
            int r = set_row(o, &rows[i], value, e);
            if (r < 0)
                error_prefix(e, "%s", name);
            return r;
        }
    const char *meant = options_guess(name);
    return meant ? error_set(e, STATUS_PARAM_INVALID, "there is no option \"%s\"; did you mean %s?",
                             name, meant)
                 : error_set(e, STATUS_PARAM_INVALID, "there is no option \"%s\"", name);
}

// ---- the configuration file ---------------------------------------------------------------------

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

// One line of the file, which it changes: `name = value`, a comment, or empty.
static int read_line(struct options *o, char *line, struct error *e)
{
    line = options_trim(line);
    if (!*line || *line == '#')
        return 0;
    char *value = strchr(line, '=');
    if (!value)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not of the form name = value", line);
    *value++ = 0;
    return options_set(o, options_trim(line), options_trim(value), e);
}

int options_read_file(struct options *o, const char *path, struct error *e)
{
    cleanup(fclose_p) FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    cleanup(free_p) char *line = NULL;
    size_t room = 0;
    for (int n = 1; getline(&line, &room, file) >= 0; n++)
        if (read_line(o, line, e) < 0)
            return error_prefix(e, "%s:%d", path, n);
    if (ferror(file))
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    return 0;
}

// ---- the command line ---------------------------------------------------------------------------

enum { OPTION_CONFIG = 1000, OPTION_HELP, OPTION_VERSION };

// Written from the table. Rows without help are the internal ones.
static void print_help(void)
{
    char forms[URI_FORMS_SIZE];
    listen_forms(forms);
    printf("Usage: rknnd [OPTION]...\n"
           "Serves Rockchip NPUs, or a software NPU, to programs that use the RKNN C API.\n\n");
    for (size_t i = 0; i < N_ROWS; i++) {
        char head[64];
        if (!rows[i].help)
            continue;
        snprintf(head, sizeof head, "--%s%s%s", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        printf("  %-30s %s%s\n", head, rows[i].help, rows[i].kind == KIND_LISTEN ? forms : "");
    }
    printf("  %-30s %s\n", "--config FILE", "lines `name = value` with the names above");
    printf("  %-30s %s\n", "--version", "print the version");
    printf("  %-30s %s\n", "--help", "print this");
    printf(
        "\nBYTES may end in K, M or G. Without --listen: unix:/run/rknnd/rknnd.sock (root), else\n"
        "unix:$XDG_RUNTIME_DIR/rknnd.sock. Manual: rknnd(8).\n");
}

// The table in the form of getopt_long(3), where an option's number is its row.
static void build_long_options(struct option out[N_ROWS + 4])
{
    for (size_t i = 0; i < N_ROWS; i++)
        out[i] = (struct option){rows[i].name,
                                 rows[i].kind == KIND_FLAG ? no_argument : required_argument, NULL,
                                 (int)i};
    out[N_ROWS] = (struct option){"config", required_argument, NULL, OPTION_CONFIG};
    out[N_ROWS + 1] = (struct option){"help", no_argument, NULL, OPTION_HELP};
    out[N_ROWS + 2] = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    out[N_ROWS + 3] = (struct option){0};
}

// An option that getopt_long() does not know, or the beginning of several ("--lisen=x").
static int refuse_word(const char *word, struct error *e)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *meant = strncmp(word, "--", 2) == 0 ? options_guess(name) : NULL;
    return meant ? error_set(e, STATUS_PARAM_INVALID, "unknown option %s; did you mean --%s?", word,
                             meant)
                 : error_set(e, STATUS_PARAM_INVALID, "unknown option %s (see --help)", word);
}

// Goes over the command line once: with `file` true it only reads the files that --config names,
// with false it sets the options. The first --listen replaces addresses from the file.
static int options_walk(struct options *o, int argc, char **argv, bool file, struct error *e)
{
    struct option long_options[N_ROWS + 4];
    bool listens = false;
    int option;

    build_long_options(long_options);
    optind = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        int r = 0;
        if (option == '?')
            return refuse_word(argv[optind - 1], e);
        if (option == ':')
            return error_set(e, STATUS_PARAM_INVALID, "%s needs a value (see --help)",
                             argv[optind - 1]);
        if (option == OPTION_HELP || option == OPTION_VERSION) {
            option == OPTION_HELP ? print_help() : (void)printf("rknnd " RKNND_VERSION "\n");
            return OPTIONS_EXIT;
        }
        if (option == OPTION_CONFIG && file)
            r = options_read_file(o, optarg, e);
        if (option == OPTION_CONFIG || file)
            goto next;
        if (rows[option].kind == KIND_LISTEN && !listens) {
            forget_listen(o);
            listens = true;
        }
        r = set_row(o, &rows[option], optarg ? optarg : "yes", e);
        if (r < 0)
            return error_prefix(e, "--%s", rows[option].name);
    next:
        if (r < 0)
            return r;
    }
    if (optind < argc)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not an option (see --help)",
                         argv[optind]);
    return 0;
}

// A user may be named by a number that has no account.
static bool is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == 0;
}

// A quota for a user who does not exist would limit nobody, and is most likely a mistake.
static int check_quotas(const struct options *o, struct error *e)
{
    for (uint32_t i = 0; i < o->n_quotas; i++) {
        const char *user = o->quotas[i].user;
        if (strcmp(user, "*") != 0 && strcmp(user, "tcp") != 0 && !is_number(user) &&
            !getpwnam(user))
            return error_set(e, STATUS_PARAM_INVALID,
                             "quota: there is no user \"%s\" (a name or number of this system, tcp "
                             "for the network, * for everyone)",
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

// Files first, then the command line, then what concerns several options together.
int options_parse(struct options *o, int argc, char **argv, struct error *e)
{
    int r = options_walk(o, argc, argv, true, e);
    if (r == 0)
        r = options_walk(o, argc, argv, false, e);
    if (r == 0 && !o->backend)
        r = set_backend(o, "sim", e);
    if (r == 0 && o->relay && o->announce)
        r = error_set(e, STATUS_PARAM_INVALID, "a relay is for this machine: it has no --announce");
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
