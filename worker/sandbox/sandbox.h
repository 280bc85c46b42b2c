// The sandbox of a worker process: what code that runs models and plugins may do of the system.
//
// It is entered once, by a process that has one thread, after the backend's module is loaded (our
// own code) and before its device is opened and before anything untrusted is read. There is no way
// back. The parts, each as far as the kernel has it:
//
//   a user of its own  where the daemon is root's: sandbox_user
//   no capabilities    but for reading, where what it has to read is closed to that user
//   Landlock (5.13)    files: the system's libraries, the plugins, the backend's devices; no other
//                      process can be looked into
//   seccomp            system calls: no network, no program, no process, no namespaces; of signals
//                      only its own
//
// docs/decisions/0034-workers-in-a-sandbox.md says why these and not others.
#pragma once

#include "worker/sandbox/sandbox_policy.h"

// The parts that a kernel may lack.
#define SANDBOX_SECCOMP  1u
#define SANDBOX_LANDLOCK 2u

/// Which parts this kernel has: SANDBOX_SECCOMP | SANDBOX_LANDLOCK, or less. Any thread.
unsigned sandbox_offered(void);

/// In words: "seccomp and Landlock", "seccomp, no Landlock", "nothing".
const char *sandbox_offered_text(unsigned offered);

/// Enters it. STATUS_FAIL says which part failed; then the process has to end, as parts may hold.
int sandbox_enter(const struct sandbox *s, struct error *e);
