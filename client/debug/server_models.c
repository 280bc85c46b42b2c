// A server's models by name (MODEL_PUSH, MODEL_LIST, MODEL_MANIFEST, MODEL_REMOVE, MODEL_DEFAULT,
// MODEL_FIND and MODEL_PULL).
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text/text.h"
#include "client/api/init.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/link/servers.h"
#include "client/model/stored.h"
#include "client/model/upload.h"
#include "client/sized.h"
#include "rknnd.h"

#define TAKE(to, from)                                                                             \
    do {                                                                                           \
        message_set_text(to, from);                                                                \
        text_make_printable(to);                                                                   \
    } while (0)

static void take_stored(const rknnd_StoredModel *m, rknnd_stored_model *ret)
{
    *ret = (rknnd_stored_model){.struct_size = sizeof *ret,
                                .batch = m->batch,
                                .n_labels = m->n_labels,
                                .is_default = m->is_default,
                                .loaded = m->loaded,
                                .size = m->size,
                                .time_s = m->time_s};
    for (size_t i = 0; i < sizeof m->sha256; i++)
        sprintf(ret->sha256 + 2 * i, "%02x", m->sha256[i]);
    TAKE(ret->name, m->name);
    TAKE(ret->version, m->version);
    TAKE(ret->file, m->file);
    TAKE(ret->owner, m->owner);
    TAKE(ret->chip, m->chip);
    TAKE(ret->problem, m->problem);
}

static int give_stored(const rknnd_StoredModel *m, rknnd_stored_model *ret, struct error *e)
{
    rknnd_stored_model ours;
    take_stored(m, &ours);
    return ret ? sized_give(ret, &ours, sizeof ours, e) : 0;
}

// With the scheme or without it.
static int parse_name(const char *name, rknnd_StoredName *ret, struct error *e)
{
    if (!name)
        return error_set(e, STATUS_PARAM_INVALID, "the model's name is NULL");
    return stored_parse(stored_is_meant(name) ? name + strlen(STORED_SCHEME) : name, ret, e);
}

// ---- pushing ------------------------------------------------------------------------------------

// The server has the bytes already, as of any model that is opened: the message only says under
// which name they are kept. The answer may take as long as a disk does.
static int push_message(struct connection *c, const struct model *m, const rknnd_StoredName *name,
                        const char *labels, rknnd_StoredModel *ret, struct error *e)
{
    rknnd_ModelPush message = {0};
    struct request request = {.type = MESSAGE_MODEL_PUSH, .reply = ret};
    struct iovec payload = {(void *)(uintptr_t)labels, labels ? strlen(labels) : 0};
    memcpy(message.sha256, m->sha256, sizeof message.sha256);
    message_set_text(message.name, name->name);
    message_set_text(message.version, name->version);
    pthread_mutex_lock(&c->lock);
    int r = connection_send(c, &request, &message, &payload, payload.iov_len > 0, e);
    if (r == 0)
        r = connection_wait(c, &request, CLOCK_FOREVER, e);
    pthread_mutex_unlock(&c->lock);
    return r;
}

// A path may be the name of a stored model, too: then that one gets another name.
static int push_file(const char *uri, const char *path, const rknnd_StoredName *name,
                     const char *labels, rknnd_StoredModel *ret, struct error *e)
{
    struct connection *c = NULL;
    struct model m = {.fd = -1};
    int r = stored_or_file(&m, path, e);
    if (r == 0)
        r = init_bring_model(uri, &m, &c, e);
    if (r == 0)
        r = push_message(c, &m, name, labels, ret, e);
    server_disconnect(c);
    model_done(&m);
    return r;
}

RKNN_EXPORT int rknnd_push_model(const char *uri, const char *path, const char *name,
                                 const char *labels, rknnd_stored_model *stored)
{
    struct error e;
    rknnd_StoredName parsed;
    rknnd_StoredModel reply;
    init_prepare();
    int r = path ? parse_name(name, &parsed, &e)
                 : error_set(&e, STATUS_PARAM_INVALID, "the path is NULL");
    if (r == 0)
        r = push_file(uri, path, &parsed, labels, &reply, &e);
    if (r == 0)
        r = give_stored(&reply, stored, &e);
    return last_error_keep("rknnd_push_model", r, &e);
}

// ---- asking -------------------------------------------------------------------------------------

// n was bounded by the size of the list, so the allocation is, too.
static int take_models(uint32_t n, struct bytes rest, rknnd_list **ret, struct error *e)
{
    cleanup(free_p) rknnd_list *list = sized_list_new(n, sizeof(rknnd_stored_model), 0, NULL);
    if (!list)
        return error_no_memory(e, "models", n * sizeof(rknnd_stored_model));
    rknnd_stored_model *models = (rknnd_stored_model *)(list + 1);
    for (uint32_t i = 0; i < n; i++) {
        rknnd_StoredModel m;
        int r = message_delimited_take(rknnd_StoredModel_fields, &rest, &m, e);
        if (r < 0)
            return r;
        take_stored(&m, &models[i]);
    }
    *ret = steal_ptr(list);
    return 0;
}

RKNN_EXPORT int rknnd_list_models(const char *uri, rknnd_list **models)
{
    struct error e;
    cleanup(one_shot_end_p) struct connection *c = NULL;
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_StoredListReply reply;
    struct request request = {
        .type = MESSAGE_MODEL_LIST, .reply = &reply, .payload = payload_take, .owner = &list};
    int r = models ? one_shot_begin(uri, &c, &e)
                   : error_set(&e, STATUS_PARAM_INVALID, "models is NULL");
    if (r == 0)
        r = connection_call(c, &request, &(rknnd_Empty){0}, &e);
    if (r == 0 && reply.n_models > list.size)
        r = error_set(&e, STATUS_FAIL, "the server tells of %u models in %zu bytes", reply.n_models,
                      list.size);
    if (r == 0)
        r = take_models(reply.n_models, (struct bytes){list.data, list.size}, models, &e);
    payload_done(&list);
    return last_error_keep("rknnd_list_models", r, &e);
}

static int ask_manifest(const char *uri, const rknnd_StoredName *name, char **json, struct error *e)
{
    cleanup(one_shot_end_p) struct connection *c = NULL;
    struct payload text = {.limit = LIMIT_TEXT_BYTES};
    struct request request = {
        .type = MESSAGE_MODEL_MANIFEST, .payload = payload_take, .owner = &text};
    int r = one_shot_begin(uri, &c, e);
    if (r == 0)
        r = connection_call(c, &request, name, e);
    if (r == 0)
        *json = (char *)steal_ptr(text.data);
    payload_done(&text);
    return r;
}

RKNN_EXPORT int rknnd_get_manifest(const char *uri, const char *name, char **json)
{
    struct error e;
    rknnd_StoredName message;
    int r =
        json ? parse_name(name, &message, &e) : error_set(&e, STATUS_PARAM_INVALID, "json is NULL");
    if (r == 0)
        r = ask_manifest(uri, &message, json, &e);
    return last_error_keep("rknnd_get_manifest", r, &e);
}

static int change_stored(const char *uri, uint16_t type, const char *name, struct error *e)
{
    rknnd_StoredName message;
    struct request request = {.type = type};
    int r = parse_name(name, &message, e);
    return r < 0 ? r : one_shot_call(uri, &request, &message, e);
}

RKNN_EXPORT int rknnd_remove_model(const char *uri, const char *name)
{
    struct error e;
    return last_error_keep("rknnd_remove_model", change_stored(uri, MESSAGE_MODEL_REMOVE, name, &e),
                           &e);
}

RKNN_EXPORT int rknnd_set_default_model(const char *uri, const char *name)
{
    struct error e;
    return last_error_keep("rknnd_set_default_model",
                           change_stored(uri, MESSAGE_MODEL_DEFAULT, name, &e), &e);
}

// ---- pulling ------------------------------------------------------------------------------------

static int pull_part(struct connection *c, const rknnd_StoredModel *m, uint64_t at,
                     struct payload *part, struct error *e)
{
    rknnd_ModelPull message = {.offset = at};
    struct request request = {.type = MESSAGE_MODEL_PULL, .payload = payload_take, .owner = part};
    memcpy(message.sha256, m->sha256, sizeof message.sha256);
    int r = connection_call(c, &request, &message, e);
    if (r == 0 && (part->size == 0 || part->size > m->size - at))
        r = error_set(e, STATUS_FAIL, "server %s gives %zu bytes of a model that has %llu more",
                      c->uri, part->size, (unsigned long long)(m->size - at));
    return r;
}

static int check_pulled(struct sha256 *hash, const rknnd_StoredModel *m, struct error *e)
{
    uint8_t got[SHA256_SIZE];
    sha256_final(hash, got);
    return memcmp(got, m->sha256, sizeof got) == 0
               ? 0
               : error_set(e, STATUS_FAIL,
                           "the bytes that came are not the model's (its SHA-256 is "
                           "another one)");
}

static int pull_parts(struct connection *c, const rknnd_StoredModel *m,
                      rknnd_part_callback *callback, void *user, struct error *e)
{
    struct sha256 hash;
    int r = sha256_init(&hash, e);
    if (r < 0)
        return r;
    for (uint64_t at = 0; at < m->size && r == 0;) {
        struct payload part = {.limit = LIMIT_CHUNK_BYTES};
        r = pull_part(c, m, at, &part, e);
        if (r == 0 && callback(user, part.data, part.size) < 0)
            r = error_set(e, STATUS_FAIL, "the program wants no more of the model");
        if (r == 0)
            sha256_update(&hash, part.data, part.size);
        at += part.size;
        payload_done(&part);
        upload_tell(at, m->size);
    }
    if (r == 0)
        return check_pulled(&hash, m, e);
    sha256_done(&hash);
    return r;
}

RKNN_EXPORT int rknnd_pull_model(const char *uri, const char *name, rknnd_part_callback *callback,
                                 void *user, rknnd_stored_model *stored)
{
    struct error e;
    cleanup(one_shot_end_p) struct connection *c = NULL;
    rknnd_StoredName message;
    rknnd_StoredModel found;
    struct request request = {.type = MESSAGE_MODEL_FIND, .reply = &found};
    int r = callback ? parse_name(name, &message, &e)
                     : error_set(&e, STATUS_PARAM_INVALID, "callback is NULL");
    if (r == 0)
        r = one_shot_begin(uri, &c, &e);
    if (r == 0)
        r = connection_call(c, &request, &message, &e);
    if (r == 0)
        r = pull_parts(c, &found, callback, user, &e);
    if (r == 0)
        r = give_stored(&found, stored, &e);
    return last_error_keep("rknnd_pull_model", r, &e);
}
