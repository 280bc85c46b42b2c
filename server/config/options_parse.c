// The command line, over the files that it names, and what concerns several options together.
#include "server/config/options_parse.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file/trust.h"
#include "base/log.h"
#include "base/net/uri.h"
#include "base/who.h"
#include "server/config/options_file.h"
#include "server/config/options_rows.h"
#include "server/listen/listen_schemes.h"

#define HELP_COLUMN 34

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
    struct options_rows rows;
    struct option_table table = {.rows = rows.rows};
    const struct option_row more[] = {
        {0, "config", OPTION_CALL, from_files, "FILE",
         "lines `name = value` with the names above (rknnd.conf(5)); SIGHUP reads it again", 0, 0,
         read_config},
        {0, "check-config", OPTION_FLAG, &o->check_config, NULL,
         "say whether all of this is good, and end", 0, 0, NULL},
        {0, "version", OPTION_CALL, NULL, NULL, "print the version", 0, 0, print_version},
        {0, "help", OPTION_CALL, &table, NULL, "print this", 0, 0, print_help}};
    int first;
    options_list(o, &rows);
    options_add_rows(&rows, more, sizeof more / sizeof *more);
    table.n_rows = rows.n;
    int r = option_table_parse(&table, argc, argv, &first, e);
    if (r == 0 && first < argc)
        r = error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not an option (see --help)", argv[first]);
    return r;
}

// What the command line says of somebody, or of some limit, takes the place of what the files say
// of it.
static void forget_given(struct options *o, const struct options *given)
{
    for (uint32_t i = 0, at; i < given->n_quotas; i++)
        if ((at = options_find_quota(o, given->quotas[i].user)) < o->n_quotas)
            o->quotas[at] = o->quotas[--o->n_quotas];
    for (uint32_t i = 0; i < given->rights.n; i++)
        rights_remove(&o->rights, given->rights.rules[i].who);
    for (unsigned i = 0; i < ACCOUNT_RESOURCES; i++) {
        o->limits.of[i] = given->limits.of[i] ? 0 : o->limits.of[i];
        o->program_limits.of[i] = given->program_limits.of[i] ? 0 : o->program_limits.of[i];
    }
    if (given->n_preload > 0)
        options_forget_preload(o);
    if (given->n_listen > 0)
        options_forget_listen(o);
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
        r = options_set(o, "backend", "sim", e);
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
