// What the RKNN API cannot say: which server to use, what went wrong in words, structured profiles,
// what each layer computes, descriptions of models and servers. Works alongside rknn_api.h, in C
// and C++.
//
// Every function returns RKNN_SUCC or a negative RKNN_ERR_* code, with words in
// rknnd_last_error(). All functions may be called from any thread.
//
// Structs grow at their end, in later versions of this library, without harm to programs that were
// built with another one. So each begins with its size, and none holds another struct or an array
// of structs: it points to them.
// - What the program owns: it sets `struct_size` to sizeof. The library fills no more than that,
//   and sets to 0 what it does not know. In options, what it does not know must be 0.
// - What the library hands out, it gives its size: RKNND_HAS tells whether a field that came with a
//   later version is there. It may be smaller than sizeof: no `*mine = *its`.
// - Many of a kind are an rknnd_list, whose elements are as far apart as it says.
#ifndef RKNND_H
#define RKNND_H

#include <stddef.h>

#include "rknn_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Whether a struct of the library's, or an element of a list, has a field.
#define RKNND_HAS(p, field)                                                                        \
    ((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->struct_size)

typedef struct rknnd_list {
    uint32_t struct_size;
    uint32_t n;
    uint32_t stride; // bytes from one element to the next
    uint32_t reserved;
    const void *items; // each begins with its struct_size
} rknnd_list;

/// Element `i` of a list; NULL: it has none. For rknnd_device: rknnd_device_at(list, i), and so on.
#define RKNND_LIST_OF(type)                                                                        \
    static inline const type *type##_at(const rknnd_list *list, uint32_t i)                        \
    {                                                                                              \
        return i < list->n ? (const type *)((const char *)list->items + (size_t)i * list->stride)  \
                           : (const type *)0;                                                      \
    }

/// Version of this library: "0.2.0". Static.
const char *rknnd_version(void);

/// Words for the last failure of any RKNN or rknnd call in this thread: what, where, what to do.
/// Never NULL; "" when nothing has failed yet. Valid until the thread's next failing call.
const char *rknnd_last_error(void);

/// The same without the name of the function and, of rknn_init(), of the model: for programs whose
/// users know neither, or that say by themselves what they were about.
const char *rknnd_last_reason(void);

/// Whether failing calls also print their words ("E RKNN: ..."), as they do unless this is called
/// with 0: for programs that show rknnd_last_error() themselves. For the whole process, also what
/// its other parts call. RKNN_LOG_LEVEL in the environment has its way over this.
void rknnd_print_failures(int wanted);

/// Asked whether the call that waits is to end: 0: no.
typedef int rknnd_interrupt(void *user);

/// While calls of the calling thread wait for a server from now on, is_wanted() is asked, in this
/// thread, after each signal that has interrupted the wait (whose handler has SA_RESTART or not),
/// and once a second; NULL ends that. If it wants that, the call fails: a run goes on and can be
/// waited for again (rknn_wait); other calls, which cannot be left without their answer, lose the
/// context. For programs whose signal handlers only take a note, like interpreters.
void rknnd_set_interrupt(rknnd_interrupt *is_wanted, void *user);

// ---- servers -------------------------------------------------------------------------------

/// Chooses the server for contexts that this process opens from now on, by URI:
///   unix:PATH   tcp:HOST:PORT   tls:HOST:PORT   usb:[SERIAL]   adb:[SERIAL]   sim:[CHIP]
///   emu:CHIP   open:[WAY]
/// NULL: back to RKNND_SERVER in the environment, else the local Unix socket, else the only board
/// at a USB cable or behind adb. Contexts that are open stay where they are. A malformed URI is
/// RKNN_ERR_PARAM_INVALID; whether the server is there shows when it is used.
int rknnd_set_server(const char *uri);

/// The same for contexts that the calling thread opens, and whatever it asks of no named server,
/// whatever rknnd_set_server() says. So several servers can be used at once, and a library chooses
/// its own without a word in what the rest of the program does. NULL ends it.
int rknnd_set_thread_server(const char *uri);

/// What the calling thread has set, in normal form; "": nothing. Valid until it sets it again.
const char *rknnd_get_thread_server(void);

// Whose the times of runs and layers are.
typedef enum rknnd_timing {
    RKNND_TIMING_DEVICE,  // the NPU's own
    RKNND_TIMING_MACHINE, // of a software NPU: its machine's; what the chip would take is an
                          // estimate
    RKNND_TIMING_PACED    // the same, made to last as long as the chip's
} rknnd_timing;

typedef struct rknnd_server_info {
    uint32_t struct_size;
    uint32_t protocol_version;
    char uri[256];     // the one that was used
    char software[64]; // "rknnd 0.2.0"
    char chip[32];     // "rk3588"; "any": software NPU that takes each model's chip
    char backend[32];  // "sim", "vendor"
    char runtime_version[128];
    char driver_version[128];
    uint32_t n_cores;
    uint32_t heartbeat_ms, peer_timeout_ms;
    rknnd_timing timing;
    uint64_t sram_size;        // bytes
    uint64_t max_model_size;   // bytes
    uint64_t max_payload_size; // bytes of all inputs, or all outputs, of one run
    char buffers[64]; // what rknn_create_mem's memory is there: "memfd", "dma_heap system", …
} rknnd_server_info;

/// Asks a server (NULL: the one that contexts would use) who it is.
int rknnd_get_server_info(const char *uri, rknnd_server_info *info);

typedef struct rknnd_device {
    uint32_t struct_size;
    uint32_t reserved;
    char uri[256];      // to be used as it is
    char serial[128];   // of a board at USB or behind adb
    char state[16];     // why it cannot be used, in a word ("in use", "denied", …); "": ask it
    char obstacle[192]; // the same in words
    char advice[192];   // what to do
} rknnd_device;
RKNND_LIST_OF(rknnd_device)

/// What there is within reach: local sockets, boards at a USB cable, boards that the adb server
/// knows. No server is asked; a board that another program uses is looked at for a second, as that
/// may be about to end. *devices, of rknnd_device: rknnd_free() it.
int rknnd_list_devices(rknnd_list **devices);

typedef struct rknnd_server_status {
    uint32_t struct_size;
    uint32_t connections, sessions, contexts, models, workers, uploads;
    uint32_t jobs_waiting, jobs_running;
    uint32_t reserved;
    uint64_t uptime_ms;
    uint64_t upload_bytes, cached_bytes, model_bytes, buffer_bytes;
    uint64_t jobs_done, jobs_failed, jobs_retried, worker_deaths;
    char isolation[16]; // "process" or "thread"
    // While a turn of its loop lasts it serves nobody: turns of more than 50 ms, the longest turn,
    // and the most processor time that one of more than 50 ms took.
    uint64_t slow_turns, longest_turn_us, longest_turn_cpu_us;
    uint64_t lines_left_out; // of its log: nobody read its standard error
} rknnd_server_status;

/// What a server holds and has done. The asking connection counts itself.
int rknnd_get_server_status(const char *uri, rknnd_server_status *status);

typedef struct rknnd_clock {
    uint32_t struct_size;
    uint32_t reserved;
    char name[64];       // "cpu0-3", "fdab0000.npu", "model of rk3588"
    char domain[16];     // "CPU", "NPU", "GPU", "DDR"; "": something else
    char governor[32];   // that chooses it; "": not known
    uint64_t hz, max_hz; // max_hz 0: not known
} rknnd_clock;
RKNND_LIST_OF(rknnd_clock)

/// How fast a server's machine is clocked at present, as far as its kernel tells, and the chip that
/// its software NPU stands for. *clocks, of rknnd_clock: rknnd_free() it.
int rknnd_get_clocks(const char *uri, rknnd_list **clocks);

typedef enum rknnd_sensor_kind {
    RKNND_SENSOR_TEMPERATURE = 1, // thousandths of a degree Celsius; limit: critical
    RKNND_SENSOR_POWER = 2,       // microwatts; limit: its cap
    RKNND_SENSOR_ENERGY = 3,      // microjoules so far; limit: where it begins again at 0
    RKNND_SENSOR_COOLING = 4,     // steps by which something is slowed down, or a fan turns
} rknnd_sensor_kind;

typedef struct rknnd_sensor {
    uint32_t struct_size;
    uint32_t kind;        // rknnd_sensor_kind
    char name[64];        // "soc-thermal", "ina226 vdd_npu"; of a kind no two have the same
    int64_t value, limit; // limit 0: not known
} rknnd_sensor;
RKNND_LIST_OF(rknnd_sensor)

/// How warm a server's machine is and what power it takes, as far as its kernel tells; what it has
/// no sensor of is not in the list. Readings are up to a second old. *sensors, of rknnd_sensor:
/// rknnd_free() it. RKNN_ERR_TIMEOUT: a driver there hangs.
int rknnd_get_sensors(const char *uri, rknnd_list **sensors);

/// What a server has done since it began, in Prometheus's text format, version 0.0.4; for who may
/// see everything there. *text ends with 0: rknnd_free() it.
int rknnd_get_metrics(const char *uri, char **text);

/// How much of something a user of the server has, or all together have.
typedef struct rknnd_limit {
    uint32_t struct_size;
    uint32_t bytes;       // 1: it is bytes
    uint32_t quota;       // 1: the limit is a quota; 0: what others leave
    uint32_t client;      // 0: the user, with all his programs; else one of them, by its number
    char user[64];        // "alice", "tcp 10.0.0.7"; "": all together
    char key[32];         // "connections", "storage": rknnd(8) says what they are
    uint64_t used, limit; // limit: at present
} rknnd_limit;
RKNND_LIST_OF(rknnd_limit)

/// What all together have, then each user, then each program; of others only what this user may
/// see. *limits, of rknnd_limit: rknnd_free() it.
int rknnd_get_limits(const char *uri, rknnd_list **limits);

/// A number of the server's configuration, as it counts at present; yes is 1, no is 0.
typedef struct rknnd_setting {
    uint32_t struct_size;
    uint32_t bytes;        // 1: it is bytes
    char name[64];         // "max-payload": rknnd(8) says what it means
    uint64_t value, usual; // usual: where the configuration does not say it
} rknnd_setting;
RKNND_LIST_OF(rknnd_setting)

/// *settings, of rknnd_setting: rknnd_free() it. None: a server of an earlier version.
int rknnd_get_settings(const char *uri, rknnd_list **settings);

typedef struct rknnd_core_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t busy_us; // since the server began
} rknnd_core_stats;
RKNND_LIST_OF(rknnd_core_stats)

// A client is a program: one session.
typedef struct rknnd_client_stats {
    uint32_t struct_size;
    uint32_t stopped; // 1: by a debugger or a signal, as far as the server can see it
    uint64_t client;  // its number, for rknnd_kill_client()
    char program[64]; // as it says: "digits[1234]"
    char origin[64];  // "unix, pid 1234, uid 1000"
    char user[32];    // "alice"; "tcp": everyone from the network
    uint32_t connections, contexts;
    uint32_t jobs_waiting, jobs_running;
    uint64_t jobs_done, jobs_failed;
    uint64_t core_us;    // device time that it has had: of all cores, added
    uint64_t queue_us;   // that its jobs have waited for the device
    uint64_t user_bytes; // of its user: in flight, and in memory objects
    uint64_t silent_ms;  // for which it has said nothing; a program that runs does so every second
} rknnd_client_stats;
RKNND_LIST_OF(rknnd_client_stats)

typedef struct rknnd_model_stats {
    uint32_t struct_size;
    uint32_t contexts;
    char name[128];
    uint32_t worker_pid;    // 0: the model has no process of its own
    uint32_t worker_deaths; // of its workers
    uint64_t jobs;
    uint64_t run_us;      // on the device, of all jobs
    uint64_t memory_size; // bytes that it holds, weights included
} rknnd_model_stats;
RKNND_LIST_OF(rknnd_model_stats)

typedef struct rknnd_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t uptime_ms;
    const rknnd_list *cores;   // of rknnd_core_stats
    const rknnd_list *clients; // of rknnd_client_stats; the one that asks is among them
    const rknnd_list *models;  // of rknnd_model_stats: those that are loaded
} rknnd_stats;

/// Who uses a server's device, and how much of it each has had. *stats is one block: rknnd_free().
int rknnd_get_stats(const char *uri, rknnd_stats **stats);

/// Ends a program's connections: what it waits for fails with RKNN_ERR_DEVICE_UNAVAILABLE. On the
/// server's own machine; root and the service's user may end every client, others their own.
/// RKNN_ERR_PARAM_INVALID: there is no such client.
int rknnd_kill_client(const char *uri, uint64_t client);

// A line of a server's log. Valid inside the callback.
typedef struct rknnd_log_line {
    uint32_t struct_size;
    uint32_t level;   // 1 error, 2 warning, 3 event, 4 details, 5 everything
    uint64_t number;  // counts the lines since the server began
    uint64_t time_us; // since 1970
    uint64_t lost;    // lines in front of this one that the server holds no more
    const char *text;
} rknnd_log_line;

/// Not 0: no more lines. `line` is NULL now and then while none comes.
typedef int rknnd_log_callback(void *user, const rknnd_log_line *line);

/// Calls back, from the calling thread, for the last `last` lines that the server has logged (it
/// holds a few thousand) and, with `follow`, for all that it logs from then on, until the callback
/// ends that. A callback that is too slow loses lines, and hears how many.
int rknnd_read_log(const char *uri, uint32_t last, int follow, rknnd_log_callback *callback,
                   void *user);

// What happens in a server. What `id` and `value` are is in PROTOCOL.md, TRACE.
typedef enum rknnd_event_kind {
    RKNND_EVENT_CONNECT = 1,
    RKNND_EVENT_DISCONNECT,
    RKNND_EVENT_UPLOAD, // of a model, begins
    RKNND_EVENT_UPLOADED,
    RKNND_EVENT_LOAD, // of a model, begins
    RKNND_EVENT_LOADED,
    RKNND_EVENT_UNLOADED,
    RKNND_EVENT_INPUTS,  // of a run, begin to come
    RKNND_EVENT_QUEUED,  // they are there
    RKNND_EVENT_STARTED, // it has its cores
    RKNND_EVENT_ENDED,   // on the device
    RKNND_EVENT_GONE,    // its outputs are sent, or it has failed
    RKNND_EVENT_LAYER,   // of a run; time_us is its beginning
    RKNND_EVENT_WORKER_DIED
} rknnd_event_kind;

typedef struct rknnd_event {
    uint32_t struct_size;
    uint32_t kind;  // rknnd_event_kind; a newer server may have more
    uint32_t cores; // mask
    uint32_t reserved;
    uint64_t time_us; // of a clock of the server
    uint64_t client;  // its number in rknnd_client_stats; 0: nobody's
    uint64_t id;      // of the run, model, connection or process
    uint64_t value;   // bytes, or microseconds
    char text[32];    // program, model or layer; may be cut
} rknnd_event;
RKNND_LIST_OF(rknnd_event)

// A part of them, in order. Valid inside the callback.
typedef struct rknnd_events {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t first;  // number of the first one; they count from 1 since the server began
    uint64_t lost;   // that happened between the last part and this one, but are no longer known
    uint64_t now_us; // of the same clock
    const rknnd_list *events; // of rknnd_event
} rknnd_events;

/// Not 0: no more events.
typedef int rknnd_events_callback(void *user, const rknnd_events *events);

/// Calls back, from the calling thread, for what has happened in a server as far as it is still
/// known and, with `follow`, for what happens from then on, some times a second (also with no
/// events), until the callback ends that.
int rknnd_read_events(const char *uri, int follow, rknnd_events_callback *callback, void *user);

/// Sets how much a server logs until it ends: 0 (nothing) to 5, as RKNN_SERVER_LOGLEVEL. For root
/// and the service's user, on the server's own machine.
int rknnd_set_log_level(const char *uri, uint32_t level);

typedef enum rknnd_verdict {
    RKNND_CHECK_GOOD,
    RKNND_CHECK_NOTE,    // worth knowing
    RKNND_CHECK_BAD,     // programs will fail
    RKNND_CHECK_SKIPPED, // could not be looked at, or need not
} rknnd_verdict;

// What was found at one hop. Valid inside the callback.
typedef struct rknnd_check {
    uint32_t struct_size;
    rknnd_verdict verdict;
    const char *name;   // "server", "socket", "host", "connection", "greeting", "device", …
    const char *found;  // in words
    const char *advice; // what to do; "": nothing
} rknnd_check;

typedef void rknnd_check_callback(void *user, const rknnd_check *check);

/// Goes through every hop between this process and the NPU of the server that contexts would use,
/// and calls back for each as soon as it has been looked at: where the server's URI comes from, its
/// socket or host and port, the greeting and versions, what the device is, a computation on each
/// core, whether `model` (a path, or NULL) loads, adb's server, boards on USB. What is found to be
/// bad is no failure of this call; *n_bad (may be NULL) counts it.
int rknnd_diagnose(const char *model, rknnd_check_callback *callback, void *user, uint32_t *n_bad);

/// Round trips of one small message: `n` of them, each in nanoseconds into round_trip_ns[].
int rknnd_ping(const char *uri, uint32_t n, uint64_t *round_trip_ns);

// ---- models --------------------------------------------------------------------------------

/// Called while a model is sent, from the thread that waits for it: bytes sent or found at the
/// server, of total. Not called when the server already holds the model.
typedef void rknnd_progress(void *user, uint64_t done, uint64_t total);

/// For uploads of the calling thread from now on; NULL ends it.
void rknnd_set_progress(rknnd_progress *report_progress, void *user);

/// How models are loaded that the calling thread opens (rknn_init) or describes from now on; NULL
/// ends it. Text, one option a line:
///   shape NAME=1x3x224x224                 shape of input NAME, where the file leaves it open
///   shape NAME=1x3x224x224,1x3x112x112     several, for rknn_set_input_shapes(); the n-th ones of
///                                          all inputs belong together
/// An option that the server does not know, or that does not fit the model, makes opening fail.
/// Contexts of the same file and options share one loaded model. RKNN_ERR_PARAM_INVALID: more than
/// 4095 bytes.
int rknnd_set_load_options(const char *options);

/// What the calling thread has set, for another thread to load models the same way; "": nothing.
/// Valid until it sets it again.
const char *rknnd_get_load_options(void);

/// Runs n samples, 1 to 1024, one after the other in one request: what a run costs beside computing
/// is paid once. All inputs and outputs are bound (rknn_set_io_mem) to memory of n times what one
/// sample needs, that the server has, too (Unix sockets); sample i's are i times that further on.
/// Operators of the program's own are not computed by it. Others wait for its end as for a run's,
/// so all samples may take 20 ms, by what the model's last runs took; it has run once at least.
/// RKNN_ERR_PARAM_INVALID where that is not so, RKNN_ERR_FAIL where the server is older and takes
/// one sample with each run; of a run that fails some outputs may be there.
int rknnd_run_samples(rknn_context context, uint32_t n);

/// Everything that a model file says, as JSON text, also of a model that the server would refuse
/// to run. *json is freed with rknnd_free().
int rknnd_describe_model(const char *uri, const char *path, char **json);

/// Frees what this library returned. NULL is fine.
void rknnd_free(void *memory);

// ---- models by name ------------------------------------------------------------------------

// A server may keep models under names, with versions (rknnd(8), model-store). rknn_init() opens
// one with the path "rknnd:NAME" or "rknnd:NAME@VERSION" and size 0; so does every function here
// that takes a model's path. A NAME alone means its default version.

typedef struct rknnd_stored_model {
    uint32_t struct_size;
    uint32_t batch;      // first dimension of its first input; 0: it has none
    uint32_t n_labels;   // names of classes that are kept with it
    uint32_t is_default; // 1: what the name means without a version
    uint32_t loaded;     // 1: in the server's memory, ready to run
    uint32_t reserved;
    uint64_t size;   // bytes
    uint64_t time_s; // when it was pushed, since 1970
    char name[72], version[40];
    char sha256[72];   // in hexadecimal digits
    char file[128];    // what its file was called
    char owner[64];    // who has pushed it: "alice", "tls/anna@pc"
    char chip[32];     // that it is made for; "": none
    char problem[256]; // why it cannot be opened; "": it can
} rknnd_stored_model;
RKNND_LIST_OF(rknnd_stored_model)

/// Stores the model file `path` as NAME@VERSION, or, without @VERSION, as NAME's next number.
/// `labels`: the names of its classes, one a line, or NULL. A version never changes: one that is
/// there with the same bytes is success, with others it is refused. `stored` may be NULL.
int rknnd_push_model(const char *uri, const char *path, const char *name, const char *labels,
                     rknnd_stored_model *stored);

/// All of them, by name and age. *models, of rknnd_stored_model: rknnd_free() it.
int rknnd_list_models(const char *uri, rknnd_list **models);

/// What is kept with a model, as JSON text: hash, size, chip, batch, labels, inputs, outputs.
/// *json: rknnd_free() it.
int rknnd_get_manifest(const char *uri, const char *name, char **json);

/// Removes one version, or with a NAME alone all of them. Programs that have it open go on.
int rknnd_remove_model(const char *uri, const char *name);

/// NAME means VERSION from now on; with a NAME alone its newest version again.
int rknnd_set_default_model(const char *uri, const char *name);

/// Takes a part of a model. Negative, an RKNN_ERR_* code: no more is wanted.
typedef int rknnd_part_callback(void *user, const void *data, size_t size);

/// A stored model's bytes, in order. `stored` may be NULL.
int rknnd_pull_model(const char *uri, const char *name, rknnd_part_callback *callback, void *user,
                     rknnd_stored_model *stored);

// ---- runs ----------------------------------------------------------------------------------

/// Runs (also of a matmul) that start from now on are useless after limit_ms (0: never): one that
/// is not done by then, counted from when its inputs have reached the server, fails with
/// RKNN_ERR_TIMEOUT. If it still waits for the device, it never gets it; if it runs, it is stopped
/// as soon as the device can.
int rknnd_set_run_limit(rknn_context context, uint32_t limit_ms);

/// Runs with such a limit are refused (`wanted` not 0) as soon as their inputs have reached the
/// server when it expects that they would not be done in time: RKNN_ERR_TIMEOUT, with words that
/// say how long it would take, what of that is others' runs ahead, and the limit. It expects what
/// the model's last runs on as many cores took; of a model that has not run yet it expects nothing,
/// and refuses nothing. A server that does not know of this refuses nothing either.
int rknnd_set_run_admission(rknn_context context, int wanted);

typedef struct rknnd_run_info {
    uint32_t struct_size;
    uint32_t attempts;  // 2: the first worker died and the run was repeated
    uint64_t run_us;    // on the device; of a software NPU on its machine
    uint64_t queue_us;  // waiting for the device
    uint64_t total_us;  // as the program saw it, transfers included
    uint32_t core_mask; // that it ran on: bit i for core i
    rknnd_timing timing;
    uint64_t estimate_ns;   // what it would take on estimate_chip, with as many cores; 0: not known
    char estimate_chip[32]; // "rk3588"; "": there are no estimates
    uint32_t estimate_assumed; // not 0: neither the model nor the server says which chip
    uint32_t n_unestimated;    // layers that the chip's CPU does: estimates leave them out
} rknnd_run_info;

/// Times of the context's last finished run. RKNN_ERR_FAIL before the first.
int rknnd_get_run_info(rknn_context context, rknnd_run_info *info);

typedef struct rknnd_layer {
    uint32_t struct_size;
    uint32_t core_mask;
    const char *name;         // "Conv:conv1"
    const char *op;           // "ConvRelu"
    const char *type;         // "INT8"
    const char *target;       // "NPU", "CPU"
    const char *input_shapes; // "(1,224,224,3),(…)"
    const char *output_shapes;
    uint64_t time_us; // on the device; of a software NPU on its machine
    uint64_t ddr_cycles, npu_cycles, total_cycles; // the chip's; 0: not known
    uint64_t macs;
    uint64_t read_bytes, write_bytes;
    uint64_t mac_cycles; // that macs take at the least; MAC usage is mac_cycles / total_cycles
    uint32_t n_tasks;    // that one core does the layer in; 0: not known, or not on the NPU
    uint32_t n_core_work;
    const uint64_t *core_work; // each core's share, in any unit; all 0: not known, not on the NPU
    uint64_t estimate_ns;      // on rknnd_run_info.estimate_chip, with these cores; 0: not known
} rknnd_layer;
RKNND_LIST_OF(rknnd_layer)

/// Layers of the context's last run, in order; the context must have been opened with
/// RKNN_FLAG_COLLECT_PERF_MASK. *layers, of rknnd_layer: rknnd_free() it, which ends the strings,
/// too.
int rknnd_get_layers(rknn_context context, rknnd_list **layers);

// What a node of the model has computed. Valid inside the callback.
typedef struct rknnd_tensor {
    uint32_t struct_size;
    uint32_t index;   // counts the tensors of a dump
    const char *name; // as in the model file
    const char *node; // that computed it: rknnd_layer.name
    const char *op;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; // in the file's order: NCHW of images
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type; // affine: real value = (stored - zp) * scale
    int32_t zp;
    float scale;
    uint32_t n_elems;
    uint32_t size; // bytes
    uint32_t reserved;
    const void *data; // stored values, packed, in row-major order
} rknnd_tensor;

/// Negative, an RKNN_ERR_* code: the dump ends with it.
typedef int rknnd_tensor_callback(void *user, const rknnd_tensor *tensor);

/// Runs the model once with the inputs that are set and calls back for each tensor that a node
/// computes, as soon as it is computed, from the calling thread. `only`: a tensor's name or a shell
/// pattern for names; NULL: all. Neither side holds more than one tensor. What the device has fused
/// into another node is not there. Until the callback returns the device waits, with the core that
/// it runs on, at most for the server's limit of a job. The outputs of earlier runs stay as they
/// are. The callback may use the library, also this context.
int rknnd_dump_layers(rknn_context context, const char *only, rknnd_tensor_callback *callback,
                      void *user);

/// As rknnd_dump_layers, but what the callback leaves in tensor->data (rknnd_tensor_from_float)
/// takes the tensor's place, and the nodes that follow compute with it: so each node can be looked
/// at alone, with inputs of one's own. RKNN_ERR_FAIL: the device cannot do that.
int rknnd_replace_layers(rknn_context context, const char *only, rknnd_tensor_callback *callback,
                         void *user);

/// Puts real values into tensor->data, as its type, scale and zero point store them (halves to
/// even, saturated). In callbacks of rknnd_replace_layers. RKNN_ERR_INPUT_INVALID for types that
/// take none.
int rknnd_tensor_from_float(const rknnd_tensor *tensor, const float *values);

/// A tensor's real values: values[] takes tensor->n_elems. RKNN_ERR_OUTPUT_INVALID for types that
/// have none.
int rknnd_tensor_to_float(const rknnd_tensor *tensor, float *values);

// ---- comparing runs ------------------------------------------------------------------------

// What the nodes of a model have computed in one run, to compare other runs with: those of another
// model, server or backend.
typedef struct rknnd_golden rknnd_golden;

/// Runs `context` once with the inputs that are set and keeps every tensor's real values, in a file
/// without a name in TMPDIR (/var/tmp if that is not set): they may be more than fits memory.
int rknnd_golden_new(rknn_context context, rknnd_golden **golden);
void rknnd_golden_free(rknnd_golden *golden);

// How far a tensor x is from the golden one, g, element by element as reals.
typedef struct rknnd_distance {
    uint32_t struct_size;
    uint32_t reserved;
    double cosine;    // x*g / (|x||g|); 1 if both are 0, 0 if one is
    double euclidean; // |x - g|
    double relative;  // |x - g| / |g|
    double gain;    // x*g / g*g: 1 if x is as large as g on the whole; rounding does not change it
    double largest; // difference of two elements
} rknnd_distance;

// Valid inside the callback.
typedef struct rknnd_comparison {
    uint32_t struct_size;
    uint32_t reserved;
    const rknnd_tensor *tensor;
    const float *values;
    const char *golden_name;
    const float *golden;            // NULL: it has no tensor of the name with as many elements
    const rknnd_distance *distance; // NULL, as the next one, if `golden` is
    // From the golden values as the tensor's type stores them: what rounding to the type, and its
    // range, do not explain. NULL also if the options say so.
    const rknnd_distance *stored;
} rknnd_comparison;

/// Negative, an RKNN_ERR_* code: the comparison ends with it.
typedef int rknnd_comparison_callback(void *user, const rknnd_comparison *comparison);

typedef struct rknnd_name_pair {
    uint32_t struct_size;
    uint32_t reserved;
    const char *name, *golden;
} rknnd_name_pair;
RKNND_LIST_OF(rknnd_name_pair)

typedef struct rknnd_compare_options {
    uint32_t struct_size;
    // 0: each tensor as it comes, with the errors of all nodes before. Else each node computes with
    // golden values, as far as there are some, so that only its own errors show
    // (rknnd_replace_layers).
    uint32_t single;
    const rknnd_list *pairs; // of rknnd_name_pair, the program's: names that differ. NULL: none
    uint32_t without_stored; // not 0: `stored` of what is shown is NULL, and takes no time
    uint32_t reserved;
} rknnd_compare_options;

/// Runs `context` once with the inputs that are set and calls back for each tensor, as
/// rknnd_dump_layers. Tensors belong together by name. `options` NULL: all 0.
int rknnd_compare_layers(rknn_context context, const rknnd_golden *golden,
                         const rknnd_compare_options *options, rknnd_comparison_callback *callback,
                         void *user);

// ---- recordings ----------------------------------------------------------------------------

// A program whose environment has RKNND_RECORD=FILE records what it asks of its servers: models,
// contexts, memories, inputs and outputs of runs, in order (not dumps and statistics). Its memory
// is then copied, as over a network. "%p" in the name is the process's number.

typedef struct rknnd_replay_result {
    uint32_t struct_size;
    uint32_t cut;           // not 0: the recording ends in the middle
    uint32_t n_connections; // of the recording
    uint32_t reserved;
    uint64_t n_requests, n_runs; // that were made again
    uint64_t n_answers;          // that were compared
    uint64_t n_different;        // of them
    uint64_t recorded_us, replayed_us;
    char difference[400]; // the first one, in words
} rknnd_replay_result;

/// Makes the requests of a recording again, in its order and as fast as they are answered, and
/// compares every answer with the recorded one, bit for bit. Answers that differ are no failure of
/// this call. `progress` (may be NULL) is told the bytes of the file that are done.
int rknnd_replay(const char *uri, const char *path, rknnd_progress *progress, void *user,
                 rknnd_replay_result *result);

#ifdef __cplusplus
}
#endif

#endif
