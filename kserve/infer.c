#include "kserve/infer.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kserve/classes.h"
#include "kserve/http/reply.h"
#include "kserve/model/placement.h"
#include "kserve/model/quick_run.h"
#include "kserve/model/serve_job.h"
#include "kserve/request/request_kept.h"

#define PIECE       4096  // of text, before it is added to the answer
#define SMALL       16384 // bytes, for which nobody asks
#define TEXT_OF     4     // bytes of text that become of one of a tensor, as a rule
#define PATIENCE_MS 30000 // for memory, as for a context: others' runs end, and their answers go

static void print_result_shape(struct reply *r, const struct job *j, const struct served_model *m,
                               unsigned output)
{
    const rknn_tensor_attr *a = &m->sets[j->set].outputs[output];
    for (uint32_t d = 0; d < a->n_dims; d++) {
        reply_text(r, d ? "," : "");
        reply_number(r, d == 0 && m->batches ? j->samples : a->dims[d]);
    }
}

static void print_data(struct reply *r, const struct datatype *t, const uint8_t *data,
                       uint64_t size)
{
    char text[PIECE + DATATYPE_TEXT_SIZE + 1];
    size_t n = 0;
    for (uint64_t at = 0; at < size && !r->no_memory; at += t->size) {
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

// Of an output that is asked for as classes: `i` is its place in the request.
static struct classes classes_of(const struct request *q, const struct job *j,
                                 const struct served_model *m, unsigned i)
{
    unsigned output = j->asked[i];
    const struct served_tensor *t = &m->outputs[output];
    return (struct classes){.type = t->type,
                            .data = j->outputs[output],
                            .n = job_output_size(m, j->set, output) / t->type->size,
                            .rows = m->batches ? j->samples : 1,
                            .most = q->outputs[i].classes,
                            .labels = &m->labels};
}

static bool wants_classes(const struct request *q, unsigned i)
{
    return i < q->n_outputs && q->outputs[i].classes > 0;
}

// As bytes they go behind the JSON, which says how many there are: they are kept in `found`, so
// that the output is looked through once. NULL: as JSON.
static void print_classes(struct reply *r, const struct classes *c, const char *name, bool batches,
                          struct reply *found)
{
    reply_text(r, "{\"name\":");
    reply_quote(r, name);
    reply_text(r, ",\"datatype\":\"BYTES\",\"shape\":[");
    if (batches) {
        reply_number(r, c->rows);
        reply_text(r, ",");
    }
    reply_number(r, classes_of_row(c));
    if (found) {
        size_t before = found->size;
        classes_add(c, true, found);
        reply_text(r, "],\"parameters\":{\"binary_data_size\":");
        reply_number(r, found->size - before);
        reply_text(r, "}}");
        return;
    }
    reply_text(r, "],\"data\":[");
    classes_add(c, false, r);
    reply_text(r, "]}");
}

static void print_output(struct reply *r, const struct job *j, const struct served_model *m,
                         unsigned output, bool binary)
{
    const struct served_tensor *t = &m->outputs[output];
    reply_text(r, "{\"name\":");
    reply_quote(r, t->name);
    reply_text(r, ",\"datatype\":\"");
    reply_text(r, t->type->name);
    reply_text(r, "\",\"shape\":[");
    print_result_shape(r, j, m, output);
    if (binary) {
        reply_text(r, "],\"parameters\":{\"binary_data_size\":");
        reply_number(r, asked_bytes(j, m, output));
        reply_text(r, "}}");
        return;
    }
    reply_text(r, "],\"data\":[");
    print_data(r, t->type, j->outputs[output], asked_bytes(j, m, output));
    reply_text(r, "]}");
}

// sizes[i]: how many bytes of `found` are output i's.
static void print_outputs(struct reply *r, const struct request *q, const struct job *j,
                          const struct served_model *m, struct reply *found, size_t *sizes)
{
    for (unsigned i = 0; i < j->n_asked; i++) {
        bool binary = request_is_binary(q, i);
        size_t before = found->size;
        if (i > 0)
            reply_text(r, ",");
        if (wants_classes(q, i)) {
            const struct classes c = classes_of(q, j, m, i);
            print_classes(r, &c, m->outputs[j->asked[i]].name, m->batches, binary ? found : NULL);
        } else {
            print_output(r, j, m, j->asked[i], binary);
        }
        sizes[i] = found->size - before;
    }
}

// What is behind the JSON.
static void add_tensors(struct reply *r, const struct request *q, const struct job *j,
                        const struct served_model *m, const struct reply *found,
                        const size_t *sizes)
{
    const char *at = found->body;
    r->no_memory |= found->no_memory;
    for (unsigned i = 0; i < j->n_asked; i++) {
        if (!request_is_binary(q, i))
            continue;
        if (wants_classes(q, i))
            reply_add(r, at, sizes[i]);
        else
            reply_add(r, j->outputs[j->asked[i]], (size_t)asked_bytes(j, m, j->asked[i]));
        at += sizes[i];
    }
}

static void write_answer(struct reply *r, const struct request *q, const struct job *j,
                         const struct served_model *m)
{
    struct reply found = {.code = 0};
    size_t sizes[REQUEST_MAX_TENSORS];
    bool any = false;
    reply_text(r, "{");
    if (q->has_id) {
        reply_text(r, "\"id\":");
        reply_quote(r, q->id);
        reply_text(r, ",");
    }
    reply_text(r, "\"model_name\":");
    reply_quote(r, m->name);
    reply_text(r, ",\"model_version\":\"");
    reply_text(r, m->version);
    reply_text(r, "\",\"outputs\":[");
    print_outputs(r, q, j, m, &found, sizes);
    reply_text(r, "]}");
    for (unsigned i = 0; i < j->n_asked; i++)
        any = any || request_is_binary(q, i);
    r->header = any ? r->size : 0;
    add_tensors(r, q, j, m, &found, sizes);
    reply_done(&found);
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

// What outputs and the answer take together. They are asked for at once, for of many who have one
// of them each nobody could get the other. One request is not too large for the memory of all.
static uint64_t memory_of(const struct request *q, const struct job *j,
                          const struct served_model *m, const struct memory_share *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n_outputs; i++)
        n += job_output_size(m, j->set, i) * j->samples;
    for (unsigned i = 0; i < j->n_asked; i++) {
        const struct classes c = wants_classes(q, i) ? classes_of(q, j, m, i) : (struct classes){0};
        n += c.most > 0 ? classes_room(&c)
                        : asked_bytes(j, m, j->asked[i]) * (request_is_binary(q, i) ? 1 : TEXT_OF);
    }
    uint64_t most = s && s->of ? s->of->most / 2 : n;
    return n <= SMALL ? 0 : n < most ? n : most;
}

static int take_memory(struct reply *r, uint64_t n, struct error *e)
{
    if (!memory_take(r->share, n, PATIENCE_MS))
        return error_set(e, STATUS_MALLOC_FAIL, "too many large answers at once (--memory)");
    r->taken += n;
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
    s = take_memory(r, memory_of(q, j, m, r->share), e);
    if (s == 0) {
        seat_give(r->seat);
        s = job_run(j, m, e);
        seat_take(r->seat);
    }
    if (s == 0)
        write_answer(r, q, j, m);
    job_done(j);
    reply_trim(r);
    return s;
}

static void count_failure(struct served_model *m, uint64_t begin)
{
    pthread_mutex_lock(&m->lock);
    statistics_failure(&m->statistics, clock_ns() - begin);
    pthread_mutex_unlock(&m->lock);
}

void infer(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
           struct request_kept **kept, struct reply *r)
{
    struct error e;
    uint64_t begin = clock_ns();
    struct request_kept *k = *kept ? *kept : (*kept = calloc(1, sizeof *k));
    if (k)
        k->request.share = r->share;
    int s = k ? request_kept_parse(k, body, size, header, &e)
              : error_no_memory(&e, "a request", sizeof *k);
    if (s == 0) {
        s = run_request(m, &k->request, r, &e);
        request_kept_done(k);
    }
    if (s < 0) {
        count_failure(m, begin);
        reply_fail_with(r, &e);
    }
}

// What is wrong with the request is found again, and told, by infer(), which reads it whole.
bool infer_place(struct served_model *m, const uint8_t *body, size_t n, size_t size, int64_t header,
                 struct request_kept *kept, struct placement *p)
{
    struct error e;
    bool found = kept && request_kept_is(kept, body, n, header) &&
                 request_take_tensors(&kept->request, body, size, kept->n, &e) == 0 &&
                 check_model(&kept->request, m, &e) == 0 && placement_find(p, &kept->request, m);
    if (!found)
        return false;
    uint64_t memory = memory_of(&kept->request, p->job, m, kept->request.share);
    if (placement_pay(p, kept->request.share, memory))
        return true;
    placement_end(p);
    return false;
}

void infer_placed(struct placement *p, const struct request_kept *kept, struct reply *r)
{
    struct error e;
    uint64_t begin = clock_ns();
    seat_give(r->seat);
    int s = placement_run(p, &e);
    seat_take(r->seat);
    r->taken = placement_paid(p);
    if (s == 0) {
        write_answer(r, &kept->request, p->job, p->model);
        reply_trim(r);
    } else {
        count_failure(p->model, begin);
        reply_fail_with(r, &e);
    }
}

// Small, so that no memory is asked for; of one sample, and whose turn has no limit, so that there
// is nothing to wait for before it is started.
static bool is_quick(const struct request *q, const struct job *j, const struct served_model *m,
                     const struct memory_share *s)
{
    return j->samples == 1 && j->timeout_ns == 0 && memory_of(q, j, m, s) == 0;
}

// What is wrong with the request is found again, and told, by infer().
bool infer_begin(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
                 struct request_kept *kept, struct quick_run *q)
{
    struct error e;
    bool same = kept && request_kept_is(kept, body, size, header) && quick_run_suits(m) &&
                request_take_tensors(&kept->request, body, size, kept->n, &e) == 0 &&
                check_model(&kept->request, m, &e) == 0;
    struct job *j = same ? malloc(sizeof *j) : NULL;
    if (!j)
        return false;
    bool ready = job_prepare(j, &kept->request, m, &e) == 0;
    if (ready && is_quick(&kept->request, j, m, kept->request.share) && quick_run_start(q, m, j))
        return true;
    if (ready)
        job_done(j);
    free(j);
    return false;
}

void infer_end(struct quick_run *q, const struct request_kept *kept, struct reply *r)
{
    struct error e;
    if (quick_run_end(q, &e) == 0) {
        write_answer(r, &kept->request, q->job, q->model);
        reply_trim(r);
    } else {
        count_failure(q->model, q->begin_ns);
        reply_fail_with(r, &e);
    }
    quick_run_done(q);
}
