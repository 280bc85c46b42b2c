// How long the loop's turns take, and what they spend it on. While a turn lasts nobody else is
// served, so one that takes long is an error of ours, and is logged with the name of its longest
// part.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define TURNS_SLOW_US 50000
#define TURNS_LOOK_US 10000

// Of one loop, whose `data` points here. Embedded by the server. Loop thread only.
struct turns {
    uv_check_t check;
    uv_prepare_t prepare;
    uint64_t n_slow;         // turns that took longer than TURNS_SLOW_US
    uint64_t longest_us;     // of all turns
    uint64_t longest_cpu_us; // of the thread's processor time in a turn that was slow; at most
                             // TURNS_LOOK_US too much
    // The turn so far:
    uint64_t began_ns; // uv_hrtime(); 0: nothing is done yet
    const char *part;  // what goes on; NULL: nothing that has a name
    uint64_t part_ns;  // since then, uv_hrtime()
    const char *longest_part;
    uint64_t longest_part_ns; // how long that took
    // The thread's time in line for a CPU, which is not the loop's fault:
    uint64_t cpu_ns;    // its processor time when it was looked at
    int schedstat;      // /proc/PID/task/TID/schedstat; -1: the kernel does not tell
    uint64_t queued_ns; // when it was looked at
    uint64_t looked_ns; // uv_hrtime() of that
    uint64_t logged_ns;
};

/// Before the loop runs; closed by turns_close().
void turns_init(struct turns *t, uv_loop_t *loop);
void turns_close(struct turns *t);

/// From here on the turn works on `part` (a constant). Costs a look at the clock.
void turns_mark(uv_loop_t *loop, const char *part);

/// Processor time of the calling thread: what a slice of work has taken, however long the thread
/// waited for a processor meanwhile.
uint64_t turns_cpu_ns(void);
