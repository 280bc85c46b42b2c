#include "tests/unit/npu/open/digits_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/sim_support.h"

#define DIGITS  PROJECT_ROOT "/examples/digits/digits.rknn"
#define PICTURE (8 * 8)

static char compatible[128];          // a device tree's list
static float expected[DIGITS_SCORES]; // by the emulator
static uint8_t picture[PICTURE];

static int digits_run(struct sim_run *s, float *scores, struct error *e)
{
    struct npu_input input = {
        .data = picture, .size = PICTURE, .type = TENSOR_UINT8, .layout = TENSOR_NHWC};
    struct convert_form form = {.type = TENSOR_FLOAT32,
                                .layout = s->info->outputs[0].logical.layout};
    struct npu_output output = {
        .data = scores, .size = DIGITS_SCORES * sizeof *scores, .form = &form};
    return sim_run_once(s, &input, &output, e);
}

int digits_whole(const char *options, float scores[DIGITS_SCORES], struct error *e)
{
    struct sim_run s;
    char words[256];
    snprintf(words, sizeof words, "%s%s", options, compatible);
    int status = sim_run_init_with(&s, words, DIGITS, e);
    if (status == 0)
        status = digits_run(&s, scores, e);
    if (status == 0)
        status = digits_run(&s, scores, e);
    sim_run_done(&s);
    return status;
}

const float *digits_expected(void)
{
    return expected;
}

static int write_chip(const char *chip)
{
    FILE *f = fopen(compatible, "w");
    return !f || fprintf(f, "our,board%crockchip,%s", 0, chip) < 0 || fclose(f) != 0 ? -1 : 0;
}

int digits_of_chip(const char *chip, const char *options, struct error *e)
{
    float scores[DIGITS_SCORES];
    int status = write_chip(chip);
    if (status == 0)
        status = digits_whole(options, scores, e);
    return write_chip("rk3588") < 0 ? -1 : status;
}

int digits_direct_init(struct digits_direct *d, const char *options, struct error *e)
{
    char words[256];
    *d = (struct digits_direct){
        .buffer = {.fd = memfd_create("picture", MFD_CLOEXEC), .size = 4096}};
    if (d->buffer.fd < 0 || ftruncate(d->buffer.fd, (off_t)d->buffer.size) < 0)
        return error_set(e, STATUS_FAIL, "no memfd");
    d->buffer.map =
        mmap(NULL, (size_t)d->buffer.size, PROT_READ | PROT_WRITE, MAP_SHARED, d->buffer.fd, 0);
    for (uint32_t i = 0; i < DIGITS_PICTURE; i++)
        d->buffer.map[DIGITS_PICTURE + i] = (uint8_t)(i * 37 + i * i % 11);
    snprintf(words, sizeof words, "%s%s", options, strstr(options, "=") ? compatible : "");
    return sim_run_init_with(&d->s, words, DIGITS, e);
}

void digits_direct_done(struct digits_direct *d)
{
    sim_run_done(&d->s);
    munmap(d->buffer.map, (size_t)d->buffer.size);
    close(d->buffer.fd);
}

int digits_direct_run(struct digits_direct *d, const struct npu_buffer *dmabuf,
                      float scores[DIGITS_SCORES], struct error *e)
{
    struct npu_input input = {.data = d->buffer.map + DIGITS_PICTURE,
                              .size = DIGITS_PICTURE,
                              .pass_through = true,
                              .dmabuf = dmabuf};
    struct convert_form form = {.type = TENSOR_FLOAT32,
                                .layout = d->s.info->outputs[0].logical.layout};
    struct npu_output output = {
        .data = scores, .size = DIGITS_SCORES * sizeof *scores, .form = &form};
    if (dmabuf)
        input.data = dmabuf->map + DIGITS_PICTURE;
    return sim_run_once(&d->s, &input, &output, e);
}

#define MAX_PORTS 32

// Small numbers of the model's own, and room for its outputs, in one piece.
static int shared_run(struct sim_run *s, uint8_t *in, uint8_t *out, struct error *e)
{
    struct npu_input inputs[MAX_PORTS] = {0};
    struct npu_output outputs[MAX_PORTS] = {0};
    for (uint32_t i = 0; i < s->info->n_inputs; i++) {
        size_t size = s->info->inputs[i].logical.size;
        inputs[i] = (struct npu_input){.data = in, .size = size, .converted = true};
        for (size_t k = 0; k < size; k++)
            in[k] = (uint8_t)((k * 37 + (k >> 7) * 11) % 23);
        in += size;
    }
    for (uint32_t i = 0; i < s->info->n_outputs; i++) {
        size_t size = s->info->outputs[i].logical.size;
        outputs[i] = (struct npu_output){.data = out, .size = size};
        out += size;
    }
    s->collect_perf = true;
    return sim_run_once(s, inputs, outputs, e);
}

static unsigned count_left(const struct sim_run *s)
{
    size_t n;
    unsigned left = 0;
    const struct npu_layer *layers = npu_backend.context_layers(s->context, &n);
    for (size_t i = 0; i < n; i++)
        left += strcmp(layers[i].target, "CPU") == 0;
    return left;
}

static int shared_loaded(struct sim_run *s, uint8_t **ret, size_t *ret_size, unsigned *left,
                         struct error *e)
{
    size_t in = 1, out = 0;
    for (uint32_t i = 0; i < s->info->n_inputs; i++)
        in += s->info->inputs[i].logical.size;
    for (uint32_t i = 0; i < s->info->n_outputs; i++)
        out += s->info->outputs[i].logical.size;
    uint8_t *inputs = malloc(in), *outputs = calloc(1, out + 1);
    int status =
        inputs && outputs ? shared_run(s, inputs, outputs, e) : error_no_memory(e, "outputs", out);
    free(inputs);
    if (status < 0) {
        free(outputs);
        return status;
    }
    *ret = outputs;
    *ret_size = out;
    *left = count_left(s);
    return 0;
}

int digits_shared(const char *options, const char *name, uint32_t core_mask, uint8_t **ret,
                  size_t *ret_size, unsigned *left, struct error *e)
{
    struct sim_run s;
    char words[256], path[512];
    const char *folder = sim_shared_folder();
    *ret = NULL;
    snprintf(path, sizeof path, "%s/models/%s", folder ? folder : "", name);
    if (!folder || access(path, R_OK) < 0)
        return 0;
    snprintf(words, sizeof words, "%s%s", options, strstr(options, "=") ? compatible : "");
    int status = sim_run_init_with(&s, words, path, e);
    s.core_mask = core_mask;
    if (status == 0)
        status = shared_loaded(&s, ret, ret_size, left, e);
    sim_run_done(&s);
    return status;
}

int digits_begin(void **state)
{
    struct error e = {0};
    struct sim_run s;
    const char *folder = getenv("TMPDIR");
    (void)state;
    snprintf(compatible, sizeof compatible, "%.90s/rknnd-compatible-%d", folder ? folder : "/tmp",
             (int)getpid());
    if (write_chip("rk3588") < 0)
        return -1;
    for (int i = 0; i < PICTURE; i++)
        picture[i] = (uint8_t)(i % 8 == 3 || i % 8 == 4 ? 250 : i % 7);
    int status = sim_run_init_with(&s, "emu:rk3588", DIGITS, &e);
    if (status == 0)
        status = digits_run(&s, expected, &e);
    sim_run_done(&s);
    if (status < 0)
        fprintf(stderr, "%s\n", e.text);
    return status;
}

int digits_end(void **state)
{
    (void)state;
    return remove(compatible);
}
