// What a worker prints, whatever it is. Input: the bytes, which come 3000 at a time.
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "server/runner/worker_log.h"

#define PIPE_BYTES (16 * 3000) // a pipe has 16 pages, and each write may take one

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_closed(struct worker_log *l)
{
    l->closed = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct worker_log log;
    uv_loop_t loop;
    struct error e;
    int far_end;
    log_set_level(LOG_SILENT);
    if (uv_loop_init(&loop) < 0 || worker_log_init(&log, &loop, &far_end, &e) < 0)
        abort();
    size = size < PIPE_BYTES ? size : PIPE_BYTES;
    for (size_t done = 0; done < size;) {
        size_t n = size - done < 3000 ? size - done : 3000;
        done += (size_t)write(far_end, data + done, n);
        uv_run(&loop, UV_RUN_NOWAIT);
        assert(log.budget <= WORKER_LOG_LINES && log.length < sizeof log.line);
    }
    worker_log_close(&log, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert(!log.closed);
    fd_close(far_end);
    return uv_loop_close(&loop);
}
