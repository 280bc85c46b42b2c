// What went wrong: an exit code for scripts and a text for people.
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

// Owned by the caller, on the stack as a rule. Functions that can fail take it as their last
// argument and return 0 or the exit code, so that `return failure_set(f, EXIT_INPUT, "…")` works.
// Untouched on success.
struct failure {
    int code;
    char text[1024];
};

/// Sets code and words (cut to fit). Returns `code`.
int failure_set(struct failure *f, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Puts "CONTEXT: " in front of the words that are there, unless they begin with it. Returns f's
/// code.
int failure_prefix(struct failure *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// The exit code for a negative RKNN_ERR_* code.
int failure_exit_code(int rknn_code);

/// For a call of the library that failed in this thread: "CONTEXT: " and rknnd_last_error(), with
/// the exit code that belongs to `rknn_code`.
int failure_rknn(struct failure *f, int rknn_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// As failure_rknn, for a model: names it by `path` once, whether or not the library has named it.
int failure_model(struct failure *f, int rknn_code, const char *path);

/// EXIT_RUNTIME, out of memory.
int failure_no_memory(struct failure *f);
