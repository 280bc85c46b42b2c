// Ctrl-C and SIGTERM: end the program at once and leave the terminal as it was; after
// interrupt_defer() they only end the command's loop, so that it can print what it has measured.
// The state is the process's; all functions may be called from any thread.
#pragma once

#include <stdbool.h>

/// Once, at the start: SIGINT and SIGTERM; SIGXFSZ ends nothing.
void interrupt_init(void);

/// From now on the first signal only makes interrupt_seen() true; the next one ends the program,
/// unless it comes at once.
void interrupt_defer(void);
bool interrupt_seen(void);

/// Tells that a line is being drawn on standard error, which has to be erased before the end.
void interrupt_drawing(bool drawing);
