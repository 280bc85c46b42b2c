// Times of something that is done again and again.
#pragma once

/// The median time of one call, in nanoseconds: of some calls after a few that warm up, as many as
/// fit half a second, at least 5 and at most 200.
double samples_median_ns(void (*call)(void *arg), void *arg);
