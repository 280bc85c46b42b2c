// What bench_sharing's numbers stand beside: the same machine without the service.
#pragma once

/// Times that n threads, which do nothing but sleep for `us`, wake up in a second.
double sharing_sleepers_rate(unsigned n, double us, double seconds);

/// One system call that does nothing.
double sharing_null_call_us(void);

struct sharing_run {
    double us, cpu_us; // of one run: median, mean
};

/// A model run again and again in this process, by the backend alone.
struct sharing_run sharing_direct_run(const char *model, double seconds);
