// rknnctl kill: ends clients by the numbers that `rknnctl top` shows. Numbers are checked one by
// one: the first failure ends the command, clients before it are ended.
#include <errno.h>
#include <stdlib.h>

#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"
#include "tools/ui/rknn_error.h"

// The number is well-formed: if the server does not know it, the client may have ended by itself,
// which is no mistake in usage.
static int kill_one(const char *text, struct error *e)
{
    char *end;
    errno = 0;
    unsigned long long client = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%s\" is no client's number (see rknnctl stats)", text);
    int r = rknnd_kill_client(NULL, client);
    if (r < 0) {
        rknn_error_set(e, r, "%s", "");
        e->code =
            e->code == STATUS_PARAM_INVALID ? STATUS_FAIL : e->code; // it may have ended by itself
        return e->code;
    }
    return 0;
}

int cmd_kill(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    const struct cmd_options options = {
        .usage = "kill CLIENT…",
        .summary =
            "Ends clients of the server, by the numbers that `rknnctl top` shows: their jobs\n"
            "are dropped, what they held is freed, their calls fail. Only on the server's own\n"
            "machine; others' clients only for root and the service's own user.",
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 1, argc, &first, e);
    rknnd_server_info info;
    if (r == 0)
        r = print_get_server(&info, e); // from here on only the number can be wrong
    for (int i = first; r == 0 && i < argc; i++)
        r = kill_one(argv[i], e);
    return r;
}
