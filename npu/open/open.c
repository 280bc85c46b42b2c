// The table that npu.h asks for. Compiled once for each backend that it is: OPEN_BACKEND is "open",
// or a provider's name.
//
// A job runs synchronously on the thread that submits it. A context takes one job at a time;
// contexts of one model may run on several threads, since a model is not changed after loading.
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "npu/open/direct/imports.h"
#include "npu/open/open_describe.h"
#include "npu/open/open_load.h"
#include "npu/open/open_options.h"
#include "npu/open/open_run.h"
#include "npu/sim/describe/describe.h"

struct npu_device {
    struct provider *provider;
    struct imports imports; // when there is a provider
    const struct chip *chip;
    struct npu_device_info info;
};

static void device_free(struct npu_device *d)
{
    if (d && d->provider) {
        imports_done(&d->imports);
        d->provider->ops->free(d->provider);
    }
    free(d);
}

CLEANUP_DEFINE(struct npu_device, device_free)

static int list_paths(const char *options, npu_add_path *add, void *owner, struct error *e)
{
    const struct provider_ops *ops;
    const char *rest;
    struct error wrong; // is said by device_open
    if (open_options_parse(OPEN_BACKEND, options, &ops, &rest, &wrong) < 0 || !ops->list_paths)
        return 0;
    return ops->list_paths(rest, add, owner, e);
}

static int describe_device(struct npu_device *d, struct error *e)
{
    const struct provider_info *info = d->provider->ops->info(d->provider);
    d->chip = chip_find_variant(info->chip);
    if (!d->chip)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "the chip \"%s\" is not known", info->chip);
    d->info =
        (struct npu_device_info){.backend = OPEN_BACKEND,
                                 .n_cores = info->n_cores,
                                 .sram_size = info->sram_size,
                                 .timing = info->timing,
                                 .replaces = true,
                                 .slices = true,
                                 .dma = info->timing == NPU_TIMING_DEVICE && !info->no_import};
    snprintf(d->info.chip, sizeof d->info.chip, "%s", d->chip->name);
    snprintf(d->info.driver_version, sizeof d->info.driver_version, "%s", info->driver);
    snprintf(d->info.runtime_version, sizeof d->info.runtime_version, "rknnd open %s",
             RKNND_VERSION);
    return 0;
}

static int device_open(const char *options, struct npu_device **ret, struct error *e)
{
    cleanup(device_free_p) struct npu_device *d = calloc(1, sizeof *d);
    const struct provider_ops *ops;
    const char *rest;
    if (!d)
        return error_no_memory(e, "a device", sizeof *d);
    int s = open_options_parse(OPEN_BACKEND, options, &ops, &rest, e);
    if (s == 0)
        s = ops->open(rest, &d->provider, e);
    if (s == 0) {
        imports_init(&d->imports, d->provider);
        s = describe_device(d, e);
    }
    if (s < 0)
        return s;
    *ret = steal_ptr(d);
    return 0;
}

static const struct npu_device_info *device_info(const struct npu_device *d)
{
    return &d->info;
}

static int model_load(struct npu_device *d, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e)
{
    return open_load_new(d->provider, &d->imports, d->chip, source, ret, e);
}

static void model_free(struct npu_model *m)
{
    open_load_free(m);
}

static const struct npu_model_info *model_info(const struct npu_model *m)
{
    return &m->info;
}

static int model_describe(struct npu_device *d, const struct npu_model_source *source, char **ret,
                          struct error *e)
{
    int s = describe_rknn(&(struct sim_options){.chip = d->chip}, source->file, ret, e);
    if (s == 0)
        *ret = open_describe(d->provider, d->chip, source->file, *ret);
    return s;
}

static int context_new(struct npu_model *m, struct npu_context **ret, struct error *e)
{
    return open_context_new(m, ret, e);
}

static void context_free(struct npu_context *c)
{
    open_context_free(c);
}

static int context_submit(struct npu_context *c, struct npu_job *job, struct error *e)
{
    if (job->shape_set)
        return error_set(e, STATUS_INPUT_INVALID, "shapes %u of 1", job->shape_set);
    job->done(job, open_run(c, job, &job->error));
    return 0;
}

// Looked at when a job begins: until then the memory may go again.
static int context_set_internal(struct npu_context *c, void *memory, size_t size,
                                const struct npu_buffer *dmabuf, struct error *e)
{
    (void)e;
    c->internal =
        (struct open_internal){.buffer = dmabuf,
                               .offset = dmabuf ? (uint64_t)((uint8_t *)memory - dmabuf->map) : 0,
                               .size = size,
                               .given = memory != NULL,
                               .said = c->internal.said};
    return 0;
}

static const struct npu_layer *context_layers(const struct npu_context *c, size_t *ret_n)
{
    *ret_n = c->n_layers;
    return c->layers;
}

static void buffer_gone(struct npu_device *d, const struct npu_buffer *b)
{
    imports_drop(&d->imports, b);
}

NPU_BACKEND(OPEN_BACKEND, .list_paths = list_paths, .context_set_internal = context_set_internal,
            .buffer_gone = buffer_gone);
