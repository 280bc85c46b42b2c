// The commands of rknnctl: one file and one row each.
#pragma once

#include <stdbool.h>

#include "tools/ui/failure.h"

// Known once a command has parsed its options, since these may be among them.
struct settings {
    const char *server; // --server; NULL: not given (rknnd_set_server() has been called otherwise)
    bool silences_library; // RKNN_LOG_LEVEL is not set: rknnctl says itself what the library would
};

// argv[0] is the command's name. Returns 0, OPTIONS_HELP or an exit code with words in `f`.
typedef int command_run(const struct settings *settings, int argc, char **argv, struct failure *f);

struct command {
    const char *name, *summary;
    command_run *run;
};

// clang-format off
command_run
    cmd_accuracy,
    cmd_bench,
    cmd_compare,
    cmd_devices,
    cmd_doctor,
    cmd_dump,
    cmd_info,
    cmd_kill,
    cmd_log,
    cmd_memory,
    cmd_perf,
    cmd_ping,
    cmd_record,
    cmd_replay,
    cmd_report,
    cmd_run,
    cmd_stats,
    cmd_status,
    cmd_top,
    cmd_trace;
// clang-format on
