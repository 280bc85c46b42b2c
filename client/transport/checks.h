// Checks of rknnd_diagnose(), as they go to the program's callback.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/net/uri.h"
#include "client/transport/device_list.h"
#include "rknnd.h"

#define CHECKS_START_IT                                                                            \
    "start rknnd (`systemctl start rknnd`; `journalctl -u rknnd` says why it does not stay), or "  \
    "choose another server with RKNND_SERVER"

#define CHECKS_MAX_BOARDS 32 // of a transport, that are reported one by one

struct checks {
    rknnd_check_callback *callback;
    void *user;
    uint32_t n_bad;
};

/// Tells of one check. `advice` ("": none) says what to do, the rest what was found.
void checks_tell(struct checks *c, rknnd_verdict verdict, const char *name, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/// Tells of every board in a list, by the name of a transport.
void checks_tell_boards(struct checks *c, const char *name, const struct device_list *l);

/// Whether the board that an address means, of those in the list, is there and can be used.
bool checks_find_board(struct checks *c, const struct device_list *l, const struct uri *address);
