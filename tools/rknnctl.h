// The commands of rknnctl: one file and one row each.
#pragma once

#include <stdbool.h>

#include "base/error.h"

// Known once a command has parsed its options, since these may be among them.
struct settings {
    const char *server; // --server; NULL: not given (rknnd_set_server() has been called otherwise)
    bool silences_library; // RKNN_LOG_LEVEL is not set: rknnctl says itself what the library would
};

// What a command returns for rknnctl to end with the status of a program that it has run, with
// words in `e`. Beyond OPTION_TABLE_END and the exit codes of rknnctl's own.
#define COMMAND_EXIT(status) (256 + (status))

// argv[0] is the command's name. Returns 0, OPTION_TABLE_END, a negative status with words in `e`,
// or EXIT_GATE or COMMAND_EXIT() with words.
typedef int command_run(const struct settings *settings, int argc, char **argv, struct error *e);

struct command {
    char name[16];
    const char *summary;
    command_run *run;
};

// X(name, what it does), in the order of `rknnctl help`. A name's _ is - for people.
// clang-format off
#define COMMAND_LIST(X) \
    X(run,      "run a model on inputs from files, write its outputs") \
    X(info,     "describe the server, and a model")                    \
    X(devices,  "list the servers that can be reached")                \
    X(pair,     "give this machine and a board a key for TLS")         \
    X(ping,     "measure round trips to the server")                   \
    X(status,   "show what the server holds and has done")             \
    X(top,      "watch who uses the device")                           \
    X(stats,    "who has used how much of it, also for Prometheus")    \
    X(kill,     "end clients")                                         \
    X(log,      "show what the server logs, and set how much")         \
    X(trace,    "write a timeline of what happens in the server")      \
    X(record,   "record what a program asks of its servers")           \
    X(replay,   "ask it again, and compare the answers")               \
    X(doctor,   "find out what is wrong on the way to the NPU")        \
    X(model,    "keep models on the server, by name")                  \
    X(dump,     "write what each node of a model computes")            \
    X(perf,     "show where a model's time goes, layer by layer")      \
    X(memory,   "show what a model takes of memory, layer by layer")   \
    X(accuracy, "compare a model's layers with the float model's")     \
    X(compare,  "compare two models or servers, layer by layer")       \
    X(report,   "write all of that into one page for a browser")       \
    X(quantize, "make an int8 model of a float one")                   \
    X(bench,    "measure throughput and latency of a model")           \
    X(board_test, "find out how a board's NPU computes, and write it down")
// clang-format on
#define X(name, summary) command_run cmd_##name;
COMMAND_LIST(X)
#undef X
