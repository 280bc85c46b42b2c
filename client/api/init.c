// rknn_init, rknn_dup_context, rknn_destroy.
//
//     find the model (memory, file, part, fd), hash it ─► connect ─► upload what the server lacks
//       ─► CONTEXT_OPEN with the hash ─► context_open()
#include "client/api/init.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "client/api/callbacks.h"
#include "client/api/context_open.h"
#include "client/fork.h"
#include "client/last_error.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/model/load_options.h"
#include "client/model/stored.h"
#include "client/model/upload.h"

#define FLAGS_KNOWN   0x1ffffu
#define PRIORITY_MASK 3u // RKNN_FLAG_PRIOR_*

void init_prepare(void)
{
    last_error_read_log_level();
    fork_prepare();
}

static int check_flags(uint32_t flags, struct error *e)
{
    if (flags & ~FLAGS_KNOWN)
        return error_set(e, STATUS_PARAM_INVALID, "flag 0x%x is not known", flags & ~FLAGS_KNOWN);
    if ((flags & PRIORITY_MASK) == PRIORITY_MASK)
        return error_set(e, STATUS_PARAM_INVALID, "the flags name two priorities");
    if (flags & RKNN_FLAG_FENCE_OUT_OUTSIDE) // only drivers can make what other drivers wait for
        return error_set(e, STATUS_PARAM_INVALID,
                         "no fence comes out of a run in another process (flag 0x%x); rknn_run "
                         "with non_block and rknn_wait say when it is done",
                         RKNN_FLAG_FENCE_OUT_OUTSIDE);
    return 0;
}

// RKNN_FLAG_SHARE_WEIGHT_MEM has nothing to do here: contexts of the same model share weights
// anyway. The context that it names has to exist.
static int check_shared(uint32_t flags, const rknn_init_extend *extend, struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    if (!(flags & RKNN_FLAG_SHARE_WEIGHT_MEM))
        return 0;
    int r = context_enter(extend ? extend->ctx : 0, &c, e);
    return r < 0 ? error_prefix(e, "RKNN_FLAG_SHARE_WEIGHT_MEM, extend->ctx") : 0;
}

// RKNN_FLAG_MODEL_BUFFER_ZERO_COPY without an address: the model is known by its file descriptor.
static int model_from_fd(struct model *m, const rknn_init_extend *extend, uint64_t offset,
                         uint64_t size, struct error *e)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", extend->model_buffer_fd);
    int r = model_from_file(m, path, offset, size, e);
    snprintf(m->name, sizeof m->name, "(descriptor %d)", extend->model_buffer_fd);
    return r;
}

// The arguments of rknn_init() have several meanings: size 0 makes `model` a path, or a stored
// model's name; with the
// zero-copy flag extend has address, size or descriptor; extend may cut all of them down to a part.
static int find_model(struct model *m, const void *model, uint32_t size, uint32_t flags,
                      const rknn_init_extend *extend, struct error *e)
{
    uint64_t part_offset = 0, part_size = 0;
    bool in_memory = flags & RKNN_FLAG_MODEL_BUFFER_ZERO_COPY;
    if (in_memory && !extend)
        return error_set(e, STATUS_PARAM_INVALID,
                         "a model in zero-copy memory (flag 0x%x) needs extend",
                         RKNN_FLAG_MODEL_BUFFER_ZERO_COPY);
    if (!model && !in_memory)
        return error_set(e, STATUS_PARAM_INVALID, "the model is NULL");
    if (extend && extend->real_model_offset < 0)
        return error_set(e, STATUS_PARAM_INVALID, "real_model_offset %d is negative",
                         extend->real_model_offset);
    if (extend && extend->real_model_size > 0) {
        part_offset = (uint64_t)extend->real_model_offset;
        part_size = extend->real_model_size;
    }
    if (!model)
        return model_from_fd(m, extend, part_offset, part_size, e);
    if (in_memory && !size)
        size = (uint32_t)extend->real_model_offset + extend->real_model_size;
    if (!size && stored_is_meant(model))
        return part_size ? error_set(e, STATUS_PARAM_INVALID,
                                     "a stored model is opened whole (extend names a part)")
                         : stored_model(m, model, e);
    return size ? model_from_memory(m, model, size, part_offset, part_size, e)
                : model_from_file(m, model, part_offset, part_size, e);
}

// Connects and uploads the model. If the connection breaks, a new one resumes the upload where it
// was, as long as each attempt makes progress or a few have not; with the same server, whatever
// other threads select meanwhile.
int init_bring_model(const char *uri, struct model *m, struct connection **ret, struct error *e)
{
    uint64_t held = 0, held_before = 0;
    char server[256] = "";
    snprintf(server, sizeof server, "%s", uri ? uri : "");
    for (unsigned vain = 0;;) {
        struct connection *c = NULL;
        int r = selection_connect(*server ? server : NULL, &c, e);
        if (r < 0)
            return r;
        snprintf(server, sizeof server, "%s", c->uri);
        pthread_mutex_lock(&c->lock);
        r = upload_model(c, m, &held, e);
        bool lost = c->lost;
        pthread_mutex_unlock(&c->lock);
        if (r == 0) {
            *ret = c;
            return 0;
        }
        server_disconnect(c);
        vain = held > held_before ? 1 : vain + 1;
        held_before = held;
        if (!lost || vain == LIMIT_UPLOAD_ATTEMPTS)
            return r;
        log_info("the upload of %s broke off (%s); trying again", m->name, e->text);
    }
}

// RKNND_PRIORITY makes a program's runs less urgent than its flags say: products of matrices, which
// have no flags, and programs that nobody builds again.
static int limit_priority(uint32_t *flags, struct error *e)
{
    static const char *const names[] = {"high", "medium", "low"}; // as RKNN_FLAG_PRIOR_*
    const char *name = getenv("RKNND_PRIORITY");
    uint32_t i = 0;
    if (!name || !*name)
        return 0;
    while (i < 3 && strcmp(name, names[i]) != 0)
        i++;
    if (i == 3)
        return error_set(e, STATUS_PARAM_INVALID,
                         "RKNND_PRIORITY \"%.40s\" is none of high, medium and low", name);
    if ((*flags & PRIORITY_MASK) < i)
        *flags = (*flags & ~PRIORITY_MASK) | i;
    return 0;
}

int init_open_model(struct model *m, uint32_t flags, const char *options, rknn_context *ret,
                    struct error *e)
{
    struct connection *c = NULL;
    int r = limit_priority(&flags, e);
    if (r == 0)
        r = init_bring_model(NULL, m, &c, e);
    if (r < 0)
        return r;
    rknnd_ContextOpen message = {.flags = flags};
    memcpy(message.sha256, m->sha256, sizeof message.sha256);
    message_set_text(message.options, options);
    r = context_open(c, MESSAGE_CONTEXT_OPEN, &message, flags, ret, e);
    return r;
}

RKNN_EXPORT int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
                          rknn_init_extend *extend)
{
    struct error e;
    struct model m = {.fd = -1};
    init_prepare();
    int r = context ? check_flags(flag, &e)
                    : error_set(&e, STATUS_PARAM_INVALID, "the place for the context is NULL");
    if (log_level_now() >= LOG_DEBUG) // the SDK guide (5.3.2): level 4 shows every layer
        flag |= RKNN_FLAG_COLLECT_PERF_MASK;
    if (r == 0)
        r = check_shared(flag, extend, &e);
    if (r == 0)
        r = find_model(&m, model, size, flag, extend, &e);
    if (r == 0)
        r = init_open_model(&m, flag, load_options(), context, &e);
    char about[sizeof m.name + 8] = "";
    if (m.name[0])
        snprintf(about, sizeof about, "model %s", m.name);
    model_done(&m);
    return last_error_keep_about("rknn_init", about, r, &e);
}

// The program will use the duplicate without querying it, so what its queries told is inherited.
static void init_inherit(const struct context *from, rknn_context number)
{
    struct error unwanted; // the next call with it meets it again
    cleanup(context_leave_p) struct context *c = NULL;
    if (context_enter(number, &c, &unwanted) == 0)
        c->old_attrs = from->old_attrs;
}

// The duplicate has a connection of its own in the same session: runs of both can be under way at
// once.
static int open_duplicate(rknn_context from, rknn_context *ret, struct registrations *ops,
                          struct error *e)
{
    cleanup(context_leave_p) struct context *c = NULL;
    struct connection *beside = NULL;
    int r = context_enter_model(from, &c, e);
    if (r == 0)
        r = callbacks_copy_registrations(c->callbacks, ops, e);
    if (r < 0)
        return r;
    if (c->info.n_shape_sets > 1)
        return error_set(e, STATUS_FAIL,
                         "a model with dynamic shapes cannot be duplicated (SDK guide 5.4.4.1); "
                         "open it again");
    rknnd_ContextDup message = {.context = c->info.context};
    r = server_connect_beside(c->connection, &beside, e);
    if (r < 0)
        return r;
    r = context_open(beside, MESSAGE_CONTEXT_DUP, &message, c->flags, ret, e);
    if (r == 0)
        init_inherit(c, *ret);
    return r;
}

// The duplicate has the custom operators of its origin, with an init() of its own.
static int init_duplicate(rknn_context from, rknn_context *ret, struct error *e)
{
    struct registrations ops = {0};
    struct error unwanted;
    rknn_context opened;
    int r = open_duplicate(from, &opened, &ops, e);
    if (r == 0) {
        r = ops.n ? callbacks_register(opened, ops.ops, ops.n, e) : 0;
        if (r < 0)
            context_end(opened, &unwanted);
        else
            *ret = opened;
    }
    free(ops.ops);
    return r;
}

RKNN_EXPORT int rknn_dup_context(rknn_context *context_in, rknn_context *context_out)
{
    struct error e;
    int r;
    if (!context_in || !context_out)
        r = error_set(&e, STATUS_PARAM_INVALID, "context_in or context_out is NULL");
    else
        r = init_duplicate(*context_in, context_out, &e);
    return last_error_keep("rknn_dup_context", r, &e);
}

RKNN_EXPORT int rknn_destroy(rknn_context context)
{
    struct error e;
    return last_error_keep("rknn_destroy", context_end(context, &e), &e);
}
