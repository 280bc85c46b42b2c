// rknnd --relay usb:[SERIAL], on a PC: claims one board and lets any number of programs use it.
#pragma once

#include "base/error.h"
#include "server/config/options.h"

/// Serves until a signal, or (--adopt) until the program that started it and its other clients
/// have gone. Blocks. Returns 0 or why it could not begin.
int relay_run(const struct options *o, struct error *e);
