// The daemon's part of its workers' sandbox (worker/sandbox/sandbox.h).
#pragma once

#include "server/runner/runner_options.h"

/// Fills options->worker_user: `user` by its name, NULL: nobody. Logs what the kernel lacks; where
/// that is Landlock, closes this process's own memory and descriptors to others of its user. Reads
/// the user database, so before the loop runs. STATUS_PARAM_INVALID: there is no such user, or
/// workers cannot be its.
/// STATUS_DEVICE_UNAVAILABLE: something is lacking that is required.
int worker_sandbox_prepare(struct runner_options *options, const char *user, struct error *e);
