// How much of the loop's time what a peer asks for may take, beside runs: a bucket of microseconds.
//
// What a message takes is said in a table (handle/dispatch.c), not measured: so it is the same on
// every machine, and nobody pays for what others do. Loop thread only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate {
    uint64_t spent_us, since_ms; // as it was then
};

/// Takes what may lead past the bucket's end, of which `percent` of the time flow back.
void rate_spend(struct rate *r, uint32_t percent, uint64_t now_ms, uint32_t us);

/// Whether more may be spent; and whether something has been, lately.
bool rate_has(const struct rate *r, uint32_t percent, uint64_t now_ms);
bool rate_is_used(const struct rate *r, uint32_t percent, uint64_t now_ms);
