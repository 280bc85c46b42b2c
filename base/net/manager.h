// The service manager's side channel (sd_notify(3)): readiness and status. The protocol is small
// and stable, so no library is needed.
#pragma once

#include "base/error.h"

struct manager {
    char socket[108]; // its path, or its name behind "@"; "": there is no manager
};

/// Reads NOTIFY_SOCKET, and removes it, so that children do not report in this process's name.
int manager_find(struct manager *m, struct error *e);

/// Sends lines ("READY=1\nSTATUS=…"). Does not block; losing them is no error. Any thread.
void manager_tell(const struct manager *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// What sd_notify(3) wants to be told at the begin of a reload; "READY=1" ends it.
void manager_tell_reloading(const struct manager *m);
