// Remembers the last job of a context in one shape set, with copies of inputs and outputs in one
// block:
//
// |input 0|input 1|...|output 0|output 1|...|
//
// Programs that measure run the same input again and again; a paced device answers those without
// computing. Used by run_paced(), on the thread of the job.
#include "npu/sim/result_cache.h"

#include <stdlib.h>

#include "base/cleanup.h"

void result_cache_done(struct result_cache *c)
{
    free(c->inputs);
    free(c->outputs);
    free(c->forms);
    free(c->block);
    *c = (struct result_cache){0};
}

// Whether two inputs mean the same: bytes and every field that changes how they are interpreted.
static bool same_input(const struct npu_input *a, const struct npu_input *b)
{
    return a->size == b->size && a->type == b->type && a->layout == b->layout &&
           a->w_stride == b->w_stride && a->h_stride == b->h_stride &&
           a->pass_through == b->pass_through && a->converted == b->converted &&
           a->stored == b->stored && memcmp(a->data, b->data, a->size) == 0;
}

static bool same_form(const struct convert_form *a, const struct convert_form *b)
{
    if (!a || !b)
        return a == b;
    return a->type == b->type && a->layout == b->layout && a->w_stride == b->w_stride &&
           a->h_stride == b->h_stride && a->c2 == b->c2;
}

// Whether the kept output can be copied into the wanted one: same size and same conversion.
static bool has_output(const struct npu_output *kept, const struct npu_output *wanted)
{
    return !wanted->data ||
           (kept->data && kept->size == wanted->size && same_form(kept->form, wanted->form));
}

// Outputs are checked first, as that is cheap; inputs may be megabytes to compare.
bool result_cache_answer(const struct result_cache *c, const struct npu_job *job)
{
    if (!c->block)
        return false;
    for (uint32_t i = 0; i < c->n_outputs; i++)
        if (!has_output(&c->outputs[i], &job->outputs[i]))
            return false;
    for (uint32_t i = 0; i < c->n_inputs; i++)
        if (!same_input(&c->inputs[i], &job->inputs[i]))
            return false;
    for (uint32_t i = 0; i < c->n_outputs; i++)
        if (job->outputs[i].data)
            memcpy(job->outputs[i].data, c->outputs[i].data, c->outputs[i].size);
    return true;
}

// Bytes of all copies; never 0, for which malloc might return NULL.
static size_t cache_bytes(const struct npu_job *job, uint32_t n_inputs, uint32_t n_outputs)
{
    size_t total = 1;
    for (uint32_t i = 0; i < n_inputs; i++)
        total += job->inputs[i].size;
    for (uint32_t i = 0; i < n_outputs; i++)
        total += job->outputs[i].data ? job->outputs[i].size : 0;
    return total;
}

// Appends to the block and returns where the copy is.
static void *cache_copy(uint8_t **at, const void *data, size_t size)
{
    void *ret = memcpy(*at, data, size);
    *at += size;
    return ret;
}

// Copies everything the job points to, because its buffers belong to the client. Output forms are
// copied too. A failed allocation leaves the cache empty: the next job is just computed.
void result_cache_keep(struct result_cache *c, const struct npu_job *job, uint32_t n_inputs,
                       uint32_t n_outputs)
{
    result_cache_done(c);
    c->n_inputs = n_inputs;
    c->n_outputs = n_outputs;
    c->inputs = calloc(n_inputs + 1, sizeof *c->inputs);
    c->outputs = calloc(n_outputs + 1, sizeof *c->outputs);
    uint8_t *at = c->block = malloc(cache_bytes(job, n_inputs, n_outputs));
    c->forms = calloc(n_outputs + 1, sizeof *c->forms);
    if (!c->inputs || !c->outputs || !c->forms || !c->block) {
        result_cache_done(c);
        return;
    }
    for (uint32_t i = 0; i < n_inputs; i++) {
        c->inputs[i] = job->inputs[i];
        c->inputs[i].data = cache_copy(&at, job->inputs[i].data, job->inputs[i].size);
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        c->outputs[i] = job->outputs[i];
        if (job->outputs[i].form) {
            c->forms[i] = *job->outputs[i].form;
            c->outputs[i].form = &c->forms[i];
        }
        if (job->outputs[i].data)
            c->outputs[i].data = cache_copy(&at, job->outputs[i].data, job->outputs[i].size);
    }
}
