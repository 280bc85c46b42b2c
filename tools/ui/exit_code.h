// The exit codes of rknnctl.
#pragma once

// rknnctl.1 documents these; scripts rely on them.
enum exit_code {
    EXIT_OK,
    EXIT_RUNTIME,     // a run failed, a file could not be written, memory ran out, …
    EXIT_USAGE,       // unknown command or option, bad value
    EXIT_UNREACHABLE, // no server, or the server or its device was lost
    EXIT_MODEL,       // the model cannot be read or is refused
    EXIT_INPUT,       // an input file cannot be read or does not fit the model
    EXIT_GATE,        // all went well, but a limit that was given (--fail-above, …) is not kept
};

/// For the status of an error (base/error.h), which is also what the library returns. EXIT_GATE
/// belongs to none: a command returns it itself (tools/rknnctl.h).
enum exit_code exit_code_of(int status);
