// rknnd_diagnose(), part by part: each looks at one hop and tells what it finds.
#pragma once

#include "client/link/connection.h"
#include "client/transport/checks.h"

/// From the selection of a server to its greeting. A connection, or NULL: there is no way through.
struct connection *doctor_reach(struct checks *c);

/// What the server says that it is; runs a small product on each of its cores.
void doctor_device(struct checks *c, const rknnd_HelloReply *peer);

/// Whether governors or heat slow the server's machine down.
void doctor_machine(struct checks *c);
