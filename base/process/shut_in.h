// For processes that hear strangers and have all they need.
#pragma once

#include "base/error.h"

/// From here on this process, and whatever it starts, opens no file but to read below `folders`
/// (ended by NULL), executes none, looks into no process outside (ptrace, /proc/PID/mem), sends it
/// no signal, and neither connects by TCP nor binds a port: what it has open stays. As far as the
/// kernel has that: Landlock, files and processes from Linux 5.13, TCP 6.7, signals 6.12. For good,
/// for the calling thread and those that it starts. Without Landlock 0, and nothing has changed.
int shut_in(const char *const folders[], struct error *e);
