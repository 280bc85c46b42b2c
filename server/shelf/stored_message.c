// What a list of stored models says is made once for all who ask, with every name in it, and cut
// for each viewer afterwards: names of files and owners are for those who may see them alone.
#include "server/shelf/stored_message.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <stdlib.h>

#include "server/clients/rights.h"
#include "server/clients/user.h"
#include "server/models/store.h"
#include "server/net/connection.h"

void stored_describe(const struct store *store, const struct stored *s, rknnd_StoredModel *ret)
{
    const struct manifest *m = &s->manifest;
    const struct model *held = store_find((struct store *)(uintptr_t)store, m->sha256);
    *ret = (rknnd_StoredModel){.size = m->size,
                               .batch = m->batch,
                               .n_labels = m->n_labels,
                               .time_s = m->time_s,
                               .is_default = s->is_default,
                               .loaded = held && held->state == MODEL_LOADED};
    memcpy(ret->sha256, m->sha256, sizeof ret->sha256);
    message_set_text(ret->name, s->name);
    message_set_text(ret->version, s->version);
    message_set_text(ret->file, m->file);
    message_set_text(ret->owner, m->owner);
    message_set_text(ret->chip, m->chip);
    message_set_text(ret->problem, s->problem);
}

// ---- whom one is told of ------------------------------------------------------------------------

// All users of this machine may have one address of the loopback interface, and all behind a router
// one of the network: without a proof of who it is, nobody is told that something is his.
void stored_viewer_set(struct stored_viewer *v, const struct connection *c)
{
    *v = (struct stored_viewer){.all = c->rights & RIGHT_SEE_ALL};
    if (c->user->local || *c->user->identity)
        message_set_text(v->own, c->user->title);
}

bool stored_names_seen(const struct stored_viewer *v, const char *owner)
{
    return v->all || (*v->own && strcmp(v->own, owner) == 0);
}

void stored_describe_to(const struct connection *c, const struct store *store,
                        const struct stored *s, rknnd_StoredModel *ret)
{
    struct stored_viewer v;
    stored_viewer_set(&v, c);
    stored_describe(store, s, ret);
    if (!stored_names_seen(&v, ret->owner))
        *ret->file = *ret->owner = 0;
}

// Where file and owner, which are neighbours, are in a StoredModel; nothing if he may see them.
static bool find_names(const struct stored_viewer *v, pb_istream_t line, size_t *from, size_t *to)
{
    size_t size = line.bytes_left;
    char owner[sizeof v->own] = "";
    *from = *to = 0;
    while (line.bytes_left > 0) {
        size_t at = size - line.bytes_left;
        pb_wire_type_t type;
        uint32_t tag;
        bool end;
        if (!pb_decode_tag(&line, &type, &tag, &end))
            return false;
        pb_istream_t text = line;
        if (!pb_skip_field(&line, type))
            return false;
        if (tag != rknnd_StoredModel_file_tag && tag != rknnd_StoredModel_owner_tag)
            continue;
        *from = *to ? *from : at;
        *to = size - line.bytes_left;
        uint32_t length;
        if (tag == rknnd_StoredModel_owner_tag &&
            (!pb_decode_varint32(&text, &length) || length >= sizeof owner ||
             !pb_read(&text, (pb_byte_t *)owner, length)))
            return false;
    }
    if (stored_names_seen(v, owner))
        *from = *to = 0;
    return true;
}

// Without decoding: there may be thousands, and all of them go in one turn of the loop.
int stored_list_hide(const struct stored_viewer *v, struct bytes lines, struct delimited *ret,
                     struct error *e)
{
    pb_istream_t in = pb_istream_from_buffer(lines.data, lines.size), line;
    *ret = (struct delimited){.data = malloc(lines.size ? lines.size : 1), .room = lines.size};
    if (!ret->data)
        return error_no_memory(e, "a list of models", lines.size);
    pb_ostream_t out = pb_ostream_from_buffer(ret->data, lines.size);
    bool good = true;
    while (good && in.bytes_left > 0) {
        size_t from, to;
        if (!(good = pb_make_string_substream(&in, &line)))
            break;
        size_t size = line.bytes_left;
        const uint8_t *start = lines.data + lines.size - in.bytes_left - size;
        good = find_names(v, line, &from, &to) && pb_encode_varint(&out, size - (to - from)) &&
               pb_write(&out, start, from) && pb_write(&out, start + to, size - to) &&
               pb_close_string_substream(&in, &line);
    }
    ret->size = out.bytes_written;
    if (good)
        return 0;
    free(ret->data);
    return error_set(e, STATUS_FAIL, "the list of models cannot be made");
}

int stored_check_name(const char *name, const char *version, struct error *e)
{
    int r = shelf_check_name(name, e);
    return r == 0 && *version ? shelf_check_version(version, e) : r;
}
