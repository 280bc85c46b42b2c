// What makes the library survive fork() in the program.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// A module with state that more than one thread uses.
struct fork_module {
    void (*before)(void);      // takes its locks
    void (*after)(bool child); // gives them back; in the child, drops what is the parent's
};

// All of them, in the order in which their locks are taken (fork_modules.c).
extern const struct fork_module fork_modules[];
extern const size_t n_fork_modules;

/// Installs the handlers, once; called before the first state is made.
void fork_prepare(void);
