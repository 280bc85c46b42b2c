// rknnctl replay: makes the requests of a recording again, in the same order, and compares the
// answers bit for bit. rknnd_replay() does it; it calls on_progress() with bytes of the file.
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rknnd.h"
#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

static void on_progress(void *progress, uint64_t done, uint64_t total)
{
    progress_count(progress, done, total);
}

static json_t *to_json(const rknnd_replay_result *r)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:s}", "connections",
                     (json_int_t)r->n_connections, "requests", (json_int_t)r->n_requests, "runs",
                     (json_int_t)r->n_runs, "answers", (json_int_t)r->n_answers, "different",
                     (json_int_t)r->n_different, "cut", (int)r->cut, "recorded_us",
                     (json_int_t)r->recorded_us, "replayed_us", (json_int_t)r->replayed_us,
                     "first_difference", r->difference);
}

static void print_result(const rknnd_replay_result *r)
{
    struct format_buffer then, now;
    printf("%" PRIu64 " requests on %u connection%s, %" PRIu64 " of them runs\n", r->n_requests,
           r->n_connections, r->n_connections == 1 ? "" : "s", r->n_runs);
    printf("%" PRIu64 " answers compared, %" PRIu64 " differ\n", r->n_answers, r->n_different);
    printf("%s when recorded, %s now\n", format_us(&then, r->recorded_us),
           format_us(&now, r->replayed_us));
}

// Differences count first, then whether there was anything to compare, then whether the recording
// is complete.
static int judge_result(const char *path, const rknnd_replay_result *r, bool allow_cut,
                        struct error *e)
{
    if (r->n_different > 0)
        return error_set(e, STATUS_FAIL, "%" PRIu64 " of %" PRIu64 " answers differ, first: %s",
                         r->n_different, r->n_answers, r->difference);
    if (r->n_requests == 0)
        return error_set(e, STATUS_INPUT_INVALID, "%s: there is no request in it to make again",
                         path);
    if (r->cut && !allow_cut)
        return error_set(e, STATUS_INPUT_INVALID,
                         "%s ends in the middle of a frame, behind request %" PRIu64
                         ": the file is cut off, or the program was killed (then --allow-cut)",
                         path, r->n_requests);
    return 0;
}

// The server is asked first, so that RKNN_ERR_PARAM_INVALID afterwards can only mean the file, not
// the server's URI.
int cmd_replay(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    bool json = false, allow_cut = false;
    const struct option_row rows[] = {
        {0, "allow-cut", OPTION_FLAG, &allow_cut, NULL, "the program may have been killed", 0, 0,
         NULL},
        OPTIONS_JSON(&json),
    };
    const struct cmd_options options = {
        .usage = "replay FILE",
        .summary = "Makes the requests of a recording again, in the same order, and compares the\n"
                   "answers bit for bit. Fails (1) if one differs, and says which is the first.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    rknnd_replay_result result = {.struct_size = sizeof result};
    struct progress progress;
    int first, r = cmd_options_parse_n(&options, argc, argv, 1, 1, &first, e);
    if (r)
        return r;
    if (access(argv[first], R_OK) < 0)
        return error_set(e, STATUS_INPUT_INVALID, "%s: %s", argv[first], strerror(errno));
    rknnd_server_info info;
    r = print_get_server(&info, e); // from here on only the file can be wrong
    if (r)
        return r;
    progress_start_bytes(&progress, argv[first]);
    r = rknnd_replay(NULL, argv[first], on_progress, &progress, &result);
    progress_end(&progress);
    if (r == RKNN_ERR_PARAM_INVALID) {
        rknn_error_set(e, r, "%s", "");
        return e->code = STATUS_INPUT_INVALID;
    }
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    if (json)
        r = print_json(to_json(&result), e);
    else
        print_result(&result);
    return r ? r : judge_result(argv[first], &result, allow_cut, e);
}
