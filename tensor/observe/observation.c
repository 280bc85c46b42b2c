#include "tensor/observe/observation.h"

#include <string.h>

void observation_put(const struct observer *o, int32_t *words)
{
    memcpy(words, &o->min, sizeof o->min);
    memcpy(words + 1, &o->max, sizeof o->max);
    memcpy(words + 2, &o->n, sizeof o->n);
    words[4] = (int32_t)(o->n_bad < INT32_MAX ? o->n_bad : INT32_MAX);
    words[5] = o->exponent;
    words[6] = (int32_t)o->n_channels;
    words[7] = o->bins ? OBSERVER_BINS : 0;
    memcpy(words + OBSERVATION_HEAD, o->sums, o->n_channels * sizeof *o->sums);
    uint32_t *bins = (uint32_t *)words + OBSERVATION_HEAD + 2 * (size_t)o->n_channels;
    for (uint32_t i = 0; o->bins && i < OBSERVER_BINS; i++)
        bins[i] = (uint32_t)o->bins[i];
}

static void observation_merge(struct observer *o, const int32_t *words)
{
    struct observer seen = {.n_bad = (uint32_t)words[4], .exponent = words[5]};
    const int32_t *sums = words + OBSERVATION_HEAD;
    uint32_t n_channels = (uint32_t)words[6];
    const uint32_t *counts = (const uint32_t *)sums + 2 * (size_t)n_channels;
    uint64_t bins[OBSERVER_BINS];
    memcpy(&seen.min, words, sizeof seen.min);
    memcpy(&seen.max, words + 1, sizeof seen.max);
    memcpy(&seen.n, words + 2, sizeof seen.n);
    for (uint32_t i = 0; words[7] && i < OBSERVER_BINS; i++)
        bins[i] = counts[i];
    seen.bins = words[7] ? bins : NULL;
    observer_merge(o, &seen);
    for (uint32_t c = 0; c < n_channels; c++) {
        double sum;
        memcpy(&sum, sums + 2 * (size_t)c, sizeof sum);
        o->sums[c] += sum;
    }
    o->n_summed += n_channels ? seen.n : 0;
}

uint32_t observation_channels(const int32_t *words, uint64_t n)
{
    uint32_t channels = n >= OBSERVATION_HEAD ? (uint32_t)words[6] : 0;
    return 2 * (uint64_t)channels <= n ? channels : 0;
}

uint64_t observation_take(struct observer *o, const int32_t *words, uint64_t n)
{
    if (n < OBSERVATION_HEAD || (words[6] && (uint32_t)words[6] != o->n_channels) || words[4] < 0 ||
        words[5] < OBSERVER_FINEST || words[5] > 128 || (words[7] && words[7] != OBSERVER_BINS))
        return 0;
    uint64_t all = observation_words((uint32_t)words[6], words[7] != 0);
    if (n < all)
        return 0;
    observation_merge(o, words);
    return all;
}
