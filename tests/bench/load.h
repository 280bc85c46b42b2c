// Clients, each in a thread, that repeat a call for a while; how long calls took and how many there
// were. Failures end the program with words: a benchmark has nothing to save.
#pragma once

#include <stddef.h>

// How a client of some service works. `service` is what was given to load_measure().
struct load_type {
    void *(*open)(const void *service);
    void (*call)(void *client);
    void (*close)(void *client);
};

struct load_result {
    double median_us;  // of one call
    double per_second; // calls of all clients together
};

/// Opens n_clients, lets them all begin at the same time, and counts for `seconds`; the first tenth
/// of that is not counted.
struct load_result load_measure(const struct load_type *type, const void *service,
                                unsigned n_clients, double seconds);

/// Prints words and ends the program.
_Noreturn void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
