// The program's wish to end a wait (rknnd_set_interrupt()), for whatever waits in the calling
// thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Asks the program, after a wait that a signal or the time has ended. True: give up.
bool interrupt_asked(void);

/// Until when, in ms of clock_ms(), to wait at most before asking; `until` if nobody is to be
/// asked.
uint64_t interrupt_before(uint64_t now, uint64_t until);
