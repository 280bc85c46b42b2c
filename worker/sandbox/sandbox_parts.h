// The parts of a sandbox that the kernel may lack, for sandbox.c.
#pragma once

#include <stdbool.h>

#include "worker/sandbox/sandbox_policy.h"

/// Whether the kernel has Landlock.
bool sandbox_landlock_offered(void);

/// Confines the calling thread, and threads that it starts, to the paths of the sandbox and those
/// that every program needs. Needs no_new_privs.
int sandbox_landlock_enter(const struct sandbox *s, struct error *e);

/// Whether the kernel has seccomp filters. A process that emulates another processor has none.
bool sandbox_seccomp_offered(void);

/// Confines all threads of the process to the system calls of a worker. Needs no_new_privs.
int sandbox_seccomp_enter(const struct sandbox *s, struct error *e);
