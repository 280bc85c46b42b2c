// What a job answers: its outputs, the end of its dump, or why there are none.
#include "base/log.h"
#include "server/clients/session.h"
#include "server/jobs/job.h"
#include "server/metrics/metrics.h"
#include "server/net/connection.h"

// For request_answer(): the reply, whose payload is the job's buffer, has been sent.
static void job_release(void *owner)
{
    struct job *j = owner;
    metrics_observe(&j->all->metrics->transfer[METRICS_OUT], now_us() - j->since_us);
    job_drop(j);
}

// Answers with an error, counts the failure, and frees the job.
void job_fail(struct job *j, const struct error *e)
{
    j->all->n_failed++;
    j->session->jobs_failed++;
    job_count(j, METRICS_FAILED);
    request_fail(&j->request, e);
    job_drop(j);
}

static void job_count_done(struct job *j)
{
    j->all->n_done++;
    j->session->jobs_done++;
    j->state = JOB_DONE;
    j->since_us = now_us();
    job_count(j, METRICS_DONE);
}

// Whether a bound output is to be sent as well (Infer.outputs_back).
static bool goes_back(const struct job *j, uint32_t output)
{
    return output < 128 && j->outputs_back[output / 64] >> output % 64 & 1;
}

// Bytes of bound outputs that are sent as well; they are counted although they are not in the
// buffer, because they wait for the client just the same.
uint64_t job_back_size(const struct job *j)
{
    const struct binding *b = j->run.binding;
    uint64_t size = 0;
    for (uint32_t i = 0; b && i < b->n_outputs; i++)
        size += goes_back(j, i) ? b->tensors[b->n_inputs + i].size : 0;
    return size;
}

// The reply's payload, in the order of outputs: those in the buffer, cut to the client's limit, and
// bound ones that are to be sent. Without bindings the outputs are contiguous: one segment.
static int gather_outputs(const struct job *j, const struct model_info *info,
                          struct iovec *segments)
{
    const struct binding *b = j->run.binding;
    uint8_t *at = j->run.buffer->output;
    size_t left = (size_t)j->output_size;
    int n = 0;
    if (!b) {
        segments[0] = (struct iovec){at, left};
        return left > 0;
    }
    for (uint32_t i = info->n_inputs; i < info->n_inputs + info->n_outputs; i++) {
        const struct bound *place = binding_find(b, i);
        size_t all = model_info_shape_set(info, j->run.shape_set)[i].logical.size;
        size_t size = place ? 0 : all < left ? all : left;
        if (size > 0)
            segments[n++] = (struct iovec){at, size};
        if (place && goes_back(j, i - info->n_inputs))
            segments[n++] =
                (struct iovec){place->memory->buffer.map + place->offset, (size_t)place->size};
        at += size;
        left -= size;
    }
    return n;
}

// The outputs are sent straight from the buffer or the bound memory, so the job must stay until
// they are gone.
static void job_answer(struct job *j, const struct model_info *info)
{
    rknnd_InferReply m = {
        .run_us = j->run.run_us,
        .estimate_ns = j->run.estimate_ns,
        .queue_us = j->queued_us,
        .attempts = j->run.attempts,
        .core_mask = j->run.core_mask,
    };
    struct iovec outputs[FRAME_MAX_SEGMENTS];
    int n = j->no_outputs ? 0 : gather_outputs(j, info, outputs);
    job_count_done(j);
    request_answer(&j->request, rknnd_InferReply_fields, &m, outputs, n, job_release, j);
}

static void job_answer_dump(struct job *j)
{
    rknnd_DumpReply m = {.n_tensors = j->run.n_tensors};
    job_count_done(j);
    request_answer(&j->request, rknnd_DumpReply_fields, &m, NULL, 0, job_release, j);
}

// What becomes of a job whose run has ended; frees it now, or when the reply has been sent.
void job_conclude(struct job *j, const struct error *e, const struct model_info *info)
{
    if (e && j->request.connection)
        log_warn("c%u j%llu: %s", j->request.connection->number, (unsigned long long)j->number,
                 e->text);
    if (e && !j->request.connection)
        job_drop(j); // stopped, or as good as
    else if (e)
        job_fail(j, e);
    else if (j->dump)
        job_answer_dump(j);
    else
        job_answer(j, info);
}
