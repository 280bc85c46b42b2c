// The handlers, one for each message. Each either answers (or starts what will answer) and returns
// 0, or returns a negative status with words, which dispatch sends. A handler that expects a
// payload names its destination with connection_receive(); otherwise the payload is dropped.
#pragma once

#include "server/net/connection.h"

struct context;
struct job;

typedef int handle_function(struct connection *c, const struct frame_header *h,
                            const union message_any *m, struct error *e);

handle_function handle_hello;
handle_function handle_ping;
handle_function handle_cancel;
handle_function handle_goodbye;
handle_function handle_server_status;
handle_function handle_stats;
handle_function handle_client_kill;
handle_function handle_log;
handle_function handle_log_level;
handle_function handle_trace;
handle_function handle_clocks;
handle_function handle_model_offer;
handle_function handle_model_chunk;
handle_function handle_model_describe;
handle_function handle_context_open;
handle_function handle_context_dup;
handle_function handle_context_close;
handle_function handle_context_bind;
handle_function handle_context_internal;
handle_function handle_memory_create;
handle_function handle_memory_import;
handle_function handle_memory_free;
handle_function handle_infer;
handle_function handle_profile;
handle_function handle_dump;
handle_function handle_dump_next;
handle_function handle_custom_list;
handle_function handle_custom_done;

/// A job for what INFER (or DUMP) asks, with room for its inputs and `output_room` bytes; then
/// infer_receive() takes the inputs and starts it. The job is the connection's from there on.
int infer_new(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
              uint64_t output_room, struct job **ret, struct error *e);
void infer_receive(struct connection *c, const struct frame_header *h, const rknnd_Infer *m,
                   struct job *j);

/// A context closes while its layer times are being asked for.
void profiles_context_closed(struct context *x, const struct error *why);

/// Ends all descriptions of models that are asked for; for shutdown, after runner_cancel_all().
void handle_describe_stop(struct server *s);
