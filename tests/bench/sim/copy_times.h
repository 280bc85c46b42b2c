// What memory can do.
#pragma once

/// Nanoseconds in which memcpy reads and writes so many bytes together, again and again: what fits
/// a cache stays in it. Sizes are measured as they are asked for, each power of two once.
double copy_time_ns(double bytes);
