// Times of something that is done again and again.
#pragma once

/// The shortest time of one call, in nanoseconds of the calling thread's processor time, which
/// others on the machine disturb least: of some calls after a few that warm up, as many as fit a
/// second, at least 5 and at most 500, until 60 in a row were none that is shorter.
double samples_best_ns(void (*call)(void *arg), void *arg);

/// The middle of n values, which are sorted.
double samples_median(double *values, unsigned n);
