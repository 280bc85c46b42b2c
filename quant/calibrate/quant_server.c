// The file has no name and all weights in it (quant_model_save_nameless): so nothing is left of it,
// and the model's folder need not be one that can be written to.
#include "quant/calibrate/quant_server.h"

#include <stdlib.h>
#include <string.h>

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

// ---- other threads ----

void quant_caller_done(struct quant_caller *c)
{
    free(c->server);
    free(c->load_options);
    *c = (struct quant_caller){0};
}

int quant_caller_begin(struct quant_caller *c, struct error *e)
{
    *c = (struct quant_caller){strdup(rknnd_get_thread_server()), strdup(rknnd_get_load_options())};
    if (c->server && c->load_options)
        return 0;
    quant_caller_done(c);
    return error_no_memory(e, "the server's name", 0);
}

int quant_caller_act(const struct quant_caller *c, struct error *e)
{
    if (rknnd_set_thread_server(*c->server ? c->server : NULL) < 0 ||
        rknnd_set_load_options(c->load_options) < 0)
        return error_set(e, STATUS_FAIL, "%s", rknnd_last_reason());
    return 0;
}

static void *opening_work(void *user)
{
    struct quant_opening *o = user;
    o->status = quant_caller_act(&o->caller, &o->error);
    if (o->status == 0)
        o->status = quant_server_open(&o->copy, &o->context, &o->error);
    return NULL;
}

void quant_opening_begin(struct quant_opening *o, const struct quant_model *m)
{
    *o = (struct quant_opening){.model = m};
    struct error ignored; // who ends it opens the model then, and meets the failure again
    o->started = quant_caller_begin(&o->caller, &ignored) == 0 &&
                 quant_model_copy(&o->copy, m, &ignored) == 0 &&
                 pthread_create(&o->thread, NULL, opening_work, o) == 0;
}

// False: it did not succeed.
static bool opening_wait(struct quant_opening *o, rknn_context *ret)
{
    if (o->started)
        pthread_join(o->thread, NULL);
    bool opened = o->started && o->status == 0;
    *ret = o->context;
    quant_model_done(&o->copy);
    quant_caller_done(&o->caller);
    *o = (struct quant_opening){0};
    return opened;
}

// A server that has no room for two models may have it for one by now.
int quant_opening_end(struct quant_opening *o, rknn_context *ret, struct error *e)
{
    const struct quant_model *m = o->model;
    return opening_wait(o, ret) ? 0 : quant_server_open(m, ret, e);
}

void quant_opening_drop(struct quant_opening *o)
{
    rknn_context context;
    if (opening_wait(o, &context))
        rknn_destroy(context);
}
