// The file, in this machine's byte order: a header, then each observer that there is, in the order
// of edges: its head, its channels' sums, its bins; then, where that is known, what mmse was found
// to be worth (quant_settle.h). A file that does not fit, or holds what nobody can have seen, is no
// error: the calibration begins anew.
#include "quant/calibrate/quant_state.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAGIC         0x32514b4e52646e71u
#define MOST_CHANNELS (1u << 24)
#define MOST_COUNTED  ((uint64_t)1 << 62)

struct state_head {
    uint64_t magic, fingerprint;
    uint32_t done, n_observers;
};

struct state_observer {
    uint32_t edge, n_channels;
    float min, max;
    uint64_t n, n_summed;
    int32_t exponent, reserved;
};

// Behind it are a byte for each edge and one for each node.
struct state_settled {
    uint64_t fingerprint; // of what the models that were run depend on beside what was seen
    uint32_t n_edges, n_nodes;
};

struct state_hash {
    ProtobufCBuffer base;
    uint64_t hash;
};

static void state_hash_append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    struct state_hash *h = (struct state_hash *)base;
    uint64_t hash = h->hash, word;
    for (; size >= sizeof word; size -= sizeof word, data += sizeof word) {
        memcpy(&word, data, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; size; size--)
        hash = (hash ^ *data++) * 0x100000001b3u;
    h->hash = hash;
}

uint64_t quant_state_fingerprint(const struct rknnd_quant *q, const char *key, uint32_t n_samples,
                                 uint32_t most)
{
    struct state_hash h = {.base = {.append = state_hash_append}, .hash = 0xcbf29ce484222325u};
    quant__model__pack_to_buffer(q->model.proto, &h.base);
    state_hash_append(&h.base, strlen(key), (const uint8_t *)key);
    state_hash_append(&h.base, sizeof n_samples, (const uint8_t *)&n_samples);
    state_hash_append(&h.base, sizeof most, (const uint8_t *)&most);
    state_hash_append(&h.base, 1, &(uint8_t){q->algorithm != QUANT_ALGORITHM_NORMAL}); // tails
    // Other floats of the options need other tensors, which the file may lack.
    for (uint32_t i = 0; i < q->plan.n_edges; i++)
        state_hash_append(&h.base, 1, &(uint8_t){q->plan.places[i].observed});
    return h.hash;
}

static uint64_t state_fingerprint_settled(const struct rknnd_quant *q)
{
    struct state_hash h = {.hash = 0xcbf29ce484222325u};
    const uint8_t options[] = {(uint8_t)q->algorithm, q->per_layer,          q->corrects_bias,
                               q->store.symmetric,    q->store.power_of_two, q->store.bits};
    state_hash_append(&h.base, sizeof options, options);
    state_hash_append(&h.base, q->plan.n_nodes, q->plan.bits);
    state_hash_append(&h.base, q->plan.n_nodes, q->plan.kinds);
    return h.hash;
}

// NULL: not all of it is there.
static bool *state_read_flags(FILE *file, uint32_t n)
{
    bool *flags = calloc((size_t)n + 1, sizeof *flags);
    bool good = flags && fread(flags, sizeof *flags, n, file) == n;
    for (uint32_t i = 0; i < n && good; i++)
        good = ((const uint8_t *)flags)[i] < 2;
    if (good)
        return flags;
    free(flags);
    return NULL;
}

// What was tried with other options, or is not there, is tried again.
static void state_read_settled(struct rknnd_quant *q, FILE *file)
{
    struct state_settled head;
    if (fread(&head, sizeof head, 1, file) != 1 || head.n_edges != q->plan.n_edges ||
        head.n_nodes != q->plan.n_nodes || head.fingerprint != state_fingerprint_settled(q))
        return;
    cleanup(free_p) bool *tensors = state_read_flags(file, head.n_edges);
    cleanup(free_p) bool *weights = state_read_flags(file, head.n_nodes);
    if (tensors && weights)
        q->settled = (struct quant_settled){
            .known = true, .tensors = steal_ptr(tensors), .weights = steal_ptr(weights)};
}

static bool state_write_settled(const struct rknnd_quant *q, FILE *file)
{
    const struct quant_settled *s = &q->settled;
    const struct state_settled head = {.fingerprint = state_fingerprint_settled(q),
                                       .n_edges = q->plan.n_edges,
                                       .n_nodes = q->plan.n_nodes};
    return !s->known || (fwrite(&head, sizeof head, 1, file) == 1 &&
                         fwrite(s->tensors, sizeof(bool), head.n_edges, file) == head.n_edges &&
                         fwrite(s->weights, sizeof(bool), head.n_nodes, file) == head.n_nodes);
}

// Whether it can have been seen: bounds and sums are finite, bins count values.
static bool state_is_sound(const struct observer *o)
{
    uint64_t counted = 0;
    bool sound = observer_is_bounded(o) || (!o->n && o->min > o->max);
    for (uint32_t i = 0; i < o->n_channels && sound; i++)
        sound = isfinite(o->sums[i]);
    for (uint32_t i = 0; i < OBSERVER_BINS && sound; i++)
        sound = !__builtin_add_overflow(counted, o->bins[i], &counted);
    return sound && counted < MOST_COUNTED;
}

// Every tensor that is looked at is there.
static bool state_is_whole(const struct rknnd_quant *q)
{
    bool whole = true;
    for (uint32_t i = 0; i < q->index.n; i++)
        whole &= !q->plan.places[i].observed || q->seen[i].bins;
    return whole;
}

static bool state_read_observer(struct rknnd_quant *q, FILE *file)
{
    struct state_observer head;
    if (fread(&head, sizeof head, 1, file) != 1 || head.edge >= q->index.n ||
        head.n_channels > MOST_CHANNELS || head.exponent < OBSERVER_FINEST || head.exponent > 128)
        return false;
    struct observer *o = &q->seen[head.edge];
    if (o->bins || observer_init(o, head.n_channels, NULL) < 0)
        return false;
    o->min = head.min;
    o->max = head.max;
    o->n = head.n;
    o->n_summed = head.n_summed;
    o->exponent = head.exponent;
    o->counted = true;
    return fread(o->sums, sizeof *o->sums, head.n_channels, file) == head.n_channels &&
           fread(o->bins, sizeof *o->bins, OBSERVER_BINS, file) == OBSERVER_BINS &&
           state_is_sound(o);
}

// Neither a pipe nor a device, which could be waited for without end. Without a file there is no
// error: *ret is NULL.
static int state_open(const char *path, FILE **ret, struct error *e)
{
    struct stat st = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *ret = NULL;
    if (fd < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, STATUS_FAIL, errno, "state %s", path);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (*ret = fdopen(fd, "r")) != NULL)
        return 0;
    int why = errno;
    bool regular = S_ISREG(st.st_mode);
    close(fd);
    return regular ? error_set_errno(e, STATUS_FAIL, why, "state %s", path)
                   : error_set(e, STATUS_PARAM_INVALID, "state %s is no file: name another", path);
}

int quant_state_load(struct rknnd_quant *q, const char *path, uint64_t fingerprint,
                     uint32_t *ret_done, struct error *e)
{
    cleanup(fclose_p) FILE *file = NULL;
    struct state_head head;
    *ret_done = 0;
    int r = state_open(path, &file, e);
    if (r < 0 || !file)
        return r;
    if (fread(&head, sizeof head, 1, file) != 1 || head.magic != MAGIC)
        return error_set(e, STATUS_PARAM_INVALID,
                         "state %s is no unfinished calibration: name another file, or remove it",
                         path);
    bool fits = head.fingerprint == fingerprint;
    for (uint32_t i = 0; i < head.n_observers && fits; i++)
        fits = state_read_observer(q, file);
    fits = fits && state_is_whole(q);
    if (fits)
        *ret_done = head.done;
    if (fits && q->settles)
        state_read_settled(q, file);
    for (uint32_t i = 0; i < q->index.n && !fits; i++)
        observer_done(&q->seen[i]);
    return 0;
}

static bool state_write_observer(const struct observer *o, uint32_t edge, FILE *file)
{
    struct state_observer head = {.edge = edge,
                                  .n_channels = o->n_channels,
                                  .min = o->min,
                                  .max = o->max,
                                  .n = o->n,
                                  .n_summed = o->n_summed,
                                  .exponent = o->exponent};
    return fwrite(&head, sizeof head, 1, file) == 1 &&
           fwrite(o->sums, sizeof *o->sums, o->n_channels, file) == o->n_channels &&
           fwrite(o->bins, sizeof *o->bins, OBSERVER_BINS, file) == OBSERVER_BINS;
}

static bool state_write(const struct rknnd_quant *q, uint64_t fingerprint, uint32_t done,
                        FILE *file)
{
    struct state_head head = {.magic = MAGIC, .fingerprint = fingerprint, .done = done};
    for (uint32_t i = 0; i < q->index.n; i++)
        head.n_observers += q->seen[i].bins != NULL;
    bool good = fwrite(&head, sizeof head, 1, file) == 1;
    for (uint32_t i = 0; i < q->index.n && good; i++)
        if (q->seen[i].bins)
            good = state_write_observer(&q->seen[i], i, file);
    return good && state_write_settled(q, file);
}

int quant_state_save(const struct rknnd_quant *q, const char *path, uint64_t fingerprint,
                     uint32_t done, struct error *e)
{
    cleanup(free_p) char *temporary = NULL;
    if (asprintf(&temporary, "%s.new", path) < 0) {
        temporary = NULL;
        return error_no_memory(e, "a path", 0);
    }
    unlink(temporary); // what a run that was killed has left, or anything else of this name
    FILE *file = fopen(temporary, "wxe");
    if (!file)
        return error_set_errno(e, STATUS_FAIL, errno, "state %s cannot be written", temporary);
    bool good = state_write(q, fingerprint, done, file);
    good &= fclose(file) == 0;
    if (good && rename(temporary, path) == 0)
        return 0;
    int why = errno;
    unlink(temporary);
    return error_set_errno(e, STATUS_FAIL, why, "state %s cannot be written", path);
}
