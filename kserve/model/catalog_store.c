// Models that the daemon keeps. It is its own index: nothing is cached here, and programs open
// "rknnd:NAME@VERSION" in place of a path.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknnd.h"

#include "kserve/model/catalog.h"
#include "kserve/model/served_model.h"

#define STAMP_DIGITS 16 // of the hash

// A version never changes, but may be removed and pushed again with other bytes.
static uint64_t stamp_of(const char *sha256)
{
    char digits[STAMP_DIGITS + 1];
    snprintf(digits, sizeof digits, "%.*s", STAMP_DIGITS, sha256);
    return strtoull(digits, NULL, 16);
}

static int add_stored(struct catalog *c, const rknnd_stored_model *s, uint64_t rank,
                      struct error *e)
{
    struct catalog_model *m = catalog_add(c, s->name, s->version, e);
    if (!m)
        return e->code;
    const char *dot = strrchr(s->file, '.');
    snprintf(m->path, sizeof m->path, "rknnd:%s@%s", s->name, s->version);
    snprintf(m->obstacle, sizeof m->obstacle, "%s", s->problem);
    m->rank = rank;
    m->is_default = s->is_default != 0;
    m->is_onnx = dot && strcmp(dot, ".onnx") == 0;
    m->stamp = stamp_of(s->sha256);
    m->labels = s->n_labels > 0 ? strdup(m->path) : NULL;
    return s->n_labels == 0 || m->labels ? 0 : error_no_memory(e, "labels", strlen(m->path));
}

int catalog_list_store(const char *place, const char *name, struct catalog *ret, struct error *e)
{
    rknnd_list *models;
    int r = rknnd_list_models(place, &models);
    if (r < 0) {
        library_error(e, r);
        return error_prefix(e, "the models that the daemon keeps");
    }
    r = 0;
    for (uint32_t i = 0; i < models->n && r == 0; i++) {
        const rknnd_stored_model *s = rknnd_stored_model_at(models, i);
        if (!name || strcmp(s->name, name) == 0)
            r = add_stored(ret, s, i + 1, e);
    }
    rknnd_free(models);
    return r;
}
