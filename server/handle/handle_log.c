// LOG, LOG_LEVEL and TRACE: what the server says and what happens in it, for clients.
#include "base/log.h"
#include "server/handle/handle.h"
#include "server/runner/worker_process.h"
#include "server/server.h"

int handle_log(struct connection *c, const struct frame_header *h, const union message_any *any,
               struct error *e)
{
    return logbook_read(&c->server->logbook, c, h, &any->LOG_request, e);
}

int handle_log_level(struct connection *c, const struct frame_header *h,
                     const union message_any *any, struct error *e)
{
    uint32_t level = any->LOG_LEVEL_request.level;
    if (!origin_is_operator(&c->origin))
        return error_set(e, STATUS_FAIL,
                         "only root and the service's own user may change what is logged, on the "
                         "service's machine");
    if (level > LOG_TRACE)
        return error_set(e, STATUS_PARAM_INVALID, "log levels are 0 to %d, not %u", LOG_TRACE,
                         level);
    log_set_level((enum log_level)level);
    worker_processes_set_log_level(&c->server->runner_options, (enum log_level)level);
    log_info("log level %u, says c%u (%s)", level, c->number, c->origin.text);
    connection_reply(c, h, rknnd_Empty_fields, &(rknnd_Empty){0});
    return 0;
}

int handle_trace(struct connection *c, const struct frame_header *h, const union message_any *any,
                 struct error *e)
{
    return trace_read(&c->server->trace, c, h, &any->TRACE_request, e);
}
