// Nothing is done as time goes by: what has flowed back is counted when somebody asks.
#include "server/clients/rate.h"

#define BURST_MS 500 // of its rate may be spent at once

static uint64_t spent_now(const struct rate *r, uint32_t percent, uint64_t now_ms)
{
    uint64_t back_us = (now_ms - r->since_ms) * percent * 10;
    return r->spent_us > back_us ? r->spent_us - back_us : 0;
}

void rate_spend(struct rate *r, uint32_t percent, uint64_t now_ms, uint32_t us)
{
    *r = (struct rate){spent_now(r, percent, now_ms) + us, now_ms};
}

bool rate_has(const struct rate *r, uint32_t percent, uint64_t now_ms)
{
    return spent_now(r, percent, now_ms) < UINT64_C(10) * percent * BURST_MS;
}

bool rate_is_used(const struct rate *r, uint32_t percent, uint64_t now_ms)
{
    return spent_now(r, percent, now_ms) > 0;
}
