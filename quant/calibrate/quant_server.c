// The file lies in $TMPDIR or /tmp; that of a model with weights in other files beside those.
#include "quant/calibrate/quant_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

const char *quant_server_last_words(void)
{
    const char *words = rknnd_last_error(), *colon = strstr(words, ": ");
    return colon && strncmp(words, "rknn", 4) == 0 ? colon + 2 : words;
}

int quant_server_words(int code, struct error *e)
{
    return error_set(e, code, "%s", quant_server_last_words());
}

static bool server_has_other_files(const struct quant_model *m)
{
    for (size_t i = 0; i < m->graph->n_initializer; i++)
        if (m->graph->initializer[i]->data_location)
            return true;
    return false;
}

static int server_write_model(struct quant_model *m, char **ret, struct error *e)
{
    const char *folder = getenv("TMPDIR");
    if (server_has_other_files(m))
        folder = m->folder;
    if (!folder || !*folder)
        folder = "/tmp";
    cleanup(free_p) char *path = NULL;
    if (asprintf(&path, "%s/rknnd-quantize-XXXXXX.onnx", folder) < 0) {
        path = NULL;
        return error_no_memory(e, "a path", 0);
    }
    int fd = mkstemps(path, 5);
    if (fd < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
    close(fd);
    int r = quant_model_save(m, path, e);
    if (r < 0)
        unlink(path);
    else
        *ret = steal_ptr(path);
    return r;
}

// The server, or this process, has read all of it once the context is there.
int quant_server_open(struct quant_model *m, rknn_context *ret, struct error *e)
{
    cleanup(free_p) char *path = NULL;
    int r = server_write_model(m, &path, e);
    if (r < 0)
        return r;
    r = rknn_init(ret, path, 0, 0, NULL);
    if (r < 0)
        quant_server_words(r, e);
    unlink(path);
    return r < 0 ? r : 0;
}
