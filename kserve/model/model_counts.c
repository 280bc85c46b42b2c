// Counts are kept as the statistics extension prints them, so that printing is all there is to do
// when somebody asks. Of a run of several requests each one counts the whole run's time: that is
// how long it took for it. The caller has the model's lock.
#include "kserve/model/model_counts.h"

#include <inttypes.h>
#include <time.h>

#include "kserve/http/reply.h"

static void duration_add(struct duration *d, uint64_t count, uint64_t ns)
{
    d->count += count;
    d->ns += ns;
}

static void times_add(struct batch_times *b, uint64_t n, const struct run_times *t)
{
    duration_add(&b->input, n, n * t->input_ns);
    duration_add(&b->infer, n, n * t->infer_ns);
    duration_add(&b->output, n, n * t->output_ns);
}

void statistics_run(struct statistics *s, uint32_t samples, uint32_t n, const struct run_times *t)
{
    uint32_t batch = samples < STATISTICS_MAX_BATCH ? samples : STATISTICS_MAX_BATCH;
    s->executions++;
    times_add(&s->batches[batch], 1, t);
    times_add(&s->all, n, t);
}

void statistics_success(struct statistics *s, uint32_t samples, uint64_t queue_ns, uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s->last_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    s->inferences += samples;
    duration_add(&s->success, 1, ns);
    duration_add(&s->queue, 1, queue_ns);
}

void statistics_failure(struct statistics *s, uint64_t ns)
{
    duration_add(&s->fail, 1, ns);
}

static void print_duration(struct reply *r, const char *name, const struct duration *d)
{
    reply_print(r, "\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "},", name, d->count, d->ns);
}

static void print_times(struct reply *r, const struct batch_times *t)
{
    print_duration(r, "compute_input", &t->input);
    print_duration(r, "compute_infer", &t->infer);
    print_duration(r, "compute_output", &t->output);
}

void statistics_print(const struct statistics *s, struct reply *r)
{
    static const struct duration none;
    reply_print(r,
                "\"last_inference\":%" PRIu64 ",\"inference_count\":%" PRIu64
                ",\"execution_count\":%" PRIu64 ",\"inference_stats\":{",
                s->last_ms, s->inferences, s->executions);
    print_duration(r, "success", &s->success);
    print_duration(r, "fail", &s->fail);
    print_duration(r, "queue", &s->queue);
    print_times(r, &s->all);
    print_duration(r, "cache_hit", &none);
    reply_print(r, "\"cache_miss\":{\"count\":0,\"ns\":0}},\"batch_stats\":[");
    const char *comma = "";
    for (uint32_t i = 0; i <= STATISTICS_MAX_BATCH; i++) {
        if (s->batches[i].infer.count == 0)
            continue;
        reply_print(r, "%s{", comma);
        print_times(r, &s->batches[i]);
        reply_print(r, "\"batch_size\":%" PRIu32 "}", i);
        comma = ",";
    }
    reply_print(r, "]");
}
