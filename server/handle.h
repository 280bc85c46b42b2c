// The handlers, one for each message. Each either answers (or starts what will answer) and returns
// 0, or returns a negative status with words, which dispatch sends. A handler that expects a
// payload names its destination with connection_receive(); otherwise the payload is dropped.
#pragma once

#include "server/connection.h"

struct context;

typedef int handle_function(struct connection *c, const struct frame_header *h,
                            const union message_any *m, struct error *e);

handle_function handle_hello;
handle_function handle_ping;
handle_function handle_cancel;
handle_function handle_goodbye;
handle_function handle_server_status;
handle_function handle_model_offer;
handle_function handle_model_chunk;
handle_function handle_model_describe;
handle_function handle_context_open;
handle_function handle_context_dup;
handle_function handle_context_close;
handle_function handle_infer;
handle_function handle_profile;

/// A context closes while its layer times are being asked for.
void profiles_context_closed(struct context *x, const struct error *why);

/// Ends all descriptions of models that are asked for; for shutdown, after host_cancel_all().
void handle_describe_stop(struct server *s);
