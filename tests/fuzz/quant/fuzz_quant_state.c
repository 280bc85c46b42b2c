// What a calibration keeps in files: its state, and the table of a hybrid quantization, which
// people edit. A byte of choices, the length of the state (3 bytes, the lowest one first), the
// state, the table. Whatever is taken gives scales that can be written, noise that is a number, and
// a model that can be read again.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "quant/calibrate/quant_state.h"
#include "quant/hybrid/quant_floats.h"
#include "quant/hybrid/quant_hybrid.h"
#include "quant/hybrid/quant_noise.h"
#include "quant/hybrid/quant_units.h"

#define BEGINS      4
#define FINGERPRINT 8 // bytes of the state before it

static void check(bool ok)
{
    if (!ok)
        abort();
}

// A file in memory, by a name that functions can open.
static int file_of(const uint8_t *data, size_t size, char *path, size_t room)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, room, "/proc/self/fd/%d", fd);
    return fd;
}

// That of another model is no calibration of this one, so bytes made by chance get the right one.
static bool load_state(struct rknnd_quant *q, const uint8_t *data, size_t size)
{
    char path[64];
    uint32_t done = 0;
    struct error e;
    uint64_t fingerprint = quant_state_fingerprint(q, "", 1, 128);
    cleanup(free_p) uint8_t *own = malloc(size + 1);
    check(own);
    memcpy(own, data, size);
    if (size >= FINGERPRINT + sizeof fingerprint)
        memcpy(own + FINGERPRINT, &fingerprint, sizeof fingerprint);
    int fd = file_of(own, size, path, sizeof path);
    int r = quant_state_load(q, path, fingerprint, &done, &e);
    close(fd);
    check(r == 0 || r == e.code);
    for (uint32_t i = 0; r == 0 && done && i < q->index.n; i++)
        check(!q->plan.places[i].observed || q->seen[i].bins);
    return r == 0 && done > 0;
}

static void check_forms(const struct rknnd_quant *q)
{
    for (uint32_t i = 0; i < q->index.n; i++) {
        struct quant_form f = q->layout.forms[q->now.places[i].group];
        check(!q->now.places[i].quantized ||
              (f.scale > 0 && isfinite(f.scale) && f.zp >= -32768 && f.zp <= 32767));
    }
}

static void look_for_units(struct rknnd_quant *q)
{
    struct error e;
    struct quant_unit *units = NULL;
    uint32_t n = 0;
    check(quant_noise_measure(q, &e) == 0);
    check(quant_units_make(q, &units, &n, &e) == 0);
    for (uint32_t i = 0; i < n; i++)
        check(units[i].n > 0 && units[i].n <= 2 && units[i].noise >= 0);
    quant_units_sort(units, n);
    for (uint32_t i = 1; i + 1 < n; i++)
        check(units[i - 1].noise >= units[i].noise);
    free(units);
}

static void read_table(struct rknnd_quant *q, const uint8_t *data, size_t size)
{
    char path[64];
    struct error e = {0};
    int fd = file_of(data, size, path, sizeof path);
    int r = quant_hybrid_read(q, path, &e);
    close(fd);
    check(r == 0 || (r == e.code && e.text[0]));
    check_forms(q);
}

static void make(struct rknnd_quant *q)
{
    struct error e;
    struct quant_model m, again;
    check(quant_make(q, &m, &e) == 0);
    size_t size = quant__model__get_packed_size(m.proto);
    cleanup(free_p) uint8_t *bytes = malloc(size);
    check(bytes && quant__model__pack(m.proto, bytes) == size &&
          quant_model_parse(&again, bytes, size, "/nowhere", &e) == 0);
    quant_model_done(&again);
    quant_model_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e;
    struct rknnd_quant *q;
    if (size < BEGINS)
        return 0;
    const rknnd_quant_options options = {.struct_size = sizeof options,
                                         .algorithm = data[0] % 3,
                                         .symmetric = data[0] >> 2 & 1,
                                         .per_layer = data[0] >> 3 & 1};
    size_t n = data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16, left = size - BEGINS;
    n = n < left ? n : left;
    check(rknnd_quant_open(MODEL, &options, &q) == 0);
    q->seen = calloc(q->index.n + 1, sizeof *q->seen);
    q->edits = calloc(q->index.n + 1, sizeof *q->edits);
    check(q->seen && q->edits && quant_floats_begin(q, &e) == 0);
    if (load_state(q, data + BEGINS, n)) {
        check(quant_floats_choose(q, &e) == 0);
        q->calibrated = true;
        check_forms(q);
        look_for_units(q);
        read_table(q, data + BEGINS + n, left - n);
        make(q);
    }
    rknnd_quant_free(q);
    return 0;
}
