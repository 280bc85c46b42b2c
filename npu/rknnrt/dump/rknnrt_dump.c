// Runs whose layers the runtime dumps, for tools that look at tensors between layers.
//
//      thread of its own:  lane_run(), then signals `ended`
//      calling thread:     poll(inotify, ended) -> reads each file -> tap->tensor()
//
// Dumping is switched on by an environment variable while a context is opened, so such a run has a
// context of its own: it loads the model again, and is for debugging only.
#include "npu/rknnrt/dump/rknnrt_dump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "npu/rknnrt/dump/dump_folder.h"
#include "npu/rknnrt/dump/dump_npy.h"

#define LEVEL   "RKNN_LOG_LEVEL"
#define DUMPING "5"

struct dump {
    struct lane lane;
    struct dump_folder folder;
    struct npu_job *job;
    uint32_t cores;
    int ended; // eventfd: the run is over
    int run_status;
    struct error run_error;
    int status; // of showing
    struct error error;
};

// ---- showing -----------------------------------------------------------------------------------

// "012_Conv_x.npy" is the tensor "012_Conv_x".
static void name_tensor(struct tensor_attr *a, const char *file)
{
    snprintf(a->name, sizeof a->name, "%.*s", (int)(strrchr(file, '.') - file), file);
}

// Hands one file's tensor to the tap. The file is read even if nobody wants it, as that removes it.
static int show(struct dump *d, const char *file, struct error *e)
{
    struct npu_tap *tap = d->job->tap;
    struct tensor_attr name = {0}, attr;
    struct bytes data;
    cleanup(free_p) void *bytes = NULL;
    size_t size;
    int s = dump_folder_take(&d->folder, file, &bytes, &size, e);
    name_tensor(&name, file);
    if (s < 0 || !tap->wants(tap, name.name))
        return s;
    s = dump_npy_parse((struct bytes){bytes, size}, &attr, &data, e);
    if (s < 0)
        return s;
    memcpy(attr.name, name.name, sizeof attr.name);
    struct npu_tensor t = {.attr = &attr, .node = attr.name, .op = "", .data = (void *)data.data};
    return tap->tensor(tap, &t, e);
}

// Shows what has been written by now. The first failure is kept; after it files are only removed.
static void show_all(struct dump *d)
{
    const char *file;
    struct error e;
    int s;
    while ((s = dump_folder_next(&d->folder, &file, &e)) > 0) {
        if (d->status < 0) {
            unlinkat(d->folder.fd, file, 0);
            continue;
        }
        s = show(d, file, &e);
        if (s < 0) {
            error_prefix(&e, "the runtime's dump %.100s", file);
            d->status = s;
            d->error = e;
        }
    }
    if (s < 0 && d->status == 0) {
        d->status = s;
        d->error = e;
    }
}

// ---- running -----------------------------------------------------------------------------------

static void *run_lane(void *arg)
{
    struct dump *d = arg;
    d->run_status = lane_run(&d->lane, d->job, d, d->cores, &d->run_error);
    eventfd_write(d->ended, 1);
    return NULL;
}

// Until the run has ended. Files that come later are shown by run_in_folder().
static void watch(struct dump *d)
{
    struct pollfd fds[] = {{.fd = d->folder.watch, .events = POLLIN},
                           {.fd = d->ended, .events = POLLIN}};
    do {
        if (poll(fds, 2, -1) > 0)
            show_all(d);
    } while (!(fds[1].revents & POLLIN));
}

// The runtime runs in a thread of its own, so that its files can be shown as they come.
static int run_watched(struct dump *d, struct error *e)
{
    pthread_t thread;
    d->ended = eventfd(0, EFD_CLOEXEC);
    if (d->ended < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "cannot start a dump");
    int failed = pthread_create(&thread, NULL, run_lane, d);
    if (failed) {
        fd_close(d->ended);
        return error_set_errno(e, STATUS_FAIL, failed, "cannot start a dump");
    }
    watch(d);
    pthread_join(thread, NULL);
    fd_close(d->ended);
    return 0;
}

const char *dump_usual_folder(void)
{
    struct stat st;
    return stat("/data", &st) == 0 ? "/data/dumps" : "/userdata/dumps";
}

// A failure of showing comes first: it is the more specific one.
static int conclude(struct dump *d, struct error *e)
{
    const struct error *why = d->status < 0 ? &d->error : &d->run_error;
    int s = d->status < 0 ? d->status : d->run_status;
    if (s < 0)
        *e = *why;
    return s;
}

// What the runtime writes at the context's end still counts.
static int run_in_folder(struct dump *d, struct error *e)
{
    int s = run_watched(d, e);
    lane_done(&d->lane);
    show_all(d);
    return s < 0 ? s : conclude(d, e);
}

// The runtime looks at its environment; so do its threads, but this is a worker's risk to take.
static char *set_level(const char *level)
{
    const char *before = getenv(LEVEL);
    char *copy = before ? strdup(before) : NULL;
    level ? setenv(LEVEL, level, 1) : unsetenv(LEVEL);
    return copy;
}

int dump_run(const struct runtime *r, struct bytes file, const struct npu_model_info *info,
             const char *folder, struct npu_job *job, uint32_t cores, struct error *e)
{
    cleanup(free_p) struct dump *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a dump", sizeof *d);
    d->job = job;
    d->cores = cores;
    int s = dump_folder_open(&d->folder, *folder ? folder : dump_usual_folder(), e);
    if (s < 0)
        return s;
    cleanup(free_p) char *before = set_level(DUMPING);
    s = lane_init(&d->lane, r, file, 0, info, e);
    if (s == 0)
        s = run_in_folder(d, e);
    free(set_level(before));
    dump_folder_close(&d->folder);
    return s;
}
