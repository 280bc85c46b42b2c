// Which server contexts are opened on.
#pragma once

#include "client/link/connection.h"
#include "client/transport/local_sockets.h"
#include "rknnd.h"

enum selection_source {
    SELECTION_ARGUMENT,    // the call's own
    SELECTION_THREAD,      // rknnd_set_thread_server()
    SELECTION_PROGRAM,     // rknnd_set_server()
    SELECTION_ENVIRONMENT, // RKNND_SERVER
    SELECTION_DEFAULT,     // local sockets, in this order; else the only board
};

struct server_selection {
    enum selection_source source;
    char uri[256];              // as it was given; "" by default
    bool too_long;              // it was longer than that
    struct local_sockets local; // by default, the first that answers
};

/// Which servers would be tried for `uri`, which may be NULL.
void selection_make(const char *uri, struct server_selection *ret);

/// The only board at a USB cable or behind adb that can be used. Fails, with words about those that
/// there are, if that is not one.
int selection_find_board(rknnd_device *ret, struct error *e);

/// A connection to `uri`, or (NULL) to the chosen server: rknnd_set_thread_server(), else
/// rknnd_set_server(), else RKNND_SERVER in the environment, else the first local socket that
/// answers, else the board of selection_find_board(). As server_connect() otherwise.
int selection_connect(const char *uri, struct connection **ret, struct error *e);

void selection_before_fork(void);
void selection_after_fork(bool child);
