// Which server contexts are opened on.
#pragma once

#include "client/connection.h"

/// A connection to `uri`, or (NULL) to the chosen server: rknnd_set_server(), else RKNND_SERVER in
/// the environment, else the first local socket that answers. As server_connect() otherwise.
int choice_connect(const char *uri, struct connection **ret, struct error *e);

void choice_before_fork(void);
void choice_after_fork(bool child);
