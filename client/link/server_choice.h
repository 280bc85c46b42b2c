// Which server contexts are opened on.
#pragma once

#include "client/link/connection.h"
#include "rknnd.h"

enum choice_source {
    CHOICE_ARGUMENT,    // the call's own
    CHOICE_THREAD,      // rknnd_set_thread_server()
    CHOICE_PROGRAM,     // rknnd_set_server()
    CHOICE_ENVIRONMENT, // RKNND_SERVER
    CHOICE_DEFAULT,     // local sockets, in this order; else the only board
};

struct choice {
    enum choice_source source;
    unsigned n_uris;
    char uris[2][256]; // as they were given
};

/// The local sockets, whether they are there or not.
void choice_local(struct choice *ret);

/// Which servers would be tried for `uri`, which may be NULL.
void choice_make(const char *uri, struct choice *ret);

/// The only board at a USB cable or behind adb that can be used. Fails, with words about those that
/// there are, if that is not one.
int choice_find_board(rknnd_device *ret, struct error *e);

/// A connection to `uri`, or (NULL) to the chosen server: rknnd_set_thread_server(), else
/// rknnd_set_server(), else RKNND_SERVER in the environment, else the first local socket that
/// answers, else the board of choice_find_board(). As server_connect() otherwise.
int choice_connect(const char *uri, struct connection **ret, struct error *e);

void choice_before_fork(void);
void choice_after_fork(bool child);
