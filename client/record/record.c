// Recording (RKNND_RECORD): every frame that matters for a replay goes into one file of the
// process, in the order in which requests were sent and answers were complete (the form is in
// recording.h).
//
// The recorder's lock is taken inside connections' locks, and guards the file. A struct record is a
// connection's part of it. Errors are sticky: after one that was met while writing nothing more is
// written, and requests fail, since a recording with a gap cannot be replayed.
#include "client/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "client/record/recording.h"

#define PART_SIZE (256u * 1024) // of a model, at a time

// A connection's answer on its way.
struct record {
    uint32_t connection;
    unsigned n_forks; // as the recorder's, else it is a parent's
    bool pending;
    struct frame_header header;
    uint8_t message[FRAME_MESSAGE_MAX];
    struct iovec segments[FRAME_MAX_SEGMENTS];
    int n_segments;
};

struct recorded_model {
    struct recorded_model *next;
    uint8_t sha256[MODEL_SHA256_SIZE];
};

static struct {
    pthread_mutex_t lock;
    FILE *file; // NULL: not open
    char path[4096];
    uint64_t size;
    uint64_t start_us;
    uint32_t n_connections;
    unsigned n_forks;
    struct recorded_model *models; // that are in the file
    struct error failed;           // code 0: it has not
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool record_wanted(void)
{
    const char *path = getenv("RKNND_RECORD");
    return path && *path;
}

// ---- the file ----------------------------------------------------------------------------------

// "%p" in the name is the process's number.
static int expand_path(const char *from, char *to, size_t size)
{
    const char *mark = strstr(from, "%p");
    int n = mark ? snprintf(to, size, "%.*s%d%s", (int)(mark - from), from, (int)getpid(), mark + 2)
                 : snprintf(to, size, "%s", from);
    return n >= 0 && (size_t)n < size ? 0 : -1;
}

// Sets errno. What is beyond the limit is not tried: it would end the program.
static bool put(const void *data, size_t size)
{
    recorder.size += size;
    if (fd_limit_allows(recorder.size))
        return fwrite(data, 1, size, recorder.file) == size;
    errno = EFBIG;
    return false;
}

// Made by the first connection. O_EXCL: another process may be writing a file of this name.
static int open_file(struct error *e)
{
    uint8_t head[RECORDING_HEAD_SIZE];
    if (recorder.file)
        return 0;
    if (expand_path(getenv("RKNND_RECORD"), recorder.path, sizeof recorder.path) < 0)
        return error_set(e, STATUS_PARAM_INVALID, "RKNND_RECORD is too long");
    int fd = fd_above_standard(open(recorder.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd < 0 && errno == EEXIST)
        return error_set(e, STATUS_PARAM_INVALID,
                         "RKNND_RECORD: %.200s is there already: remove it, or write %%p into the "
                         "name for a file of each process",
                         recorder.path);
    if (fd < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "RKNND_RECORD: %.200s",
                               recorder.path);
    recorder.file = fdopen(fd, "w");
    recorder.start_us = clock_us();
    recording_write_file_head(head);
    if (!recorder.file || !put(head, sizeof head))
        return error_set_errno(e, STATUS_FAIL, errno, "RKNND_RECORD: %.200s", recorder.path);
    return 0;
}

// Does nothing after a failure.
static void write_bytes(const void *data, size_t size)
{
    if (recorder.failed.code || size == 0 || put(data, size))
        return;
    error_set_errno(&recorder.failed, STATUS_FAIL, errno, "the recording %.200s cannot go on",
                    recorder.path);
    log_error("%s", recorder.failed.text);
}

static void write_head(uint32_t connection)
{
    uint8_t head[RECORDING_HEAD_SIZE];
    recording_write_head(connection, clock_us() - recorder.start_us, head);
    write_bytes(head, sizeof head);
}

static void write_segments(const struct iovec *segments, int n)
{
    for (int i = 0; i < n; i++)
        write_bytes(segments[i].iov_base, segments[i].iov_len);
}

// Flushes after every frame: a program may die at any time, and complete frames are then in the
// file.
static int end_frame(struct error *e)
{
    if (!recorder.failed.code && fflush(recorder.file) != 0)
        error_set_errno(&recorder.failed, STATUS_FAIL, errno, "the recording %.200s cannot go on",
                        recorder.path);
    if (recorder.failed.code && e)
        *e = recorder.failed;
    return recorder.failed.code;
}

// ---- connections -------------------------------------------------------------------------------

// Numbers the process's connections from 1; 0 stands for models.
int record_join(struct record **ret, struct error *e)
{
    *ret = NULL;
    if (!record_wanted())
        return 0;
    struct record *r = calloc(1, sizeof *r);
    if (!r)
        return error_no_memory(e, "a recording", sizeof *r);
    pthread_mutex_lock(&recorder.lock);
    int s = open_file(e);
    if (s == 0)
        *r = (struct record){.connection = ++recorder.n_connections, .n_forks = recorder.n_forks};
    pthread_mutex_unlock(&recorder.lock);
    if (s < 0)
        free(r);
    else
        *ret = r;
    return s;
}

static void write_frame(const struct record *r, const struct frame_out *f)
{
    write_head(r->connection);
    write_bytes(f->head, f->head_size);
    write_segments(f->segments, f->n_segments);
}

// n_forks differs for a parent's connection in a child: that one is not in this file.
int record_request(struct record *r, uint16_t type, const struct frame_out *f, struct error *e)
{
    if (!r || !recording_has(type))
        return 0;
    int s = 0;
    pthread_mutex_lock(&recorder.lock);
    if (r->n_forks == recorder.n_forks) {
        write_frame(r, f);
        s = end_frame(e);
    }
    pthread_mutex_unlock(&recorder.lock);
    return s;
}

// So that what the connection held ends in a replay, too.
void record_leave(struct record *r)
{
    struct error unwanted;
    if (!r)
        return;
    struct frame_out *f = message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields,
                                        &(rknnd_Goodbye){0}, NULL, 0, NULL, NULL);
    if (f)
        record_request(r, MESSAGE_GOODBYE, f, &unwanted);
    frame_out_free(f);
    free(r);
}

// Only remembers the answer: its payload will come into these segments.
void record_answer(struct record *r, const struct frame_header *h, struct bytes message,
                   const struct iovec *segments, int n_segments)
{
    if (!r || !recording_has(h->type))
        return;
    r->pending = true;
    r->header = *h;
    r->header.n_fds = 0;
    memcpy(r->message, message.data, message.size);
    for (r->n_segments = 0; r->n_segments < n_segments; r->n_segments++)
        r->segments[r->n_segments] = segments[r->n_segments];
}

// The payload is complete. Reads it from where it was put, so this comes before the program gets
// it.
void record_answer_whole(struct record *r)
{
    uint8_t header[FRAME_HEADER_SIZE];
    if (!r || !r->pending)
        return;
    r->pending = false;
    frame_header_write(header, &r->header);
    pthread_mutex_lock(&recorder.lock);
    write_head(r->connection);
    write_bytes(header, sizeof header);
    write_bytes(r->message, r->header.message_size);
    write_segments(r->segments, r->n_segments);
    end_frame(NULL); // the next request tells
    pthread_mutex_unlock(&recorder.lock);
}

// ---- models ------------------------------------------------------------------------------------

static bool has_model(const struct model *m)
{
    const struct recorded_model *known = recorder.models;
    while (known && memcmp(known->sha256, m->sha256, sizeof m->sha256) != 0)
        known = known->next;
    return known;
}

// The whole model as one MODEL_CHUNK frame of connection 0, whatever a server's limit is. A file
// that cannot be read any more spoils the recording.
static int write_model(const struct model *m, uint8_t *buffer, struct error *e)
{
    rknnd_ModelChunk message = {.offset = 0};
    struct iovec whole = {NULL, (size_t)m->size};
    memcpy(message.sha256, m->sha256, sizeof message.sha256);
    struct frame_out *f = message_frame(MESSAGE_MODEL_CHUNK, 0, 0, rknnd_ModelChunk_fields,
                                        &message, &whole, 1, NULL, NULL);
    if (!f)
        return error_no_memory(e, "a frame", sizeof message);
    write_head(0);
    write_bytes(f->head, f->head_size);
    frame_out_free(f);
    for (uint64_t at = 0; at < m->size; at += PART_SIZE) {
        size_t n = m->size - at < PART_SIZE ? (size_t)(m->size - at) : PART_SIZE;
        const uint8_t *part = model_read(m, at, n, buffer, e);
        if (!part) { // the file is spoilt: it ends in the middle
            recorder.failed = *e;
            return e->code;
        }
        write_bytes(part, n);
    }
    return end_frame(e);
}

// Once per model and file. Buffers are allocated before the lock is taken.
int record_model(struct record *r, const struct model *m, struct error *e)
{
    if (!r)
        return 0;
    cleanup(free_p) uint8_t *buffer = malloc(PART_SIZE);
    struct recorded_model *known = malloc(sizeof *known);
    if (!buffer || !known) {
        free(known);
        return error_no_memory(e, "a recording", PART_SIZE);
    }
    int s = 0;
    pthread_mutex_lock(&recorder.lock);
    if (!has_model(m)) {
        s = write_model(m, buffer, e);
        memcpy(known->sha256, m->sha256, sizeof known->sha256);
        known->next = recorder.models;
        recorder.models = steal_ptr(known);
    }
    pthread_mutex_unlock(&recorder.lock);
    free(known);
    return s;
}

// ---- fork --------------------------------------------------------------------------------------

void record_before_fork(void)
{
    pthread_mutex_lock(&recorder.lock);
}

// The child has connections of its own and makes a recording of its own (%p in the name). The list
// of models is only forgotten, not freed.
void record_after_fork(bool child)
{
    recorder.n_forks += child;
    if (child && recorder.file) {
        fclose(recorder.file); // nothing is in its buffer: every frame was flushed
        recorder.file = NULL;
        recorder.n_connections = 0;
        recorder.models = NULL;
    }
    pthread_mutex_unlock(&recorder.lock);
}
