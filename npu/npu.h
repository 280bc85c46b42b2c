// The contract between the service and whatever runs models: backend -> device -> model -> context.
//
// A backend is a table of functions (struct npu_backend). It knows nothing of sockets, clients or
// event loops. The service calls it either in a worker process (one per model) or, with
// --isolation=thread, inside the daemon; a backend cannot tell which.
//
// Threads: `device_*` and `model_*` calls may come from any thread, but never two at once for the
// same object, except model_describe and the const getters, which are free. Contexts of one model
// may be used from different threads at the same time; one context never is.
//
// Errors: 0 or a negative status with words in `e`; outputs are untouched on failure.
// Freeing NULL is a no-op everywhere.
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "tensor/convert.h"
#include "tensor/custom_node.h"
#include "tensor/tensor.h"

struct npu_buffer; // npu/buffer/buffer.h
struct npu_device;
struct npu_model;
struct npu_context;

// ---- devices --------------------------------------------------------------------------------

// Whose the times are that a device gives.
enum npu_timing {
    NPU_TIMING_DEVICE,  // its own
    NPU_TIMING_MACHINE, // a software NPU: its machine's
    NPU_TIMING_PACED    // the same, made to last as long as the chip's
};

struct npu_device_info {
    char chip[32];             // "rk3588", …
    char backend[32];          // "sim", …
    char runtime_version[128]; // of the library that runs models, for RKNN_QUERY_SDK_VERSION
    char driver_version[128];
    uint32_t n_cores;
    uint64_t sram_size; // bytes that models may use; 0: none
    uint64_t clock_hz;  // that a software NPU computes its times with; 0: the machine tells it
    enum npu_timing timing;
    bool never_blocks; // context_submit returns at once, always: an event loop may call it
    bool replaces;     // npu_tap.tensor() may change what it is shown
    bool slices;       // jobs look at npu_job.slices
    bool dma;          // reads and writes tensors by itself: they are best in dma-bufs
};

// ---- models ---------------------------------------------------------------------------------

// The bytes of a model file. They stay mapped, unchanged, until the model is freed, so weights may
// be used in place.
struct npu_model_source {
    struct bytes file;
    const char *name;    // for words in errors and logs; may be "" but not NULL
    const char *options; // load options, one a line (PROTOCOL.md); NULL or "": none
};

#define NPU_MAX_SHAPE_SETS 512 // RKNN_MAX_DYNAMIC_SHAPE_NUM
#define NPU_MAX_ENDS       128 // inputs that a run can have, and outputs: bounds in rknnd.proto

struct npu_model_info {
    uint32_t n_inputs, n_outputs;
    // A shape set is the shapes that the inputs may have together. 0 is as 1: they are fixed. At
    // most NPU_MAX_SHAPE_SETS.
    uint32_t n_shape_sets;
    const struct tensor_io *inputs, *outputs; // of each shape set in turn; owned by the model
    uint64_t weight_size, internal_size;      // bytes, as the chip would report them
    uint64_t memory_size;                     // bytes the model really holds here
    uint64_t context_size;                    // bytes that each context holds; 0: not known
    uint32_t core_limit;                      // cores one run can use
    uint32_t batch;                           // rknn_batch_size, 1 where the model has none
    const char *custom_string;                // never NULL
    const char *estimate_chip;                // that estimates are for; NULL: there are none
    bool estimate_assumed;                    // neither the model nor the device says which chip
    uint32_t n_unestimated; // nodes that estimates leave out: the chip's CPU does them
    bool native_attrs;      // programs of this chip ask for attributes and mean the native ones
                            // (chip.small)
    bool no_custom;         // nobody else can compute nodes, whatever they are
    uint32_t n_custom; // nodes that a program or a plugin may compute; at most CUSTOM_MAX_NODES
    const struct custom_node *custom;
};

// ---- running --------------------------------------------------------------------------------

// An input of one job. `data` is only read; where a program has bound its own memory it may change
// at any time, so nothing that was checked in it may be trusted later. Inputs are complete: one for
// each of the model's.
struct npu_input {
    const void *data;
    size_t size;
    enum tensor_type type;       // of data; ignored with pass_through
    enum tensor_layout layout;   // of data: NHWC or NCHW when 4-D; ignored with pass_through
    uint32_t w_stride, h_stride; // as in convert_form; ignored with pass_through and converted
    bool pass_through;           // data is in the native form (tensor_io.native, with stride)
    bool converted;              // data already is what convert_input() makes (tensor_io.logical)
    bool stored; // data are values as the model stores them, of the model's type, in this layout
    const struct npu_buffer *dmabuf; // that holds data; NULL: plain memory. See npu_output
};

// Where an output goes; need not be aligned. The backend writes straight into it: it may be memory
// of the program.
struct npu_output {
    void *data; // NULL: not wanted
    size_t size;
    // NULL: tensor_io.logical's type and layout, packed. Else that is asked for: the model's type,
    // or FLOAT32 or FLOAT16 for real values; `size` is what convert_form_bytes() says.
    const struct convert_form *form;
    // That holds data; NULL: plain memory. During the job CPUs may access it; a device that does
    // so by itself sees to that itself. Stays as long as the job.
    const struct npu_buffer *dmabuf;
};

struct npu_job;

// A tensor that a node has just computed. All pointers are valid during the call only.
struct npu_tensor {
    const struct tensor_attr *attr; // named as in the file; type and layout as tensor_io.logical
    const char *node, *op;          // that computed it, as in npu_layer
    void *data;                     // attr->size bytes, packed
};

// Looks into a job: it is shown what nodes compute, each tensor once, as soon as its node has run,
// from the thread that runs the job. What the backend never computes (what it has fused away) is
// not shown.
struct npu_tap {
    bool (*wants)(struct npu_tap *tap, const char *name); // asked before anything is copied
    /// May block; the job waits. 0, or 1: `data` has been changed, and the job continues with what
    /// is there now (if the device `replaces`). Negative: the job ends with this status and these
    /// words.
    int (*tensor)(struct npu_tap *tap, const struct npu_tensor *t, struct error *e);
};

// Computes some of npu_model_info.custom's nodes in a job, from the thread that runs the job.
struct npu_custom {
    /// Whether it computes node `node`: 1, and then *tensors says where the node's n_inputs tensors
    /// are to be put and its n_outputs tensors will be; 0, and the device does it; or negative: the
    /// job ends with this status and these words.
    int (*begin)(struct npu_custom *custom, uint32_t node, void *const **tensors, struct error *e);
    /// After a begin() that was answered with 1: the inputs are there; returns when the outputs
    /// are, or a negative status as above. May block; the job waits.
    int (*compute)(struct npu_custom *custom, uint32_t node, struct error *e);
};

// Lends the device to others between two slices of a job: tasks or layers, of about `us` together.
// What they do there must not change the job's results.
struct npu_slices {
    uint32_t us;               // of the device; never 0
    const atomic_bool *wanted; // behind the slice that runs wait() is to be called; may change at
                               // any time
    /// From the thread that runs the job: returns 0 when the job may go on, or a negative status:
    /// the job ends with it and these words. Meanwhile jobs of other contexts run on its cores.
    int (*wait)(struct npu_slices *slices, struct error *e);
};

/// Called exactly once for each accepted job, from any thread, also from inside context_submit.
/// `status` 0 or negative, then with words in job->error. May not block and may not submit.
typedef void npu_job_done(struct npu_job *job, int status);

// One run of a context. Owned by the caller; must stay, with everything it points to, until done.
struct npu_job {
    const struct npu_input *inputs;   // n_inputs of the model
    const struct npu_output *outputs; // n_outputs of the model
    uint32_t shape_set;               // that inputs and outputs have
    uint32_t core_mask;               // bit i: core i; never 0
    bool divide_batch;         // each core does some of the batch, instead of a part of each layer
    bool collect_perf;         // fill the context's layer times (npu_layer)
    struct npu_tap *tap;       // NULL: nobody looks; never set if the device never_blocks
    struct npu_custom *custom; // NULL: the device computes all nodes itself; as tap
    struct npu_slices *slices; // NULL: it is not interrupted; never set unless the device `slices`
    const atomic_bool *stop;   // true: nobody needs the results, the job may end early, with an
                               // error; may change at any time. NULL: that will not be
    npu_job_done *done;
    void *owner; // the caller's

    // Results, valid in done():
    uint64_t run_us;      // time on the device, without waits between slices
    uint64_t estimate_ns; // on npu_model_info.estimate_chip; 0: not known
    struct error error;
};

// What a backend may do with a path, and below it if it is a folder.
enum npu_access {
    NPU_ACCESS_READ,
    NPU_ACCESS_DEVICE, // open for reading and writing, ioctl()
    NPU_ACCESS_WRITE   // also make, rename and remove files
};

/// `path` is only valid during the call. Negative: no more paths are wanted.
typedef int npu_add_path(void *owner, const char *path, enum npu_access access, struct error *e);

#define NPU_MAX_CORES 3 // that can share a layer

// What one layer of the last run with collect_perf did. Strings live as long as the list.
struct npu_layer {
    const char *name, *op, *type, *target;    // "Conv:conv1", "ConvRelu", "INT8", "NPU" or "CPU"
    const char *input_shapes, *output_shapes; // "(1,224,224,3),(…)"
    uint64_t time_us;
    uint64_t estimate_ns; // on npu_model_info.estimate_chip, with these cores; 0: not known
    uint64_t ddr_cycles, npu_cycles, total_cycles; // the chip's estimate; 0: not known
    uint64_t macs;
    uint64_t mac_cycles; // cycles that macs take when every multiplier works; 0: not known
    uint64_t read_bytes, write_bytes;
    uint32_t core_mask;
    uint32_t n_tasks;                  // that one core does it in; 0: not known, or not on the NPU
    uint64_t core_work[NPU_MAX_CORES]; // share of each core, in any unit; all 0: not known, or none
};

// ---- the table ------------------------------------------------------------------------------

// Goes up with every change of this file, or of a struct below, that a module has to know of:
// another member, another order of calls, another meaning.
#define NPU_API_VERSION 5

// The structs that calls pass. Their sizes are compared, too, for changes that nobody has counted.
#define NPU_STRUCT_LIST(X)                                                                         \
    X(error)                                                                                       \
    X(npu_device_info)                                                                             \
    X(npu_model_source)                                                                            \
    X(npu_model_info)                                                                              \
    X(tensor_io)                                                                                   \
    X(custom_node)                                                                                 \
    X(npu_input)                                                                                   \
    X(npu_output)                                                                                  \
    X(convert_form)                                                                                \
    X(npu_job)                                                                                     \
    X(npu_slices)                                                                                  \
    X(npu_tensor)                                                                                  \
    X(npu_layer)
#define X(name) NPU_STRUCT_##name,
enum npu_struct { NPU_STRUCT_LIST(X) NPU_N_STRUCTS };
#undef X

#define NPU_STRUCT_SIZE_(name) [NPU_STRUCT_##name] = sizeof(struct name),
#define NPU_STRUCT_SIZES                                                                           \
    {                                                                                              \
        NPU_STRUCT_LIST(NPU_STRUCT_SIZE_)                                                          \
    }

// The first members of each backend's table.
#define NPU_BACKEND_HEAD                                                                           \
    .api_version = NPU_API_VERSION, .size = sizeof(struct npu_backend),                            \
    .struct_sizes = NPU_STRUCT_SIZES

struct npu_backend {
    // In every version the table begins with these two.
    uint32_t api_version;
    uint32_t size; // of the table
    uint32_t struct_sizes[NPU_N_STRUCTS];

    const char *name;

    /// What the module logs goes to this log from now on; the first call.
    void (*log_use)(struct log *log);

    /// Calls add() for each path that device_open and all later calls may use, besides what every
    /// program reads (libraries, what the kernel tells of the machine): a worker's sandbox allows
    /// nothing else. Paths need not exist. Wrong `options` are left for device_open to refuse.
    /// NULL: there are none.
    int (*list_paths)(const char *options, npu_add_path *add, void *owner, struct error *e);

    /// Opens a device. `options` is what follows the name in --backend ("rk3588,paced"), or "".
    /// May block.
    int (*device_open)(const char *options, struct npu_device **ret, struct error *e);
    void (*device_free)(struct npu_device *device);
    const struct npu_device_info *(*device_info)(const struct npu_device *device);

    /// Loads a model; refuses (STATUS_MODEL_INVALID, STATUS_TARGET_PLATFORM_UNMATCH) whatever it
    /// would not run correctly, and says which node or feature. May block for seconds.
    int (*model_load)(struct npu_device *device, const struct npu_model_source *source,
                      struct npu_model **ret, struct error *e);
    void (*model_free)(struct npu_model *model); // after its contexts
    const struct npu_model_info *(*model_info)(const struct npu_model *model);

    /// Everything the file says, as JSON text, also of models that model_load would refuse. *ret
    /// is malloc'ed, the caller frees it. May block.
    int (*model_describe)(struct npu_device *device, const struct npu_model_source *source,
                          char **ret, struct error *e);

    int (*context_new)(struct npu_model *model, struct npu_context **ret, struct error *e);
    void (*context_free)(struct npu_context *context); // not while a job is in flight

    /// From the next job on intermediate results are kept in this memory if it is large enough for
    /// them; NULL: in the context's own again. `dmabuf` holds it (NULL: plain memory), and a job
    /// may have it as those of its inputs. Others may write to it between jobs, and a hostile
    /// client at any time. May be NULL: the backend has no use for such memory. Not while a job is
    /// in flight.
    int (*context_set_internal)(struct npu_context *context, void *memory, size_t size,
                                const struct npu_buffer *dmabuf, struct error *e);

    /// Starts a job. Either accepts it (returns 0; done() comes exactly once) or refuses it at
    /// once with a negative status (done() does not come). May block as long as the job runs
    /// (unless npu_device_info.never_blocks): call it from a thread that has nothing else to do.
    /// One job at a time for a context.
    int (*context_submit)(struct npu_context *context, struct npu_job *job, struct error *e);

    /// The buffer, which jobs may have had as `dmabuf`, is about to go: no job has it any more, and
    /// what the device keeps of it is to be given back now. From any thread, at any time. May be
    /// NULL: the backend keeps nothing behind a job.
    void (*buffer_gone)(struct npu_device *device, const struct npu_buffer *b);

    /// The layers of the last job with collect_perf, in order; *ret_n is 0 when there was none.
    /// Valid until the next submit.
    const struct npu_layer *(*context_layers)(const struct npu_context *context, size_t *ret_n);
};

// Each backend is a module of its own (npu-NAME.so) that exports this symbol. The service
// refuses it unless its head says what the service's own would.
#define NPU_BACKEND_SYMBOL "npu_backend"
extern const struct npu_backend npu_backend;

// Defines it from functions of these names, which every backend has; what only some have follows
// the name: NPU_BACKEND("sim", .context_set_internal = context_set_internal).
#define NPU_BACKEND(backend_name, ...)                                                             \
    __attribute__((visibility("default")))                                                         \
    const struct npu_backend npu_backend = {NPU_BACKEND_HEAD,                                      \
                                            .name = (backend_name),                                \
                                            .log_use = log_use,                                    \
                                            .device_open = device_open,                            \
                                            .device_free = device_free,                            \
                                            .device_info = device_info,                            \
                                            .model_load = model_load,                              \
                                            .model_free = model_free,                              \
                                            .model_info = model_info,                              \
                                            .model_describe = model_describe,                      \
                                            .context_new = context_new,                            \
                                            .context_free = context_free,                          \
                                            .context_submit = context_submit,                      \
                                            .context_layers = context_layers,                      \
                                            ##__VA_ARGS__}
