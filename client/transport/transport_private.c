// sim:[CHIP], emu:CHIP and open:[WAY]: a daemon of this process's own (spawn.h) with the backend of
// that name. Each process has one per address; it ends with the process's last connection to it.
#include <string.h>

#include "client/limits.h"
#include "client/transport/transports.h"

// The emulator may take minutes for a run, which nobody but this process waits for.
#define EMULATOR_JOB_MS "3600000"

static const struct uri_scheme *scheme_of(const struct transport_attempt *a)
{
    return a->address->scheme;
}

// The backend has the scheme's name, and what follows it. The time limit for HELLO is longer: the
// daemon may have to start first.
static int private_connect(struct transport_attempt *a, struct error *e)
{
    const char *name = scheme_of(a)->name, *rest = a->address->text;
    struct spawn_command command = {.option = "--backend"};
    if (scheme_of(a) == &transport_emu.uri)
        command.job_ms = EMULATOR_JOB_MS;
    int r = spawn_set_value(&command, e, "%.*s%s", (int)strlen(name) - !*rest, name, rest);
    if (r < 0)
        return r;
    a->spawned = true;
    a->hello_ms = LIMIT_START_MS;
    return spawn_connect(a->daemon, &command, &a->ticket, e);
}

// A daemon that has been running may just have ended: another is started. One that was started for
// this attempt has failed for good and says why on its control socket.
static bool private_retry(struct transport_attempt *a, struct error *e)
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
    .connect = private_connect,
    .retry = private_retry,
};

static const char *parse_chip(const char *rest, struct uri *ret)
{
    return *rest ? uri_parse_name(rest, ret) : "names no chip, as emu:rk3588 does";
}

const struct transport transport_emu = {
    .uri = {.name = "emu:", .syntax = "CHIP", .parse = parse_chip},
    .help = "a private daemon with the emulator of a chip",
    .hello_advice = "emu:rk3588 is that chip; where rknnd is not found, install it or set "
                    "RKNND_DAEMON",
    .connect = private_connect,
    .retry = private_retry,
};

const struct transport transport_open = {
    .uri = {.name = "open:", .syntax = "[WAY]", .parse = uri_parse_name},
    .help = "a private daemon with this board's NPU, without the vendor's library",
    .hello_advice = "open: alone is the first driver of an NPU that is there; a daemon that has it "
                    "already shares it among programs",
    .connect = private_connect,
    .retry = private_retry,
};
