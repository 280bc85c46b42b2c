// Models by name: what a client says about them, and what the answers have to be. Names are few, so
// that clients are in each other's way.
#include <string.h>

#include "tests/stateful/world.h"

#define N_NAMES 5

static const char *const names[N_NAMES] = {"a", "b.c", "d-2", "E_", "f"};

static const char *any_name(void)
{
    static const char *const wrong_ones[] = {"", "../a", "a/b", ".x", "nobody", "a b"};
    return chance(950) ? names[below(N_NAMES)] : wrong_ones[below(6)];
}

// Mostly of the few that are pushed, else the default.
static const char *any_version(void)
{
    static const char *const versions[] = {"1", "2", "v3", "", "", "99", "/"};
    return versions[below(7)];
}

static void say_push(struct client *c)
{
    static const char labels[] = "cat\ndog\r\n\nlast";
    static uint8_t many[70000];
    struct file *f = &world.files[below(world.n_files)];
    rknnd_ModelPush m = {0};
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    m.sha256[0] ^= chance(20);
    message_set_text(m.name, any_name());
    message_set_text(m.version, chance(900) ? any_version() : "");
    memset(many, chance(500) ? '\n' : 0xff, sizeof many); // too many, or no UTF-8
    if (chance(500))
        client_ask(c, MESSAGE_MODEL_PUSH, &m, labels, sizeof labels - 1, f);
    else
        client_ask(c, MESSAGE_MODEL_PUSH, &m, many, chance(900) ? 0 : 1 + below(sizeof many), f);
}

static void say_named(struct client *c, uint16_t type)
{
    rknnd_StoredName m = {0};
    message_set_text(m.name, any_name());
    message_set_text(m.version, any_version());
    client_ask(c, type, &m, NULL, 0, NULL);
}

// Of what this connection has found last, or of anything.
static void say_pull(struct client *c)
{
    struct file *f = c->found && chance(900) ? c->found : &world.files[below(world.n_files)];
    rknnd_ModelPull m = {.offset = chance(800) ? below((uint32_t)f->size) : 0};
    if (chance(30))
        m.offset = f->size + below(2) * (UINT64_MAX - f->size);
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    struct request *r = client_ask(c, MESSAGE_MODEL_PULL, &m, NULL, 0, f);
    r->part = m.offset;
}

void client_say_stored(struct client *c)
{
    uint32_t which = below(100);
    if (which < 12)
        say_push(c);
    else if (which < 42)
        say_named(c, MESSAGE_MODEL_FIND);
    else if (which < 62)
        say_pull(c);
    else if (which < 72)
        say_named(c, MESSAGE_MODEL_REMOVE);
    else if (which < 82)
        say_named(c, MESSAGE_MODEL_DEFAULT);
    else if (which < 92)
        say_named(c, MESSAGE_MODEL_MANIFEST);
    else
        client_ask(c, MESSAGE_MODEL_LIST, &(rknnd_Empty){0}, NULL, 0, NULL);
}

// ---- answers ------------------------------------------------------------------------------------

static void take_stored(struct client *c, const rknnd_StoredModel *m)
{
    for (struct file *f = world.files; f < world.files + world.n_files; f++)
        if (memcmp(m->sha256, f->sha256, sizeof m->sha256) == 0 && m->size == f->size) {
            c->found = f;
            return;
        }
    wrong("%s@%s, which nobody has pushed", m->name, m->version);
}

static void take_list(uint32_t n, struct bytes payload)
{
    rknnd_StoredModel m;
    struct error e;
    for (uint32_t i = 0; i < n; i++)
        if (message_delimited_take(rknnd_StoredModel_fields, &payload, &m, &e) < 0)
            wrong("model %u of a list of %u cannot be read: %s", i, n, e.text);
    if (payload.size > 0)
        wrong("%zu bytes behind a list of models", payload.size);
}

static void take_pulled(const struct request *r, struct bytes payload)
{
    const struct file *f = r->context.file;
    if (payload.size == 0 || r->part >= f->size || payload.size > f->size - r->part ||
        memcmp(payload.data, f->data + r->part, payload.size) != 0)
        wrong("%zu bytes from %llu on are not the model's", payload.size,
              (unsigned long long)r->part);
}

void client_take_stored(struct client *c, const struct request *r, const union message_any *m,
                        struct bytes payload)
{
    if (r->type == MESSAGE_MODEL_FIND)
        take_stored(c, &m->MODEL_FIND_reply);
    else if (r->type == MESSAGE_MODEL_LIST)
        take_list(m->MODEL_LIST_reply.n_models, payload);
    else if (r->type == MESSAGE_MODEL_PULL && !r->spoilt)
        take_pulled(r, payload);
    else if (r->type == MESSAGE_MODEL_MANIFEST &&
             (payload.size < 2 || payload.data[0] != '{' || payload.data[payload.size - 1] != '}'))
        wrong("a manifest that is no object");
}
