// What it costs each node of a run that somebody could look on: a dump, a client's operators, the
// wish to stop, layer times. With none of them there, that is some comparisons.
#pragma once

// Nanoseconds a node, of operators that do nothing: in run_steps(), and in a loop that only calls
// them. Both take turns; the best of each.
struct hook_times {
    double hooked_ns, bare_ns;
};

struct hook_times hook_times_measure(void);
