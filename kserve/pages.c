#include "kserve/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kserve/infer.h"
#include "kserve/model/pulse.h"
#include "kserve/model/repository.h"
#include "kserve/request/json_flag.h"

#define MAX_PARTS   8
#define MAX_PATH    1024
#define SMALL_BODY  4096 // of requests that are not inferences
#define GET_METHODS "GET, HEAD"

// What a page is called with: the parts of its address.
struct visit {
    const struct site *site;
    const struct page_request *request;
    const char *name, *version; // "": none was given
    struct reply *reply;
};

// ---- the service --------------------------------------------------------------------------------

static void get_server(struct visit *v)
{
    reply_print(
        v->reply,
        "{\"name\":\"rknnd\",\"version\":\"%s\",\"extensions\":["
        "\"binary_tensor_data\",\"classification\",\"model_configuration\",\"model_repository\","
        "\"model_repository(unload_dependents)\",\"schedule_policy\",\"statistics\"]}",
        RKNND_VERSION);
}

static void get_live(struct visit *v)
{
    reply_print(v->reply, "{\"live\":true}");
}

// The protocol's description has "live" here, KServe's own pages "ready".
static void get_ready(struct visit *v)
{
    bool ready = pulse_is_ready(v->site->pulse);
    v->reply->code = ready ? 200 : 400;
    reply_print(v->reply, "{\"live\":true,\"ready\":%s}", ready ? "true" : "false");
}

// ---- models -------------------------------------------------------------------------------------

// Before all have been loaded none is missing for good: who asks may come again, or go to another
// server.
static void say_missing(struct visit *v, const char *words)
{
    if (pulse_has_begun(v->site->pulse))
        reply_fail(v->reply, 404, "%s", words);
    else
        reply_fail(v->reply, 503, "%s yet: models are loaded once the daemon answers", words);
}

static struct served_model *visited_model(struct visit *v)
{
    struct error e;
    struct served_model *m = repository_find(v->site->models, v->name, v->version, &e);
    if (!m)
        say_missing(v, e.text);
    return m;
}

static void get_model_ready(struct visit *v)
{
    struct error e;
    struct served_model *m = repository_find(v->site->models, v->name, v->version, &e);
    bool ready = m && pulse_is_ready(v->site->pulse);
    v->reply->code = ready ? 200 : 400;
    reply_print(v->reply, "{\"name\":");
    reply_quote(v->reply, v->name);
    reply_print(v->reply, ",\"ready\":%s}", ready ? "true" : "false");
    served_model_unref(m);
}

// A dimension that requests choose is -1.
static void print_shape(struct reply *r, const struct served_model *m, bool outputs, uint32_t index,
                        uint32_t from)
{
    const rknn_tensor_attr *a = outputs ? &m->sets[0].outputs[index] : &m->sets[0].inputs[index];
    reply_print(r, "[");
    for (uint32_t d = from; d < a->n_dims; d++) {
        bool open = m->batches && d == 0;
        for (uint32_t s = 1; s < m->n_sets; s++) {
            const rknn_tensor_attr *b =
                outputs ? &m->sets[s].outputs[index] : &m->sets[s].inputs[index];
            open = open || b->dims[d] != a->dims[d];
        }
        const char *comma = d > from ? "," : "";
        if (open)
            reply_print(r, "%s-1", comma);
        else
            reply_print(r, "%s%" PRIu32, comma, a->dims[d]);
    }
    reply_print(r, "]");
}

static void print_ends(struct reply *r, const struct served_model *m, bool outputs)
{
    uint32_t n = outputs ? m->n_outputs : m->n_inputs;
    reply_print(r, "\"%s\":[", outputs ? "outputs" : "inputs");
    for (uint32_t i = 0; i < n; i++) {
        const struct served_tensor *t = outputs ? &m->outputs[i] : &m->inputs[i];
        reply_print(r, "%s{\"name\":", i ? "," : "");
        reply_quote(r, t->name);
        reply_print(r, ",\"datatype\":\"%s\",\"shape\":", t->type->name);
        print_shape(r, m, outputs, i, 0);
        reply_print(r, "}");
    }
    reply_print(r, "]");
}

static const char *platform_name(const struct served_model *m)
{
    return m->is_onnx ? "onnx_rknnd" : "rknn";
}

static void get_model(struct visit *v)
{
    struct served_model *m = visited_model(v);
    struct reply *r = v->reply;
    if (!m)
        return;
    reply_print(r, "{\"name\":");
    reply_quote(r, m->name);
    reply_print(r, ",\"versions\":");
    repository_versions(v->site->models, m->name, r);
    reply_print(r, ",\"platform\":\"%s\",", platform_name(m));
    print_ends(r, m, false);
    reply_print(r, ",");
    print_ends(r, m, true);
    reply_print(r, "}");
    served_model_unref(m);
}

// Clients that send pictures ask this. Triton knows the two of three dimensions beside samples
// only.
static const char *format_name(const struct served_model *m, uint32_t input)
{
    const rknn_tensor_attr *a = &m->sets[0].inputs[input];
    if (!m->batches || a->n_dims != 4)
        return "FORMAT_NONE";
    return a->fmt == RKNN_TENSOR_NHWC   ? "FORMAT_NHWC"
           : a->fmt == RKNN_TENSOR_NCHW ? "FORMAT_NCHW"
                                        : "FORMAT_NONE";
}

static void print_config_tensors(struct reply *r, const struct served_model *m, bool outputs)
{
    uint32_t n = outputs ? m->n_outputs : m->n_inputs;
    reply_print(r, "\"%s\":[", outputs ? "output" : "input");
    for (uint32_t i = 0; i < n; i++) {
        const struct served_tensor *t = outputs ? &m->outputs[i] : &m->inputs[i];
        reply_print(r, "%s{\"name\":", i ? "," : "");
        reply_quote(r, t->name);
        reply_print(r, ",\"data_type\":\"TYPE_%s\",", t->type->name);
        if (!outputs)
            reply_print(r, "\"format\":\"%s\",", format_name(m, i));
        reply_print(r, "\"dims\":");
        print_shape(r, m, outputs, i, m->batches ? 1 : 0);
        reply_print(r, "}");
    }
    reply_print(r, "]");
}

static void get_config(struct visit *v)
{
    struct served_model *m = visited_model(v);
    struct reply *r = v->reply;
    if (!m)
        return;
    uint32_t most = !m->batches ? 0 : m->per_run > 1 ? m->per_run : m->options->max_batch;
    reply_print(r, "{\"name\":");
    reply_quote(r, m->name);
    reply_print(r, ",\"platform\":\"%s\",\"backend\":\"rknnd\",\"max_batch_size\":%" PRIu32 ",",
                platform_name(m), most);
    print_config_tensors(r, m, false);
    reply_print(r, ",");
    print_config_tensors(r, m, true);
    if (m->per_run > 1 && m->options->delay_us == SERVED_DELAY_BY_RUNS)
        reply_text(r, ",\"dynamic_batching\":{}");
    else if (m->per_run > 1)
        reply_print(r, ",\"dynamic_batching\":{\"max_queue_delay_microseconds\":%" PRIu32 "}",
                    m->options->delay_us);
    reply_print(r, "}");
    served_model_unref(m);
}

static void print_statistics(void *user, struct served_model *m)
{
    struct reply *r = user;
    if (r->body[r->size - 1] == '}')
        reply_print(r, ",");
    reply_print(r, "{\"name\":");
    reply_quote(r, m->name);
    reply_print(r, ",\"version\":\"%s\",", m->version);
    pthread_mutex_lock(&m->lock);
    statistics_print(&m->statistics, r);
    pthread_mutex_unlock(&m->lock);
    reply_print(r, "}");
}

static void get_statistics(struct visit *v)
{
    reply_print(v->reply, "{\"model_stats\":[");
    unsigned n = v->reply->no_memory ? 1
                                     : repository_each(v->site->models, v->name[0] ? v->name : NULL,
                                                       v->version, print_statistics, v->reply);
    char words[MAX_PATH + 64];
    snprintf(words, sizeof words, "there is no model \"%s\" that is loaded", v->name);
    if (n == 0 && v->name[0])
        say_missing(v, words);
    else
        reply_print(v->reply, "]}");
}

static void post_infer(struct visit *v)
{
    struct served_model *m = visited_model(v);
    const struct page_request *q = v->request;
    if (!m)
        return;
    if (q->placement)
        infer_placed(q->placement, *q->kept, v->reply);
    else
        infer(m, q->body, q->size, q->header, q->kept, v->reply);
    served_model_unref(m);
}

// ---- the repository -----------------------------------------------------------------------------

// A body that may have these members, all of them booleans. *ret stays where there is none.
static int read_flag(struct visit *v, const char *outer, const char *flag, bool *ret)
{
    const struct page_request *q = v->request;
    const char *text = q->size ? (const char *)q->body : "";
    struct error e;
    if (q->size > SMALL_BODY) {
        reply_fail(v->reply, 400, "more than %d bytes", SMALL_BODY);
        return -1;
    }
    size_t spaces = 0;
    while (spaces < q->size && memchr(" \t\r\n", text[spaces], 4))
        spaces++;
    int r = spaces == q->size ? 0 : json_flag_read(text, q->size, outer, flag, ret, &e);
    if (r < 0)
        reply_fail(v->reply, r == STATUS_PARAM_INVALID ? 400 : 503, "%s", e.text);
    return r < 0 ? -1 : 0;
}

static void post_index(struct visit *v)
{
    bool ready = false;
    struct error e;
    if (read_flag(v, NULL, "ready", &ready) < 0)
        return;
    if (repository_look(v->site->models, &e) < 0)
        log_warn("%s", e.text); // what was known is told
    repository_index(v->site->models, ready, v->reply);
}

static void say_done(struct visit *v, int r, const struct error *e)
{
    bool soon = r == STATUS_DEVICE_UNAVAILABLE || r == STATUS_MALLOC_FAIL;
    if (r < 0) // 500: it is not about this model
        reply_fail(v->reply, soon ? 503 : r == STATUS_FAIL ? 500 : 400, "%s", e->text);
    else
        v->reply->code = 200;
}

static void post_load(struct visit *v)
{
    struct error e;
    bool ignored = false;
    if (read_flag(v, "parameters", "unload_dependents", &ignored) == 0)
        say_done(v, repository_load(v->site->models, v->name, &e), &e);
}

static void post_unload(struct visit *v)
{
    struct error e;
    bool dependents = false; // there are none
    if (read_flag(v, "parameters", "unload_dependents", &dependents) == 0)
        say_done(v, repository_unload(v->site->models, v->name, &e), &e);
}

// ---- addresses ----------------------------------------------------------------------------------

// "*" is the name of a model, "#" a version. The first one that fits counts, and what is asked
// again and again stands in front.
static const struct page {
    const char *path;
    bool is_post;
    void (*answer)(struct visit *v);
} pages[] = {
    {"v2/models/*/infer", true, post_infer},
    {"v2/models/*/versions/#/infer", true, post_infer},
    {"v2", false, get_server},
    {"v2/health/live", false, get_live},
    {"v2/health/ready", false, get_ready},
    {"v2/models/stats", false, get_statistics},
    {"v2/models/*", false, get_model},
    {"v2/models/*/ready", false, get_model_ready},
    {"v2/models/*/config", false, get_config},
    {"v2/models/*/stats", false, get_statistics},
    {"v2/models/*/versions/#", false, get_model},
    {"v2/models/*/versions/#/ready", false, get_model_ready},
    {"v2/models/*/versions/#/config", false, get_config},
    {"v2/models/*/versions/#/stats", false, get_statistics},
    {"v2/repository/index", true, post_index},
    {"v2/repository/models/*/load", true, post_load},
    {"v2/repository/models/*/unload", true, post_unload},
};

static bool address_fits(const char *pattern, char *const *parts, unsigned n, struct visit *v)
{
    unsigned i = 0;
    v->name = v->version = "";
    for (; *pattern && i < n; i++) {
        size_t length = strcspn(pattern, "/");
        if (*pattern == '*')
            v->name = parts[i];
        else if (*pattern == '#')
            v->version = parts[i];
        else if (strlen(parts[i]) != length || memcmp(parts[i], pattern, length) != 0)
            return false;
        if (parts[i][0] == 0)
            return false;
        pattern += length + (pattern[length] == '/');
    }
    return *pattern == 0 && i == n;
}

static void answer_page(const struct page *p, struct visit *v, const char **ret_allow)
{
    const char *method = v->request->method;
    bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (p->is_post ? strcmp(method, "POST") != 0 : !is_get) {
        *ret_allow = p->is_post ? "POST" : GET_METHODS;
        reply_fail(v->reply, 405, "%s here, not %.20s", *ret_allow, method);
        return;
    }
    p->answer(v);
    if (v->reply->code == 0)
        v->reply->code = 200;
}

// The page at an address, with name and version in *v; NULL: there is none. `path` is its room.
static const struct page *find_page(char path[MAX_PATH], struct visit *v)
{
    char *parts[MAX_PARTS], *rest = path;
    unsigned n = 0;
    while (rest && n < MAX_PARTS)
        parts[n++] = strsep(&rest, "/");
    if (n == 2 && !rest && !parts[1][0])
        n = 1; // "v2/": the protocol's description writes it both ways
    for (size_t i = 0; !rest && i < sizeof pages / sizeof *pages; i++)
        if (address_fits(pages[i].path, parts, n, v))
            return &pages[i];
    return NULL;
}

static bool copy_path(char to[MAX_PATH], const char *path)
{
    path += path[0] == '/';
    size_t size = strlen(path) + 1;
    if (size <= MAX_PATH)
        memcpy(to, path, size);
    return size <= MAX_PATH;
}

void pages_answer(const struct site *s, const struct page_request *q, struct reply *r,
                  const char **ret_allow)
{
    char path[MAX_PATH];
    struct visit v = {.site = s, .request = q, .reply = r};
    *ret_allow = NULL;
    if (!copy_path(path, q->path)) {
        reply_fail(r, 414, "the address is longer than %d bytes", MAX_PATH);
        return;
    }
    const struct page *p = find_page(path, &v);
    if (p)
        answer_page(p, &v, ret_allow);
    else
        reply_fail(r, 404, "there is nothing at %.200s", q->path);
}

// The model that an inference is asked of, which the caller gives back; NULL: that is not asked.
static struct served_model *asked_model(const struct site *s, const struct page_request *q)
{
    char path[MAX_PATH];
    struct visit v = {.site = s, .request = q};
    struct error e;
    const struct page *page = copy_path(path, q->path) ? find_page(path, &v) : NULL;
    if (!page || page->answer != post_infer || strcmp(q->method, "POST") != 0)
        return NULL;
    return repository_find(s->models, v.name, v.version, &e);
}

bool pages_place(const struct site *s, const struct page_request *q, size_t n, struct placement *p)
{
    struct served_model *m = asked_model(s, q);
    bool found = m && infer_place(m, q->body, n, q->size, q->header, *q->kept, p);
    served_model_unref(m);
    return found;
}

bool pages_begin(const struct site *s, const struct page_request *q, struct quick_run *run)
{
    struct served_model *m = asked_model(s, q);
    bool begun = m && infer_begin(m, q->body, q->size, q->header, *q->kept, run);
    served_model_unref(m);
    return begun;
}
