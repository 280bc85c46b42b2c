// The file has no name and all weights in it (quant_model_save_nameless): so nothing is left of it,
// and the model's folder need not be one that can be written to.
#include "quant/calibrate/quant_server.h"

#include "base/cleanup.h"

int quant_server_words(int code, struct error *e)
{
    return error_set(e, code, "%s", rknnd_last_reason());
}

static int server_refused(int code, struct error *e)
{
    return error_set(e, code, "the model cannot be run: %s", rknnd_last_reason());
}

// The server, or this process, has read all of it once the context is there.
int quant_server_open(const struct quant_model *m, rknn_context *ret, struct error *e)
{
    cleanup(fd_close_p) int fd = -1;
    int r = quant_model_save_nameless(m, &fd, e);
    if (r < 0)
        return r;
    rknn_init_extend by = {.model_buffer_fd = fd};
    r = rknn_init(ret, NULL, 0, RKNN_FLAG_MODEL_BUFFER_ZERO_COPY, &by);
    return r < 0 ? server_refused(r, e) : 0;
}
