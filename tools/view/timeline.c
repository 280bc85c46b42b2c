// A server's events in the Trace Event Format, which Perfetto and chrome://tracing read. The
// format's "processes" and "threads" are used as groups and tracks: clients, cores, models. A run
// is an asynchronous slice on its client's track, with its phases nested in it:
//
//   inputs -> queue -> run -> outputs -> (gone)
//             waiting  running                      counted for the counter track
//                      a slice on each core of its mask, when it ends
//
// Events older than the server's buffer are missing: a run may begin in any phase. Async slices are
// matched by their id, so that runs of one client may overlap.
#include "tools/view/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The "processes" of the timeline: groups of tracks.
enum group { GROUP_CLIENTS = 1, GROUP_CORES, GROUP_MODELS };

void timeline_init(struct timeline *t)
{
    *t = (struct timeline){.events = json_array(),
                           .jobs = json_object(),
                           .models = json_object(),
                           .seen = json_object()};
}

void timeline_done(struct timeline *t)
{
    json_decref(t->events);
    json_decref(t->jobs);
    json_decref(t->models);
    json_decref(t->seen);
    *t = (struct timeline){0};
}

// ---- events of the format ----------------------------------------------------------------------

// Takes the event; NULL (out of memory) is noted and reported at the end.
static void append_event(struct timeline *t, json_t *event)
{
    if (json_array_append_new(t->events, event) < 0)
        t->failed = 1;
}

static void name_group(struct timeline *t, enum group group, const char *name)
{
    append_event(t, json_pack("{s:s, s:s, s:i, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
                              (int)group, "args", "name", name));
}

// The first name of a track stays: "client 7 program" is not replaced by "client 7".
static void name_track(struct timeline *t, enum group group, uint64_t track, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
static void name_track(struct timeline *t, enum group group, uint64_t track, const char *format,
                       ...)
{
    char key[48], name[128];
    va_list args;
    snprintf(key, sizeof key, "%d/%" PRIu64, (int)group, track);
    if (json_object_get(t->seen, key))
        return;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    json_object_set_new(t->seen, key, json_true());
    append_event(t, json_pack("{s:s, s:s, s:i, s:I, s:{s:s}}", "ph", "M", "name", "thread_name",
                              "pid", (int)group, "tid", (json_int_t)track, "args", "name", name));
}

// "b" or "e", an asynchronous slice's beginning or end.
static void add_edge(struct timeline *t, const char *edge, enum group group, const rknnd_event *e,
                     const char *kind, const char *name)
{
    char id[24];
    snprintf(id, sizeof id, "0x%" PRIx64, e->id);
    append_event(t, json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I}", "ph", edge, "cat", kind, "id",
                              id, "name", name, "pid", (int)group, "tid", (json_int_t)e->client,
                              "ts", (json_int_t)e->time_us));
}

// An instant event ("i") with the thread's scope.
static void add_moment(struct timeline *t, enum group group, const rknnd_event *e, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s%s%s", what, *e->text ? " " : "", e->text);
    append_event(t, json_pack("{s:s, s:s, s:s, s:i, s:I, s:I}", "ph", "i", "s", "t", "name", name,
                              "pid", (int)group, "tid", (json_int_t)e->client, "ts",
                              (json_int_t)e->time_us));
}

// A complete event ("X") on a core's track. Less than a microsecond becomes an instant event:
// viewers take a slice of length 0 for one that never ends.
static json_t *work(const rknnd_event *e, uint32_t core, uint64_t start, uint64_t duration,
                    const char *name)
{
    json_t *w =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:{s:I, s:I}}", "ph", duration ? "X" : "i", "name",
                  name, "pid", (int)GROUP_CORES, "tid", (json_int_t)core, "ts", (json_int_t)start,
                  "args", "client", (json_int_t)e->client, "run", (json_int_t)e->id);
    if (duration)
        json_object_set_new(w, "dur", json_integer((json_int_t)duration));
    else
        json_object_set_new(w, "s", json_string("t"));
    return w;
}

// On each core of the mask.
static void add_work(struct timeline *t, const rknnd_event *e, uint64_t start, uint64_t duration,
                     const char *name)
{
    for (uint32_t core = 0; core < 32; core++)
        if (e->cores >> core & 1) {
            name_track(t, GROUP_CORES, core, "core %u", core);
            append_event(t, work(e, core, start, duration, name));
        }
}

// A counter event: runs that wait and run, at the time of a change.
static void add_counts(struct timeline *t, const rknnd_event *e)
{
    append_event(t,
                 json_pack("{s:s, s:s, s:i, s:I, s:{s:I, s:I}}", "ph", "C", "name", "runs", "pid",
                           (int)GROUP_CORES, "ts", (json_int_t)e->time_us, "args", "waiting",
                           (json_int_t)t->n_waiting, "running", (json_int_t)t->n_running));
}

// ---- runs --------------------------------------------------------------------------------------

// The run's state by its id, made when it is first seen; "" is no phase. Owned by t->jobs.
static json_t *job_of(struct timeline *t, const rknnd_event *e)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRIu64, e->id);
    json_t *job = json_object_get(t->jobs, key);
    if (!job) {
        job = json_pack("{s:s, s:I, s:s}", "phase", "", "started", (json_int_t)0, "model", e->text);
        json_object_set_new(t->jobs, key, job);
        name_track(t, GROUP_CLIENTS, e->client, "client %" PRIu64, e->client);
        add_edge(t, "b", GROUP_CLIENTS, e, "run", e->text);
    }
    return job;
}

static int is_in(json_t *job, const char *phase)
{
    return strcmp(json_string_value(json_object_get(job, "phase")), phase) == 0;
}

// Leaves the current phase and enters the next: ends one slice, begins another, and keeps the
// counters. `job` NULL: out of memory in job_of().
static void enter_phase(struct timeline *t, json_t *job, const rknnd_event *e, const char *phase)
{
    if (!job) {
        t->failed = 1;
        return;
    }
    int counts = is_in(job, "queue") || is_in(job, "run");
    t->n_waiting -= (uint64_t)is_in(job, "queue");
    t->n_running -= (uint64_t)is_in(job, "run");
    if (!is_in(job, ""))
        add_edge(t, "e", GROUP_CLIENTS, e, "run", json_string_value(json_object_get(job, "phase")));
    json_object_set_new(job, "phase", json_string(phase));
    if (!is_in(job, ""))
        add_edge(t, "b", GROUP_CLIENTS, e, "run", phase);
    t->n_waiting += (uint64_t)is_in(job, "queue");
    t->n_running += (uint64_t)is_in(job, "run");
    if (counts || is_in(job, "queue") || is_in(job, "run"))
        add_counts(t, e);
}

static void add_start(struct timeline *t, const rknnd_event *e)
{
    json_t *job = job_of(t, e);
    enter_phase(t, job, e, "run");
    json_object_set_new(job, "started", json_integer((json_int_t)e->time_us));
}

// The core's slice is known when the run ends; without a seen start there is none.
static void add_end(struct timeline *t, const rknnd_event *e)
{
    json_t *job = job_of(t, e);
    uint64_t started = (uint64_t)json_integer_value(json_object_get(job, "started"));
    if (started)
        add_work(t, e, started, e->time_us - started, e->text);
    enter_phase(t, job, e, "outputs");
}

static void add_gone(struct timeline *t, const rknnd_event *e)
{
    char key[24];
    snprintf(key, sizeof key, "%" PRIu64, e->id);
    json_t *job = json_object_get(t->jobs, key);
    if (!job)
        return;
    enter_phase(t, job, e, "");
    add_edge(t, "e", GROUP_CLIENTS, e, "run", json_string_value(json_object_get(job, "model")));
    json_object_del(t->jobs, key);
}

// ---- models ------------------------------------------------------------------------------------

// Uploads and loads, all on one track: client 0. Of one model there are never two at a time, so
// that its id matches beginning and end.
static void add_model_edge(struct timeline *t, const rknnd_event *e, int begins, const char *what)
{
    char key[48], name[64];
    rknnd_event of_all = *e;
    of_all.client = 0;
    snprintf(key, sizeof key, "%s%" PRIu64, what, e->id);
    snprintf(name, sizeof name, "%s %s", what, e->text);
    if (begins)
        json_object_set_new(t->models, key, json_true());
    else if (json_object_del(t->models, key) < 0)
        return; // its beginning is not known any more
    add_edge(t, begins ? "b" : "e", GROUP_MODELS, &of_all, what, name);
}

// ---- all ---------------------------------------------------------------------------------------

void timeline_name_client(struct timeline *t, uint64_t client, const char *name)
{
    name_track(t, GROUP_CLIENTS, client, "client %" PRIu64 " %s", client, name);
}

void timeline_add(struct timeline *t, const rknnd_event *e)
{
    switch (e->kind) {
    case RKNND_EVENT_CONNECT:
        timeline_name_client(t, e->client, e->text);
        add_moment(t, GROUP_CLIENTS, e, "connects");
        break;
    case RKNND_EVENT_DISCONNECT:
        add_moment(t, GROUP_CLIENTS, e, "disconnects");
        break;
    case RKNND_EVENT_UPLOAD:
    case RKNND_EVENT_UPLOADED:
        add_model_edge(t, e, e->kind == RKNND_EVENT_UPLOAD, "upload");
        break;
    case RKNND_EVENT_LOAD:
    case RKNND_EVENT_LOADED:
        add_model_edge(t, e, e->kind == RKNND_EVENT_LOAD, "load");
        break;
    case RKNND_EVENT_UNLOADED:
        add_moment(t, GROUP_MODELS, e, "unloads");
        break;
    case RKNND_EVENT_INPUTS:
        enter_phase(t, job_of(t, e), e, "inputs");
        break;
    case RKNND_EVENT_QUEUED:
        enter_phase(t, job_of(t, e), e, "queue");
        break;
    case RKNND_EVENT_STARTED:
        add_start(t, e);
        break;
    case RKNND_EVENT_ENDED:
        add_end(t, e);
        break;
    case RKNND_EVENT_GONE:
        add_gone(t, e);
        break;
    case RKNND_EVENT_LAYER:
        add_work(t, e, e->time_us, e->value, e->text);
        break;
    case RKNND_EVENT_WORKER_DIED:
        add_moment(t, GROUP_MODELS, e, "worker died:");
        break;
    default: // of a newer server
        break;
    }
}

// Group names come last; viewers read metadata events anywhere.
json_t *timeline_finish(struct timeline *t)
{
    name_group(t, GROUP_CLIENTS, "clients");
    name_group(t, GROUP_CORES, "cores");
    name_group(t, GROUP_MODELS, "models");
    name_track(t, GROUP_MODELS, 0, "models");
    if (t->failed)
        return NULL;
    return json_pack("{s:O, s:s}", "traceEvents", t->events, "displayTimeUnit", "ms");
}
