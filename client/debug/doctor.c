// rknnd_diagnose: checks every hop between a program and the NPU, in order, and tells each result
// with advice by a callback. Stops at the first hop that is broken.
//
//     selection ─► address ─► socket ... (the transport's diagnose()) ─► HELLO      doctor_reach.c
//     ─► device, memory, a product on each core                                    doctor_device.c
//     ─► the model loads                                                            here
//
// At the end, whatever came before, transports tell what of their kind there is (survey()).
#include "client/debug/doctor.h"

#include "client/api/context.h"
#include "client/api/init.h"
#include "client/last_error.h"
#include "client/link/servers.h"
#include "client/model/load_options.h"
#include "client/model/stored.h"
#include "client/transport/transports.h"

// ---- the model ---------------------------------------------------------------------------------

static const char *advice_for(int status)
{
    switch (status) {
    case STATUS_TARGET_PLATFORM_UNMATCH:
        return "convert it with target_platform set to the server's chip, or use a server with the "
               "model's chip";
    case STATUS_MALLOC_FAIL:
        return "a quota or the machine's memory is used up: `rknnctl top` shows by whom";
    case STATUS_DEVICE_UNAVAILABLE:
        return "the server or its worker failed meanwhile: `rknnctl log` has its words";
    default:
        return "copy it again (is it whole?); else convert it again, with the version of "
               "rknn-toolkit2 that fits the runtime";
    }
}

// Opens the model as rknn_init() would, and closes it.
// Whether the model loads.
static void doctor_model(struct checks *checks, const char *path)
{
    struct error e;
    struct model m = {.fd = -1};
    rknn_context context = 0;
    int r = stored_or_file(&m, path, &e);
    if (r < 0) {
        checks_tell(checks, RKNND_CHECK_BAD, "model", "give the path of a readable model file",
                    "%s: %s", path, e.text);
    } else if ((r = init_open_model(&m, 0, load_options(), &context, &e)) < 0) {
        checks_tell(checks, RKNND_CHECK_BAD, "model", advice_for(r), "%s: %s", path, e.text);
    } else {
        checks_tell(checks, RKNND_CHECK_GOOD, "model", "", "%s loads here", path);
        context_end(context, &e);
    }
    model_done(&m);
}

// ---- all of it ---------------------------------------------------------------------------------

static void doctor_skip(struct checks *checks, const char *name)
{
    checks_tell(checks, RKNND_CHECK_SKIPPED, name, "", "no server to ask");
}

// The connection stays open while the model is opened, so that a private daemon is not started
// twice.
static void doctor_diagnose(struct checks *checks, const char *model)
{
    struct connection *c = doctor_reach(checks);
    if (c) {
        rknnd_HelloReply peer = c->peer;
        doctor_device(checks, &peer);
        doctor_machine(checks);
        if (model)
            doctor_model(checks, model);
    } else {
        doctor_skip(checks, "device");
        if (model)
            doctor_skip(checks, "model");
    }
    server_disconnect(c);
    const struct transport *t;
    for (unsigned i = 0; (t = transports_row(i)); i++)
        if (t->survey)
            t->survey(checks);
}

RKNN_EXPORT int rknnd_diagnose(const char *model, rknnd_check_callback *callback, void *user,
                               uint32_t *n_bad)
{
    struct error e;
    struct checks checks = {.callback = callback, .user = user};
    int r = callback ? 0 : error_set(&e, STATUS_PARAM_INVALID, "callback is NULL");
    if (r == 0) {
        init_prepare();
        doctor_diagnose(&checks, model);
    }
    if (r == 0 && n_bad)
        *n_bad = checks.n_bad;
    return last_error_keep("rknnd_diagnose", r, &e);
}
