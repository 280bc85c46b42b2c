#include "kserve/infer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kserve/http/reply.h"
#include "kserve/model/serve_job.h"

#define PIECE 4096 // of text, before it is added to the answer

static void print_result_shape(struct reply *r, const struct job *j, const struct served_model *m,
                               unsigned output)
{
    const rknn_tensor_attr *a = &m->sets[j->set].outputs[output];
    for (uint32_t d = 0; d < a->n_dims; d++)
        reply_print(r, "%s%" PRIu32, d ? "," : "", d == 0 && m->batches ? j->samples : a->dims[d]);
}

static void print_data(struct reply *r, const struct datatype *t, const uint8_t *data,
                       uint64_t size)
{
    char text[PIECE + DATATYPE_TEXT_SIZE + 1];
    size_t n = 0;
    for (uint64_t at = 0; at < size; at += t->size) {
        if (at > 0)
            text[n++] = ',';
        n += datatype_print(t, data + at, text + n);
        if (n >= PIECE) {
            reply_add(r, text, n);
            n = 0;
        }
    }
    reply_add(r, text, n);
}

static uint64_t asked_bytes(const struct job *j, const struct served_model *m, unsigned output)
{
    return job_output_size(m, j->set, output) * (m->batches ? j->samples : 1);
}

static void print_output(struct reply *r, const struct job *j, const struct served_model *m,
                         unsigned output, bool binary)
{
    const struct served_tensor *t = &m->outputs[output];
    reply_print(r, "{\"name\":");
    reply_quote(r, t->name);
    reply_print(r, ",\"datatype\":\"%s\",\"shape\":[", t->type->name);
    print_result_shape(r, j, m, output);
    if (binary) {
        reply_print(r, "],\"parameters\":{\"binary_data_size\":%" PRIu64 "}}",
                    asked_bytes(j, m, output));
        return;
    }
    reply_print(r, "],\"data\":[");
    print_data(r, t->type, j->outputs[output], asked_bytes(j, m, output));
    reply_print(r, "]}");
}

static void write_answer(struct reply *r, const struct request *q, const struct job *j,
                         const struct served_model *m)
{
    bool any = false;
    reply_print(r, "{");
    if (q->has_id) {
        reply_print(r, "\"id\":");
        reply_quote(r, q->id);
        reply_print(r, ",");
    }
    reply_print(r, "\"model_name\":");
    reply_quote(r, m->name);
    reply_print(r, ",\"model_version\":\"%s\",\"outputs\":[", m->version);
    for (unsigned i = 0; i < j->n_asked; i++) {
        bool binary = request_is_binary(q, i);
        any = any || binary;
        if (i > 0)
            reply_print(r, ",");
        print_output(r, j, m, j->asked[i], binary);
    }
    reply_print(r, "]}");
    r->header = any ? r->size : 0;
    for (unsigned i = 0; i < j->n_asked; i++)
        if (request_is_binary(q, i))
            reply_add(r, j->outputs[j->asked[i]], (size_t)asked_bytes(j, m, j->asked[i]));
}

static int check_model(const struct request *q, const struct served_model *m, struct error *e)
{
    if (q->model[0] && strcmp(q->model, m->name) != 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"model_name\" is \"%s\", and the address is that of \"%s\"", q->model,
                         m->name);
    if (q->version[0] && strcmp(q->version, m->version) != 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"model_version\" is \"%s\", and the address is that of version %s",
                         q->version, m->version);
    return 0;
}

static int run_request(struct served_model *m, const struct request *q, struct reply *r,
                       struct error *e)
{
    int s = check_model(q, m, e);
    if (s < 0)
        return s;
    cleanup(free_p) struct job *j = malloc(sizeof *j);
    if (!j)
        return error_no_memory(e, "a request", sizeof *j);
    s = job_prepare(j, q, m, e);
    if (s < 0)
        return s;
    s = job_run(j, m, e);
    if (s == 0)
        write_answer(r, q, j, m);
    job_done(j);
    return s;
}

static void count_failure(struct served_model *m, uint64_t begin)
{
    pthread_mutex_lock(&m->lock);
    statistics_failure(&m->statistics, clock_ns() - begin);
    pthread_mutex_unlock(&m->lock);
}

void infer(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
           struct reply *r)
{
    struct error e;
    uint64_t begin = clock_ns();
    cleanup(free_p) struct request *q = malloc(sizeof *q);
    int s =
        q ? request_parse(q, body, size, header, &e) : error_no_memory(&e, "a request", sizeof *q);
    if (s == 0) {
        s = run_request(m, q, r, &e);
        request_done(q);
    }
    if (s < 0) {
        count_failure(m, begin);
        reply_fail_with(r, &e);
    }
}
