// What a server says that it saw of a tensor, as words: whatever they are, an observer stays one of
// finite numbers, or the words are refused in words.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/observe/observation.h"

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_observer(const struct observer *o)
{
    check(isfinite(o->min) || o->min > o->max);
    check(isfinite(o->max) || o->min > o->max);
    check(o->exponent >= OBSERVER_FINEST && o->exponent <= 128);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e = {0};
    struct observer o;
    uint64_t n = size / sizeof(int32_t), taken = 0;
    int32_t *words = malloc(n * sizeof *words + 1);
    check(words);
    memcpy(words, data, n * sizeof *words);
    uint32_t channels = observation_channels(words, n);
    check(observer_init(&o, channels, &e) == 0);
    for (uint64_t at = 0; at < n && e.code == 0; at += taken) {
        int r = observation_take(&o, words + at, n - at, &taken, &e);
        check(r == 0 ? taken > 0 && taken <= n - at : r == e.code && e.text[0]);
        check_observer(&o);
    }
    observer_flush(&o);
    check_observer(&o);
    observer_done(&o);
    free(words);
    return 0;
}
