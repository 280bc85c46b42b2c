// What the system lets this process have: for the totals of account.h.
#pragma once

#include <stdint.h>

// UINT64_MAX: no limit is set.
struct machine {
    uint64_t memory;      // bytes: the machine's, or those of its control groups if that is less
    uint64_t descriptors; // RLIMIT_NOFILE, and as many as there can be mappings beside our own
    uint64_t threads;     // of the control groups, and of the user (RLIMIT_NPROC)
};

/// `sysfs`: where the control groups are, in fs/cgroup. Does not fail: what is not to be found does
/// not limit.
void machine_read(const char *sysfs, struct machine *ret);
