// rknnctl kill: ends clients by the numbers that `rknnctl top` shows. Numbers are checked one by
// one: the first failure ends the command, clients before it are ended.
#include <errno.h>
#include <stdlib.h>

#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"

// The number is well-formed: if the server does not know it, the client may have ended by itself,
// which is no mistake in usage.
static int kill_one(const char *text, struct failure *f)
{
    char *end;
    errno = 0;
    unsigned long long client = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        return failure_set(f, EXIT_USAGE, "\"%s\" is no client's number (see rknnctl stats)", text);
    int r = rknnd_kill_client(NULL, client);
    if (r < 0) {
        failure_rknn(f, r, "%s", "");
        f->code = f->code == EXIT_USAGE ? EXIT_RUNTIME : f->code; // it may have ended by itself
        return f->code;
    }
    return 0;
}

int cmd_kill(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    const struct options options = {
        .usage = "kill CLIENT…",
        .summary =
            "Ends clients of the server, by the numbers that `rknnctl top` shows: their jobs\n"
            "are dropped, what they held is freed, their calls fail. Only on the server's own\n"
            "machine; others' clients only for root and the service's own user.",
    };
    int first, r = options_parse_n(&options, argc, argv, 1, argc, &first, f);
    rknnd_server_info info;
    if (r == 0)
        r = report_get_server(&info, f); // from here on only the number can be wrong
    for (int i = first; r == 0 && i < argc; i++)
        r = kill_one(argv[i], f);
    return r;
}
