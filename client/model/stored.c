#include "client/model/stored.h"

#include <stdio.h>

#include "base/text/text.h"
#include "client/record/record.h"

static int too_long(const char *what, const char *text, size_t size, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "\"%.80s…\" is longer than a model's %s may be (%zu)",
                     text, what, size - 1);
}

// What letters there may be the server knows.
int stored_parse(const char *text, rknnd_StoredName *ret, struct error *e)
{
    size_t n = strcspn(text, "@");
    rknnd_StoredName m = {0};
    if (n == 0 || (text[n] && !text[n + 1]))
        return error_set(e, STATUS_PARAM_INVALID,
                         "\"%.100s\" is no name of a stored model (NAME or NAME@VERSION)", text);
    if (n >= sizeof m.name)
        return too_long("name", text, sizeof m.name, e);
    if (text[n] && strlen(text + n + 1) >= sizeof m.version)
        return too_long("version", text + n + 1, sizeof m.version, e);
    memcpy(m.name, text, n);
    if (text[n])
        strcpy(m.version, text + n + 1);
    *ret = m;
    return 0;
}

int stored_model(struct model *m, const char *path, struct error *e)
{
    rknnd_StoredName name;
    const char *text = path + strlen(STORED_SCHEME);
    *m = (struct model){.fd = -1};
    snprintf(m->name, sizeof m->name, "%s", path);
    text_make_printable(m->name);
    int r = stored_parse(text, &name, e);
    if (r == 0)
        snprintf(m->stored, sizeof m->stored, "%s", text);
    return r;
}

int stored_or_file(struct model *m, const char *path, struct error *e)
{
    return stored_is_meant(path) ? stored_model(m, path, e) : model_from_file(m, path, 0, 0, e);
}

// A recording has its models in it.
static int check_recorded(const struct connection *c, struct error *e)
{
    return c->record ? error_set(e, STATUS_PARAM_INVALID,
                                 "a recording wants the model's file: `rknnctl model pull` it, and "
                                 "open that")
                     : 0;
}

int stored_find(struct connection *c, struct model *m, struct error *e)
{
    rknnd_StoredName message;
    rknnd_StoredModel reply = {0};
    struct request r = {.type = MESSAGE_MODEL_FIND, .reply = &reply};
    int s = check_recorded(c, e);
    if (s == 0)
        s = stored_parse(m->stored, &message, e);
    if (s == 0)
        s = connection_call(c, &r, &message, e);
    if (s < 0)
        return s;
    memcpy(m->sha256, reply.sha256, sizeof m->sha256);
    m->size = reply.size;
    return 0;
}
