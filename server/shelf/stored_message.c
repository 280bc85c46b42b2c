#include "server/shelf/stored_message.h"

#include "server/models/store.h"

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

int stored_check_name(const char *name, const char *version, struct error *e)
{
    int r = shelf_check_name(name, e);
    return r == 0 && *version ? shelf_check_version(version, e) : r;
}
