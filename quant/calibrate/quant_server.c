// The file has no name (quant_model_save_nameless). That of a model with weights in other files
// lies beside those, by a name: the client library looks for them in its folder.
#include "quant/calibrate/quant_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int quant_server_words(int code, struct error *e)
{
    return error_set(e, code, "%s", rknnd_last_reason());
}

static bool server_has_other_files(const struct quant_model *m)
{
    for (size_t i = 0; i < m->graph->n_initializer; i++)
        if (m->graph->initializer[i]->data_location)
            return true;
    return false;
}

static int server_refused(int code, struct error *e)
{
    return error_set(e, code, "the model cannot be run: %s", rknnd_last_reason());
}

// ---- a file without a name ----

static int server_open_nameless(struct quant_model *m, rknn_context *ret, struct error *e)
{
    cleanup(fd_close_p) int fd = -1;
    int r = quant_model_save_nameless(m, &fd, e);
    if (r < 0)
        return r;
    rknn_init_extend by = {.model_buffer_fd = fd};
    r = rknn_init(ret, NULL, 0, RKNN_FLAG_MODEL_BUFFER_ZERO_COPY, &by);
    return r < 0 ? server_refused(r, e) : 0;
}

// ---- a file beside others ----

static int server_open_beside(struct quant_model *m, rknn_context *ret, struct error *e)
{
    cleanup(free_p) char *path = NULL;
    if (asprintf(&path, "%s/rknnd-quantize-XXXXXX.onnx", m->folder) < 0) {
        path = NULL;
        return error_no_memory(e, "a path", 0);
    }
    int fd = mkstemps(path, 5);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    close(fd);
    int r = quant_model_save(m, path, e);
    if (r == 0 && (r = rknn_init(ret, path, 0, 0, NULL)) < 0)
        server_refused(r, e);
    unlink(path);
    return r < 0 ? r : 0;
}

// The server, or this process, has read all of it once the context is there.
int quant_server_open(struct quant_model *m, rknn_context *ret, struct error *e)
{
    return server_has_other_files(m) ? server_open_beside(m, ret, e)
                                     : server_open_nameless(m, ret, e);
}
