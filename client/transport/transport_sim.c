// sim:[CHIP], a daemon of this process's own with the software NPU (spawn.h). Each process has one
// per chip; it ends with the process's last connection to it.
#include "client/limits.h"
#include "client/transport/transports.h"

// The time limit for HELLO is longer: the daemon may have to start first.
static int sim_connect(struct transport_attempt *a, struct error *e)
{
    const char *chip = a->address->text;
    struct spawn_command command = {.option = "--backend"};
    int r = spawn_set_value(&command, e, "sim%s%s", *chip ? ":" : "", chip);
    if (r < 0)
        return r;
    a->spawned = true;
    a->hello_ms = LIMIT_START_MS;
    return spawn_connect(a->daemon, &command, &a->ticket, e);
}

// A daemon that has been running may just have ended: another is started. One that was started for
// this attempt has failed for good and says why on its control socket.
static bool sim_retry(struct transport_attempt *a, struct error *e)
{
    char words[sizeof e->text];
    if (!a->ticket.fresh)
        return true;
    spawn_last_words(a->daemon, &a->ticket, words, sizeof words);
    if (*words)
        error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s cannot start: %s", a->uri, words);
    else
        error_set(e, STATUS_DEVICE_UNAVAILABLE,
                  "%s did not start well (RKNN_SERVER_LOGLEVEL=3 shows why)", a->uri);
    return false;
}

const struct transport transport_sim = {
    .uri = {.name = "sim:", .syntax = "[CHIP]", .parse = uri_parse_name},
    .help = "a private daemon with the software NPU",
    .hello_advice =
        "sim: alone is any chip; where rknnd is not found, install it or set RKNND_DAEMON",
    .connect = sim_connect,
    .retry = sim_retry,
};
