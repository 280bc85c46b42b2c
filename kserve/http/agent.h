// Answers a load balancer's question how much of this server is free (HAProxy's agent-check): one
// line, "up ready 75%", for each connection.
#pragma once

#include "base/error.h"

struct agent;
struct pulse;

/// The socket listens, and is the agent's own from then on.
int agent_start(int socket, const struct pulse *pulse, struct agent **ret, struct error *e);
void agent_stop(struct agent *a);
