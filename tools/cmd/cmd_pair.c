// rknnctl pair: makes a key for TLS that this machine and a board then both have. On the board it
// listens, on the PC it connects; people carry two codes from one screen to the other.
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/net/uri.h"
#include "base/tls/tls_keys.h"
#include "base/tls/tls_paths.h"
#include "tools/pair/pair.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"

#define BOARD_FILE "/etc/rknnd/tls.psk"

struct pair_words {
    bool listens;
    const char *identity, *file;
    uint32_t port, wait_s;
};

// ---- who and where ------------------------------------------------------------------------------

// "anna@pc", of what may be in an identity.
static void own_identity(char ret[TLS_IDENTITY_SIZE])
{
    char host[256] = "pc", text[600];
    const struct passwd *who = getpwuid(geteuid());
    size_t n = 0;
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = 0;
    snprintf(text, sizeof text, "%s@%s", who ? who->pw_name : "user", host);
    for (const char *c = text; *c && n < TLS_IDENTITY_SIZE - 1; c++)
        if (tls_identity_is_valid(c, 1))
            ret[n++] = *c;
    ret[n] = 0;
}

// As the client library finds keys (rknnd-client(7)).
static int own_file(char *ret, size_t size, struct error *e)
{
    const char *named = getenv("RKNND_TLS_PSK_FILE");
    if (named && *named) {
        snprintf(ret, size, "%s", named);
        return 0;
    }
    if (tls_keys_path(ret, size))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "there is no folder for the key: set HOME, or give --file FILE");
}

// HOST or HOST:PORT.
static int parse_place(const char *text, struct uri *ret, struct error *e)
{
    const char *why = uri_parse_pair_host(text, ret);
    return why ? error_set(e, STATUS_PARAM_INVALID,
                           "\"%.200s\" %s (it should be HOST or HOST:PORT)", text, why)
               : 0;
}

static int check_words(const struct settings *s, const struct pair_words *w, int n, struct error *e)
{
    if (s->server)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--server names a server to be used; pair takes HOST");
    if (!w->listens && n == 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "say which board: pair HOST; on the board itself: pair --listen");
    if (w->listens && w->identity)
        return error_set(e, STATUS_PARAM_INVALID, "--identity is for the other end");
    if (!w->listens && w->port)
        return error_set(e, STATUS_PARAM_INVALID, "--daemon-port is for the other end");
    if (w->identity && !tls_identity_is_valid(w->identity, strlen(w->identity)))
        return error_set(e, STATUS_PARAM_INVALID,
                         "--identity: 1 to %d letters, digits and . _ @ - make an identity",
                         TLS_IDENTITY_SIZE - 1);
    return 0;
}

// ---- both ends ----------------------------------------------------------------------------------

static int listen_for_client(struct pair *p, const struct pair_words *w, struct error *e)
{
    p->file = w->file ? w->file : BOARD_FILE;
    p->daemon_port = (uint16_t)(w->port ? w->port : URI_TLS_PORT);
    int r = pair_with_client(p, e);
    if (r == 0)
        printf("%s is paired; its key is in %s, which rknnd reads with `tls-psk-file = %s` and\n"
               "`listen = tls:0.0.0.0:%u`.\n",
               p->paired, p->file, p->file, p->daemon_port);
    return r;
}

static int connect_to_board(struct pair *p, const struct pair_words *w, struct error *e)
{
    char file[4096], identity[TLS_IDENTITY_SIZE];
    int r = w->file ? 0 : own_file(file, sizeof file, e);
    if (r < 0)
        return r;
    own_identity(identity);
    p->file = w->file ? w->file : file;
    p->identity = w->identity ? w->identity : identity;
    r = pair_with_board(p, e);
    if (r == 0)
        printf("Paired with %s; the key of %s is in %s.\nRKNND_SERVER=tls:%s uses it.\n", p->paired,
               p->identity, p->file, p->server);
    return r;
}

int cmd_pair(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct pair_words w = {.wait_s = 300};
    struct uri place = {.port = URI_PAIR_PORT};
    const struct option_row rows[] = {
        {0, "listen", OPTION_FLAG, &w.listens, NULL, "this is the board; wait for the other end", 0,
         0, NULL},
        {0, "identity", OPTION_TEXT, &w.identity, "NAME", "who this end is for the board", 0, 0,
         NULL},
        {0, "file", OPTION_TEXT, &w.file, "FILE", "the keys (see rknnctl(1))", 0, 0, NULL},
        {0, "daemon-port", OPTION_NUMBER, &w.port, "N", "of rknnd on this board (default 8911)", 1,
         65535, NULL},
        {0, "wait", OPTION_NUMBER, &w.wait_s, "N", "give up after N seconds (default 300)", 1,
         86400, NULL},
    };
    const struct cmd_options options = {
        .usage = "pair HOST[:PORT] | pair --listen [ADDRESS]",
        .summary =
            "Gives this machine and a board a key for TLS (tls:HOST). Begin on the board, as\n"
            "root: rknnctl pair --listen. Two codes, each shown at one end and typed at the\n"
            "other, make sure that nobody is in between.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 1, &first, e);
    if (r == 0)
        r = check_words(settings, &w, argc - first, e);
    if (r == 0 && argc > first)
        r = parse_place(argv[first], &place, e);
    if (r != 0)
        return r;
    struct pair p = {.host = place.text, .port = place.port, .wait_ms = (uint64_t)w.wait_s * 1000};
    return w.listens ? listen_for_client(&p, &w, e) : connect_to_board(&p, &w, e);
}
