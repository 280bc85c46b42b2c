// Remembers a job.
#include "npu/sim/result_cache.h"

#include <stdlib.h>

#include "base/cleanup.h"

void memo_done(struct memo *m)
{
    free(m->inputs);
    free(m->outputs);
    free(m->forms);
    free(m->block);
    *m = (struct memo){0};
}

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

static bool has_output(const struct npu_output *kept, const struct npu_output *wanted)
{
    return !wanted->data ||
           (kept->data && kept->size == wanted->size && same_form(kept->form, wanted->form));
}

bool memo_answer(const struct memo *m, const struct npu_job *job)
{
    if (!m->block)
        return false;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        if (!has_output(&m->outputs[i], &job->outputs[i]))
            return false;
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (!same_input(&m->inputs[i], &job->inputs[i]))
            return false;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        if (job->outputs[i].data)
            memcpy(job->outputs[i].data, m->outputs[i].data, m->outputs[i].size);
    return true;
}

static size_t bytes_of(const struct npu_job *job, uint32_t n_inputs, uint32_t n_outputs)
{
    size_t total = 1;
    for (uint32_t i = 0; i < n_inputs; i++)
        total += job->inputs[i].size;
    for (uint32_t i = 0; i < n_outputs; i++)
        total += job->outputs[i].data ? job->outputs[i].size : 0;
    return total;
}

static void *copy(uint8_t **at, const void *data, size_t size)
{
    void *ret = memcpy(*at, data, size);
    *at += size;
    return ret;
}

void memo_keep(struct memo *m, const struct npu_job *job, uint32_t n_inputs, uint32_t n_outputs)
{
    memo_done(m);
    m->n_inputs = n_inputs;
    m->n_outputs = n_outputs;
    m->inputs = calloc(n_inputs + 1, sizeof *m->inputs);
    m->outputs = calloc(n_outputs + 1, sizeof *m->outputs);
    uint8_t *at = m->block = malloc(bytes_of(job, n_inputs, n_outputs));
    m->forms = calloc(n_outputs + 1, sizeof *m->forms);
    if (!m->inputs || !m->outputs || !m->forms || !m->block) {
        memo_done(m);
        return;
    }
    for (uint32_t i = 0; i < n_inputs; i++) {
        m->inputs[i] = job->inputs[i];
        m->inputs[i].data = copy(&at, job->inputs[i].data, job->inputs[i].size);
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        m->outputs[i] = job->outputs[i];
        if (job->outputs[i].form) {
            m->forms[i] = *job->outputs[i].form;
            m->outputs[i].form = &m->forms[i];
        }
        if (job->outputs[i].data)
            m->outputs[i].data = copy(&at, job->outputs[i].data, job->outputs[i].size);
    }
}
