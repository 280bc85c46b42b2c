#include "tests/unit/npu/open/direct_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "npu/open/direct/direct_form.h"
#include "npu/open/direct/imports.h"
#include "npu/open/open_context.h"
#include "tests/support/sim_run.h"

#define MAX_PORTS 64
#define GUARD     0xa5

// A tensor's bytes beside guards.
struct place {
    struct npu_buffer buffer;
    size_t offset, size; // the tensor ends where the buffer does, as far as it can
    struct convert_form form;
};

struct direct_run {
    struct sim_run s;
    struct npu_input inputs[MAX_PORTS];
    struct npu_output outputs[MAX_PORTS];
    struct place places[2 * MAX_PORTS];
    struct place internal; // for intermediate results
    uint32_t seed;
};

static uint32_t next_random(struct direct_run *r)
{
    return r->seed = r->seed * 1664525 + 1013904223;
}

static uint8_t *data_of(const struct place *p)
{
    return p->buffer.map + p->offset;
}

static void place_free(struct direct_run *r, struct place *p)
{
    if (!p->buffer.map)
        return;
    npu_backend.buffer_gone(r->s.device, &p->buffer);
    munmap(p->buffer.map, (size_t)p->buffer.size);
    close(p->buffer.fd);
    *p = (struct place){0};
}

static void place_new(struct direct_run *r, struct place *p, size_t size)
{
    place_free(r, p);
    p->size = size;
    p->buffer.size = (size + 4096 + 4095) / 4096 * 4096;
    p->offset = (p->buffer.size - size) / 64 * 64;
    p->buffer.fd = memfd_create("direct", MFD_CLOEXEC);
    assert_int_equal(ftruncate(p->buffer.fd, (off_t)p->buffer.size), 0);
    p->buffer.map =
        mmap(NULL, (size_t)p->buffer.size, PROT_READ | PROT_WRITE, MAP_SHARED, p->buffer.fd, 0);
    assert_true(p->buffer.map != MAP_FAILED);
    memset(p->buffer.map, GUARD, (size_t)p->buffer.size);
}

static void check_guards(const struct place *p)
{
    for (uint64_t i = 0; i < p->buffer.size; i++)
        if ((i < p->offset || i >= p->offset + p->size) && p->buffer.map[i] != GUARD)
            fail_msg("byte %lld of a tensor of %zu bytes was written",
                     (long long)i - (long long)p->offset, p->size);
}

// ---- forms ----

enum input_form {
    INPUT_NATIVE,
    INPUT_NATIVE_PADDED,
    INPUT_UINT8,
    INPUT_INT8,
    INPUT_STORED,
    INPUT_STORED_NCHW,
    INPUT_CONVERTED,
    N_INPUT_FORMS
};
static const char *const input_names[] = {"native",    "native, padded", "uint8 NHWC",
                                          "int8 NHWC", "stored NHWC",    "stored NCHW",
                                          "converted"};

// False: the input has no such form.
static bool make_input(struct direct_run *r, uint32_t i, enum input_form form)
{
    const struct tensor_io *io = &r->s.info->inputs[i];
    struct npu_input in = {.type = io->logical.type, .layout = io->logical.layout};
    struct convert_form f = {.type = in.type, .layout = in.layout};
    uint32_t dims[4];
    size_t size = io->logical.size;
    bool image = io->logical.n_dims == 4;
    switch (form) {
    case INPUT_NATIVE:
        in.pass_through = true;
        size = io->native.size;
        break;
    case INPUT_NATIVE_PADDED:
        in.pass_through = true;
        size = io->native.size_with_stride;
        if (size == io->native.size)
            return false;
        break;
    case INPUT_UINT8:
        in.type = TENSOR_UINT8;
        break;
    case INPUT_INT8:
        in.type = TENSOR_INT8;
        break;
    case INPUT_STORED_NCHW:
        if (!image)
            return false;
        in.layout = TENSOR_NCHW;
        // fallthrough
    case INPUT_STORED:
        in.stored = true;
        break;
    default:
        in.converted = true;
    }
    f.type = in.type;
    f.layout = in.layout;
    convert_dims(&io->logical, dims);
    if (!in.pass_through && convert_form_bytes(dims, &f, &size, NULL) < 0)
        return false;
    struct place *p = &r->places[i];
    place_new(r, p, size);
    for (size_t k = 0; k < size; k++)
        data_of(p)[k] = (uint8_t)(next_random(r) >> 24);
    if (tensor_type_size(in.type) == 2)
        for (size_t k = 0; k + 1 < size; k += 2) {
            uint16_t h = convert_float_to_fp16((float)(next_random(r) >> 20) / 2048.f - 1.f);
            memcpy(data_of(p) + k, &h, 2);
        }
    in.data = data_of(p);
    in.size = size;
    r->inputs[i] = in;
    return true;
}

enum output_form { OUTPUT_PLAIN, OUTPUT_NATIVE, OUTPUT_NHWC, N_OUTPUT_FORMS };
static const char *const output_names[] = {"plain", "native", "NHWC"};

static bool make_output(struct direct_run *r, uint32_t i, enum output_form form)
{
    const struct tensor_io *io = &r->s.info->outputs[i];
    uint32_t at = r->s.info->n_inputs + i, dims[4];
    struct convert_form f = {.type = io->logical.type, .layout = io->logical.layout};
    size_t size;
    if (form != OUTPUT_PLAIN && io->logical.n_dims != 4)
        return false;
    if (form == OUTPUT_NATIVE) {
        f.layout = io->native.layout;
        f.c2 = io->native.layout == TENSOR_NC1HWC2 ? io->native.dims[4] : 0;
    }
    if (form == OUTPUT_NHWC)
        f.layout = TENSOR_NHWC;
    convert_dims(&io->logical, dims);
    if (convert_form_bytes(dims, &f, &size, NULL) < 0)
        return false;
    place_new(r, &r->places[at], size);
    r->places[at].form = f;
    r->outputs[i] = (struct npu_output){
        .data = data_of(&r->places[at]), .size = size, .form = &r->places[at].form};
    return true;
}

// ---- runs ----

static void set_dmabufs(struct direct_run *r, bool with)
{
    for (uint32_t i = 0; i < r->s.info->n_inputs; i++)
        r->inputs[i].dmabuf = with ? &r->places[i].buffer : NULL;
    for (uint32_t i = 0; i < r->s.info->n_outputs; i++)
        r->outputs[i].dmabuf = with ? &r->places[r->s.info->n_inputs + i].buffer : NULL;
}

// What fills a last block of channels is nobody's.
static bool is_padding(const struct direct_run *r, uint32_t i, size_t byte)
{
    const struct convert_form *f = &r->places[i].form;
    uint32_t dims[4];
    if (i < r->s.info->n_inputs || f->layout != TENSOR_NC1HWC2)
        return false;
    convert_dims(&r->s.info->outputs[i - r->s.info->n_inputs].logical, dims);
    size_t at = byte / tensor_type_size(f->type), plane = (size_t)dims[2] * dims[3] * f->c2;
    return at / plane * f->c2 + at % f->c2 >= dims[1];
}

static void check_values(const struct direct_run *r, uint32_t i, const uint8_t *wanted)
{
    const struct place *p = &r->places[i];
    for (size_t k = 0; k < p->size; k++)
        if (data_of(p)[k] != wanted[k] && !is_padding(r, i, k))
            fail_msg("tensor %u: byte %zu of %zu is %#x in place, %#x when copied", i, k, p->size,
                     data_of(p)[k], wanted[k]);
}

// Intermediate results in a program's memory in each second round: all commands are written anew.
static void move_internal(struct direct_run *r, int round)
{
    struct place *p = &r->internal;
    struct error e;
    if (round % 2 && !p->buffer.map)
        place_new(r, p, (size_t)r->s.info->internal_size);
    assert_int_equal(npu_backend.context_set_internal(r->s.context, round % 2 ? data_of(p) : NULL,
                                                      round % 2 ? p->size : 0,
                                                      round % 2 ? &p->buffer : NULL, &e),
                     0);
}

// More than once in the first form that port `at` (`before`: ports that had one) has in place;
// commands that are changed are changed again.
static int n_rounds(const struct direct_run *r, uint32_t at, uint64_t before)
{
    if (!r->s.context->places[at].import)
        return 1;
    return r->s.context->places[at].flip == DIRECT_FLIPPED ? 3 : before >> at & 1 ? 1 : 2;
}

static int go_on(struct npu_slices *slices, struct error *e)
{
    (void)slices;
    (void)e;
    return 0;
}

// Runs with copies, then with dma-bufs, and in as many parts as there can be; `mask`: which ports
// were left in place.
static int run_both(struct direct_run *r, uint32_t at, uint64_t *mask, struct error *e)
{
    uint32_t n_in = r->s.info->n_inputs, n = n_in + r->s.info->n_outputs;
    static const atomic_bool never;
    struct npu_slices slices = {.us = 1, .wanted = &never, .wait = go_on};
    uint8_t *wanted[2 * MAX_PORTS] = {0};
    uint64_t before = *mask;
    set_dmabufs(r, false);
    int s = sim_run_once(&r->s, r->inputs, r->outputs, e);
    for (uint32_t i = 0; i < n; i++) {
        wanted[i] = malloc(r->places[i].size + 1);
        memcpy(wanted[i], data_of(&r->places[i]), r->places[i].size);
    }
    set_dmabufs(r, true);
    r->s.slices = &slices;
    for (int round = 0, rounds = 1; round < rounds && s == 0; round++) {
        move_internal(r, round);
        for (uint32_t i = n_in; i < n; i++)
            memset(data_of(&r->places[i]), 0x5a, r->places[i].size);
        s = sim_run_once(&r->s, r->inputs, r->outputs, e);
        rounds = n_rounds(r, at, before);
        for (uint32_t i = 0; i < n && s == 0; i++) {
            if (r->s.context->places[i].import)
                *mask |= UINT64_C(1) << i;
            check_guards(&r->places[i]);
            check_values(r, i, wanted[i]);
        }
    }
    r->s.slices = NULL;
    for (uint32_t i = 0; i < n; i++)
        free(wanted[i]);
    return s;
}

static void print_port(const struct direct_run *r, uint32_t i, const char *form)
{
    const struct direct_place *place = &r->s.context->places[i];
    printf("  %s %u %-14s %s\n", i < r->s.info->n_inputs ? "input " : "output",
           i < r->s.info->n_inputs ? i : i - r->s.info->n_inputs, form,
           place->import ? "in place"
           : place->said ? place->said
                         : "?");
}

// All forms of one port, the others in their first.
static int try_forms(struct direct_run *r, bool input, uint32_t i, uint64_t *mask,
                     struct direct_counts *c, struct error *e)
{
    int s = 0;
    for (int form = 0; form < (input ? N_INPUT_FORMS : N_OUTPUT_FORMS) && s == 0; form++) {
        uint64_t before = *mask;
        bool pixels = input && form == INPUT_UINT8;
        if (c->only_pixels && !pixels)
            continue;
        if (!(input ? make_input(r, i, (enum input_form)form)
                    : make_output(r, i, (enum output_form)form)))
            continue;
        s = run_both(r, input ? i : r->s.info->n_inputs + i, mask, e);
        if (s < 0 && input && before == *mask) { // a form that the model does not take
            if (c->print)
                printf("  input  %u %-14s refused: %.90s\n", i, input_names[form], e->text);
            s = 0;
            continue;
        }
        if (s == 0 && pixels && r->s.context->places[i].import)
            c->pixels++;
        if (c->print && s == 0)
            print_port(r, input ? i : r->s.info->n_inputs + i,
                       input ? input_names[form] : output_names[form]);
    }
    if (input)
        make_input(r, i, INPUT_CONVERTED);
    else
        make_output(r, i, OUTPUT_PLAIN);
    return s;
}

int direct_case_run(const char *options, const char *path, struct direct_counts *counts,
                    struct error *e)
{
    struct direct_run *r = calloc(1, sizeof *r);
    uint64_t mask = 0;
    int s = sim_run_init_with(&r->s, options, path, e);
    uint32_t n_in = s == 0 ? r->s.info->n_inputs : 0, n_out = s == 0 ? r->s.info->n_outputs : 0;
    for (uint32_t i = 0; i < n_in; i++)
        make_input(r, i, INPUT_CONVERTED);
    for (uint32_t i = 0; i < n_out; i++)
        make_output(r, i, OUTPUT_PLAIN);
    for (uint32_t i = 0; i < n_in && s == 0; i++)
        s = try_forms(r, true, i, &mask, counts, e);
    for (uint32_t i = 0; i < n_out && s == 0; i++)
        s = try_forms(r, false, i, &mask, counts, e);
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        *(i < n_in ? &counts->inputs : &counts->outputs) += (unsigned)(mask >> i & 1);
        place_free(r, &r->places[i]);
    }
    place_free(r, &r->internal);
    sim_run_done(&r->s);
    free(r);
    return s;
}
